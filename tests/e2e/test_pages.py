"""The pages in a real browser, over a database with something in every state and a real broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.browser import BROWSER_MARKS
from tests.e2e.portal import Portal, addresses, admin_addresses, until, visit
from tests.e2e.seeded import browser, ids, open_as, portal
from tests.factories import NASTY_NAME

pytestmark = BROWSER_MARKS
__all__ = ["browser", "ids", "open_as", "portal"]


USERS = ("owner", "admin")
RULES: dict[str, dict[str, Any]] = {"light": {}, "dark": {"runOnly": ["color-contrast", "link-in-text-block"]}}
"""What axe looks for in each theme, everything where nothing is named: in the dark only colours are others."""
DOUBLE_IDS = """() => {
  const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
  return [...new Set(ids.filter((id, at) => ids.indexOf(id) !== at))];
}"""


def seen_by(user: str, ids: dict[str, str]) -> dict[str, str]:
    return addresses(ids) if user == "owner" else admin_addresses()


@pytest.mark.parametrize("user", USERS)
def test_no_page_has_an_accessibility_fault(open_as: Callable[..., Any], ids: dict[str, str], user: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = open_as(user)
    page.context.clear_cookies(name="theme")  # follows the system: one page is seen in both
    faults, grounds = [], set()
    for name, url in seen_by(user, ids).items():
        page.emulate_media(color_scheme="light", reduced_motion="reduce")  # else colours are on their way
        visit(page, url)
        page.wait_for_load_state("load")
        if name == "live":
            page.wait_for_selector(".uplot")
        if name == "spec":
            page.wait_for_selector(".model-card")
        if name == "columns":
            page.click("summary:has-text('Columns')")
            page.click("summary:has-text('Save as a view')")
        for theme, rules in RULES.items():
            page.emulate_media(color_scheme=theme)
            page.wait_for_function("theme => document.documentElement.dataset.bsTheme === theme", arg=theme)
            grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            found = Axe().run(page, options={"resultTypes": ["violations"]} | rules).response["violations"]
            faults += [
                f"{name} ({theme}): {fault['id']}: {[node['target'] for node in fault['nodes']][:3]}"
                for fault in found if fault["impact"] in {"moderate", "serious", "critical"}
            ]  # fmt: skip
        faults += [f"{name}: two of the id {double}" for double in page.evaluate(DOUBLE_IDS)]
    assert not faults, "\n".join(faults)
    assert len(grounds) == len(RULES), "not every theme was seen"


@pytest.mark.parametrize("user", USERS)
def test_no_page_scrolls_sideways_on_a_phone(open_as: Callable[..., Any], ids: dict[str, str], user: str) -> None:
    page = open_as(user, width=360)
    wide = []
    for name, url in seen_by(user, ids).items():
        visit(page, url)
        page.wait_for_load_state("load")
        if page.evaluate("document.documentElement.scrollWidth") > 360:
            wide.append(name)
    assert not wide


def test_names_given_by_people_stay_text(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as()
    for name in ("failed data", "results", "logs", "datasets"):
        visit(page, addresses(ids)[name])
        page.wait_for_load_state("load")
        assert page.evaluate("window.hacked") is None
    visit(page, addresses(ids)["failed data"])
    assert page.inner_text("h1") == NASTY_NAME


def test_the_keyboard_reaches_content_and_pages(open_as: Callable[..., Any], portal: Portal) -> None:
    page = open_as()
    visit(page, "/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip-link"
    page.keyboard.press("Enter")
    page.keyboard.press("g")
    page.keyboard.press("j")
    page.wait_for_url(f"{portal.url}/jobs/")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "q"


def test_a_filter_is_in_the_address_and_survives_a_reload(open_as: Callable[..., Any]) -> None:
    page = open_as()
    visit(page, "/jobs/")
    page.select_option("#state", "succeeded")
    page.wait_for_url("**state=succeeded**")
    until(page, "document.querySelectorAll('#jobs tbody tr').length === 1")
    page.reload()
    assert page.locator("#jobs tbody tr").count() == 1
    page.go_back()
    until(page, "document.querySelectorAll('#jobs tbody tr').length > 5")


def test_form_and_yaml_follow_each_other(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as()
    visit(page, addresses(ids)["spec"])
    page.wait_for_selector(".model-card")
    page.click("#yaml > summary")
    page.click("summary:has-text('Training')")
    page.fill("#spec-training-epochs", "7")
    until(page, "document.querySelector('.cm-content').innerText.includes('epochs: 7')")
    until(page, "document.querySelector('[data-spec-state]').textContent === 'Valid'")
    page.click(".cm-content")
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("training:\n  epochs: 9\n  batch_size: many\n")
    until(page, "document.querySelector('[data-spec-state]').textContent.includes('problem')")
    assert page.is_disabled("[data-go]")
    assert page.inner_text("[data-go-note]").startswith("First correct ")
    assert "batch_size" in page.inner_text("[data-problems]")
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("training:\n  epochs: 9\n")
    until(page, "document.querySelector('#spec-training-epochs').value === '9'")
    until(page, "!document.querySelector('[data-go]').disabled")


def test_what_was_typed_last_is_submitted(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as()
    visit(page, addresses(ids)["spec"])
    page.wait_for_selector(".model-card")
    page.click("summary:has-text('Training')")
    page.fill("#spec-training-learning-rate", "0,003")
    page.fill("#spec-name", "typed and sent")
    page.press("#spec-name", "Enter")
    page.wait_for_url("**/cost/")
    assert "typed and sent" in page.inner_text("h1")
    visit(page, page.url.removesuffix("cost/") + "spec/")
    assert "learning_rate: 0.003" in page.content()


def test_a_choice_that_is_not_saved_is_not_left_without_a_word(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page, asked = open_as(), []
    visit(page, addresses(ids)["table"])
    page.select_option("#target", index=0)
    until(page, "document.querySelector('[data-unsaved]').textContent === 'Not saved yet.'")

    def stay(dialog: Any) -> None:
        asked.append(dialog.type)
        dialog.dismiss()

    page.once("dialog", stay)
    page.click("a:has-text('Train a model')")
    assert asked == ["beforeunload"] and "/datasets/" in page.url


def test_a_draft_is_made_edited_and_diffed(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as()
    visit(page, addresses(ids)["spec"])
    page.wait_for_selector(".model-card")
    until(page, "document.querySelector('[data-spec-state]').textContent === 'Valid'")
    page.click("button:has-text('Look at the program first')")
    page.wait_for_url("**/program/")
    page.click(".cm-content")
    page.keyboard.press("Control+End")
    page.keyboard.insert_text("\nEDITED = True\n")
    page.keyboard.press("Control+s")
    until(page, "document.querySelector('[data-save-state]').textContent === 'Saved.'")
    assert page.is_visible(".tree [aria-current] .mark") and page.is_visible("[data-put-back]")
    until(page, "document.querySelector('#diff').innerText.includes('+EDITED = True')")
    page.reload()
    assert page.locator(".tree .mark").count() == 1
