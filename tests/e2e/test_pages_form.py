"""The form of a spec in a real browser: what is ticked and folded out there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

from tests.e2e.browser import BROWSER_MARKS
from tests.e2e.portal import ROOT, Portal, addresses, until, visit
from tests.e2e.seeded import browser, ids, open_as, portal

pytestmark = BROWSER_MARKS
__all__ = ["browser", "ids", "open_as", "portal"]

YAML = "document.querySelector('[data-source]').value"
VALID = "document.querySelector('[data-spec-state]').textContent === 'Valid'"


def opened(open_as: Callable[..., Any], ids: dict[str, str], **how: Any) -> Any:
    page = open_as(**how)
    visit(page, addresses(ids)["spec"])
    page.wait_for_selector(".model-card")
    until(page, VALID)
    return page


def write(page: Any, text: str) -> None:
    """The text of the spec, in place of what stands there."""
    page.click("#yaml > summary")
    page.click(".cm-content")
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def test_columns_are_left_out_by_ticking_them_but_never_the_target(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = opened(open_as, ids)
    page.click("summary:has(strong:text-is('Data'))")
    boxes = page.locator("[data-column-list] input")
    assert boxes.count() == page.locator("#spec-data-target option").count() - 1
    assert page.locator("[data-column-list] li:has-text('target') input").is_disabled()
    first = page.locator("[data-column-list] li:not(:has-text('target'))").first
    name = first.inner_text().split()[0]
    first.locator("input").focus()
    page.keyboard.press("Space")
    until(page, f"{YAML}.includes('- {name}')")
    until(page, VALID)
    assert page.inner_text("[data-column-count]") == "1 left out"
    assert first.locator("input").evaluate("box => box === document.activeElement"), "the keyboard stays where it was"
    page.keyboard.press("Space")
    until(page, f"!{YAML}.includes('- {name}')")


def test_text_and_figures_for_experts_are_folded_until_they_are_wanted(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = opened(open_as, ids)
    words = page.inner_text("main")
    assert "FLOP" not in words and not page.locator(".cm-editor").is_visible()
    page.click("#models-compared > summary")
    page.wait_for_selector("#models-compared canvas")
    page.click("#yaml > summary")
    page.wait_for_selector(".cm-content:has-text('dataset')")
    page.reload()
    page.wait_for_selector(".cm-content:has-text('dataset')")
    page.click("#yaml > summary")
    page.reload()
    until(page, VALID)
    assert not page.locator(".cm-editor").is_visible(), "it stays as it was left"


def test_a_link_to_the_text_of_a_spec_folds_it_out(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as()
    visit(page, f"{addresses(ids)['spec']}#yaml")
    page.wait_for_selector(".cm-content:has-text('dataset')")
    visit(page, f"/jobs/{ids['succeeded']}/spec/#yaml")
    page.wait_for_selector("#spec-text:has-text('dataset')")


def test_what_is_wrong_in_the_text_alone_folds_it_out(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = opened(open_as, ids)
    write(page, "training: [\n")
    page.click("#yaml > summary")
    page.wait_for_selector(".cm-editor .cm-lint-marker-error")


def test_metrics_are_offered_that_fit_the_task_as_it_is_known(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = opened(open_as, ids)
    offered = "[...document.querySelectorAll('#spec-objective-metric optgroup:enabled')].map((one) => one.label).join()"
    until(page, f"{offered} === 'for classes'")
    page.select_option("#spec-data-target", "alcohol")
    until(page, f"{offered} === 'for a number'")
    page.select_option("#spec-objective-metric", "rmse")
    page.select_option("#spec-data-target", "")  # as it is guessed, a class
    page.wait_for_selector("[data-problem='objective.metric']:has-text('is a metric of numbers')")
    until(page, f"{offered} === 'for classes,for a number'")
    page.select_option("#spec-objective-metric", "accuracy")
    until(page, f"{offered} === 'for classes'")


def test_what_is_chosen_while_an_earlier_answer_is_on_its_way_stays(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = opened(open_as, ids)
    held: list[Any] = []
    page.route("**/models/", lambda route: held.append(route), times=1)
    page.select_option("#spec-data-target", "alcohol")
    until(page, f"{VALID} && {YAML}.includes('target: alcohol')")
    while not held:
        page.wait_for_timeout(20)
    page.select_option("#spec-objective-metric", "rmse")
    with page.expect_response("**/models/"):
        held[0].continue_()
    until(page, f"{VALID} && {YAML}.includes('metric: rmse')")
    assert page.locator("#spec-objective-metric").input_value() == "rmse"


def test_a_value_that_the_form_does_not_offer_is_shown_and_stays(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = opened(open_as, ids)
    write(page, "data:\n  target: no_such\n")
    page.wait_for_selector("[data-problem='data.target']:has-text('no_such')")
    until(page, "document.querySelector('#spec-data-target').value === 'no_such'")
    page.fill("#spec-name", "kept")
    until(page, f"{YAML}.includes('name: kept') && {YAML}.includes('target: no_such')")


def test_a_project_beyond_those_of_the_page_is_found_by_typing(open_as: Callable[..., Any], portal: Portal) -> None:
    code = (
        "import django; django.setup()\nfrom harness.accounts.models import Project\n"
        "names = [f'Zoo {number:03}' for number in range(150)]\n"
        "Project.objects.bulk_create([Project(name=name, slug=name.lower().replace(' ', '-')) for name in names])\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=portal.env, check=True, timeout=60)
    page = open_as("admin")
    visit(page, "/datasets/upload/")
    options = "[...document.querySelector('#project').options].map((option) => option.value)"
    field = page.get_by_label("Find in the list Project")
    assert field.get_attribute("placeholder") == "Find in 152" and "zoo-149" not in page.evaluate(options)
    field.press_sequentially("149 zoo")
    field.press("Enter")  # at once: it waits for the answer
    until(page, "document.querySelector('#project').value === 'zoo-149'")
    assert field.input_value() == "" and len(page.evaluate(options)) > 100
    held: list[Any] = []
    page.route("**/project-names/**", lambda route: held.append(route))
    note, refused = page.locator(".select-note"), "document.querySelector('#project').validationMessage"
    field.fill("zoo 099")
    field.press("Enter")
    assert note.inner_text() == page.evaluate(refused) == "Looking for the project…", "it is not sent meanwhile"
    while not held:
        page.wait_for_timeout(20)
    page.locator("#project").focus()
    held.pop().abort()
    page.wait_for_selector(".select-note:has-text('The other projects could not be looked up.')")
    assert page.evaluate(refused) == "" and page.evaluate("document.querySelector('#project').value") == "zoo-149"
    page.unroute("**/project-names/**")
    field.fill("no such")
    page.wait_for_selector(".select-note:has-text('No project found.')")
    assert page.evaluate("document.getElementById('announcer').textContent") == "No project found."
    field.fill("")
    assert not note.is_visible()
