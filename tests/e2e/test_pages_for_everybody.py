"""The pages for who reads them aloud, enlarged or in the dark, and for who has no mouse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.browser import BROWSER_MARKS
from tests.e2e.portal import ROOT, addresses, until, visit
from tests.e2e.seeded import browser, ids, open_as, portal
from tests.untested import untested

__all__ = ["browser", "ids", "open_as", "portal"]
pytestmark = BROWSER_MARKS
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
NO_AXE = untested("what pages lack for some people", "run `npm ci` first")
BROKEN_RULES = """async () => {
  document.querySelectorAll("main details").forEach((fold) => { fold.open = true; });
  const runOnly = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
  const { violations } = await axe.run(document, { runOnly, resultTypes: ["violations"] });
  return violations.flatMap(({ id, nodes }) => nodes.slice(0, 3).map(({ html }) => `${id}: ${html.slice(0, 200)}`));
}"""
LOOKED_AT = {
    ("owner", 390, "light"): ("table", "choose data", "live", "logs"),
    ("owner", 1440, "dark"): ("jobs", "spec", "cost", "results", "predict"),
    ("admin", 1440, "light"): ("home", "pool", "queue", "projects", "account"),
}
"""Pages with the most kinds of parts; each takes about a second."""


@pytest.mark.skipif(not AXE.exists(), reason=NO_AXE)
@pytest.mark.parametrize(("user", "width", "theme"), LOOKED_AT)
def test_pages_keep_the_rules_by_which_everybody_can_use_them(
    open_as: Callable[..., Any], ids: dict[str, str], user: str, width: int, theme: str
) -> None:
    page = open_as(user, width=width, theme=theme)
    page.context.add_init_script(path=AXE)
    found = {}
    for name in LOOKED_AT[user, width, theme]:
        visit(page, addresses(ids)[name])
        page.wait_for_load_state("load")
        if name == "live":
            page.wait_for_selector(".uplot")
        found[name] = page.evaluate(BROKEN_RULES)
    assert {name: broken for name, broken in found.items() if broken} == {}


def test_the_field_of_a_file_shows_that_it_has_the_focus(open_as: Callable[..., Any]) -> None:
    page = open_as()
    visit(page, "/datasets/upload/")
    page.focus("h1 ~ * a, .crumbs a")
    while not page.evaluate("document.activeElement.matches('#file')"):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement !== document.body"), "the field is not reached"
    assert page.locator("#file + label").evaluate("label => getComputedStyle(label).outlineWidth") == "2px"


def test_the_editor_says_how_keys_leave_it(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as()
    visit(page, addresses(ids)["program"])
    editor = page.locator(".cm-content")
    assert "Escape, then Tab" in page.inner_text(f"#{editor.get_attribute('aria-describedby')}")
    editor.focus()
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.cm-editor') === null")


def test_a_line_of_a_curve_is_hidden_and_shown_by_keys(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as()
    visit(page, addresses(ids)["live"])
    name = page.locator("section[aria-label=loss] .u-label[role=button]").first
    assert page.locator("section[aria-label=loss] canvas[role=img]").get_attribute("aria-label").startswith("loss.")
    for key, pressed in (("Enter", "false"), ("Space", "true")):
        name.press(key)
        assert name.get_attribute("aria-pressed") == pressed
    names = page.locator("section[aria-label=loss] .u-label[role=button]")
    others = [names.nth(place) for place in range(1, names.count())]
    assert others
    for pressed in ("false", "true"):
        name.click(modifiers=["Control"])
        assert name.get_attribute("aria-pressed") == "true"
        assert {other.get_attribute("aria-pressed") for other in others} == {pressed}


def test_a_curve_is_zoomed_and_shown_as_a_whole_again_by_keys(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "start=" in request.url else None)
    visit(page, f"/jobs/{ids['succeeded']}/live/")
    chart, reset = (page.locator(f"section[aria-label=loss] {one}") for one in (".curve", "button >> text=Reset zoom"))
    page.wait_for_selector("section[aria-label=loss] .uplot")
    assert "zoom, ← and → move" in chart.get_attribute("aria-label") and not reset.is_visible()
    chart.focus()
    page.evaluate("""() => {
      const press = { key: "+", bubbles: true, cancelable: true };
      for (let time = 0; time < 3; time += 1) document.activeElement.dispatchEvent(new KeyboardEvent("keydown", press));
    }""")
    page.wait_for_selector("section[aria-label=loss] button:has-text('Reset zoom')")
    announced = "document.getElementById('announcer').textContent"
    assert page.evaluate(announced).startswith("loss: step ")
    before = page.evaluate(announced)
    page.keyboard.press("ArrowRight")
    assert page.evaluate(announced) != before
    page.wait_for_timeout(1500)
    assert len(asked) == 1, "finer points are asked for once the keys rest"
    page.keyboard.press("0")
    assert not reset.is_visible() and page.evaluate(announced) == "loss: all of it"
    assert page.evaluate("document.activeElement.classList.contains('curve')")


def test_a_cloud_of_points_is_zoomed_by_keys_and_is_named_by_what_it_shows(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as()
    visit(page, addresses(ids)["results"])
    chart = page.locator("section:has(h2:text-is('Predicted and true')) .analysis")
    chart.scroll_into_view_if_needed()
    until(page, "document.querySelector('.analysis[role=group] canvas') !== null")
    assert chart.get_attribute("aria-label").startswith("Predicted and true: chart. With the chart in focus, + and")
    bars = page.locator("section:has(h2:text-is('Residuals')) .analysis")
    assert bars.get_attribute("aria-label") == "Residuals. The table below has its figures."
    assert chart.get_attribute("aria-label").endswith("The table below has its figures.")
    hint = "text=Ctrl and the mouse wheel zoom, dragging moves."
    assert page.is_visible(hint)
    page.emulate_media(media="print")
    assert not page.is_visible(hint)
    page.emulate_media(media="screen")
    announced = "document.getElementById('announcer').textContent"
    chart.press("+")
    half = page.evaluate(announced)
    assert half.startswith("Predicted and true: true ")
    chart.press("ArrowRight")
    assert page.evaluate(announced) not in ("", half)
    chart.press("Escape")
    assert page.evaluate(announced) == "Predicted and true: all of it"


def test_the_lines_of_a_log_are_one_stop_of_tab_and_arrows_lead_to_the_others(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as()
    visit(page, f"/jobs/{ids['succeeded']}/logs/")
    view = page.locator("[data-view]")
    assert view.locator(".log-line").count() > 2
    page.wait_for_selector("[data-mount=logs][data-mounted]")
    view.focus()
    page.keyboard.press("Tab")
    assert page.evaluate("'earlier' in document.activeElement.dataset")
    page.keyboard.press("Tab")
    line = "document.activeElement.closest('.log-line')?.dataset.line"
    first = page.evaluate(line)
    assert first
    page.keyboard.press("ArrowDown")
    second = page.evaluate(line)
    page.keyboard.press("ArrowUp")
    assert second != first == page.evaluate(line)
    for other in ("Control", "Shift", "Alt", "Meta"):
        page.keyboard.press(f"{other}+ArrowDown")
        assert page.evaluate(line) == first, "keys of the browser are left to it"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.log-line') === null")


def test_tab_into_a_log_stops_at_the_line_that_a_link_led_to_while_it_is_in_sight(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as()
    visit(page, f"/jobs/{ids['succeeded']}/logs/")
    link = page.locator("[data-view] .log-line a").last
    wanted = link.evaluate("(link) => link.closest('.log-line').id")
    visit(page, f"/jobs/{ids['succeeded']}/logs/{link.get_attribute('href')}")
    page.wait_for_selector("[data-mount=logs][data-mounted]")
    assert page.locator(".log-line.target").get_attribute("id") == wanted
    stop = """document.querySelector(".log-line a[tabindex='0']").closest('.log-line').id"""
    focus = "() => { document.activeElement.blur(); document.querySelector('[data-view]').focus(); }"
    page.evaluate(focus)
    assert page.evaluate(stop) == wanted
    lines = [line.get_attribute("id") for line in page.locator(".log-line").all()]
    page.evaluate("document.querySelector('[data-view]').style.height = '60px'")
    page.evaluate("document.querySelector('[data-view]').scrollTop = 0")
    page.evaluate(focus)
    assert page.evaluate(stop) == lines[0], "a line out of sight is none to stop at"


def test_single_keys_can_be_switched_off_and_do_nothing_below_a_question(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as()
    here = f"/jobs/{ids['failed']}/logs/"
    visit(page, here)
    page.keyboard.press("?")
    page.wait_for_selector("#shortcuts-dialog[open]")
    page.keyboard.type("3")
    page.uncheck("[data-keys-wanted]")
    page.keyboard.press("Escape")
    until(page, "!document.querySelector('#shortcuts-dialog').open")
    visit(page, here)
    page.keyboard.type("3?gj")
    page.wait_for_timeout(300)
    assert page.url.endswith(here) and not page.locator("#shortcuts-dialog[open]").count()
    assert not page.locator("[data-keys-wanted]").is_checked()


def test_what_an_admin_folded_out_stays_so_while_the_reading_of_events_is_followed(open_as: Callable[..., Any]) -> None:
    page = open_as("admin")
    visit(page, "/pool/")
    page.click("section[aria-labelledby=rd] details > summary")
    page.evaluate("document.querySelector('section[aria-labelledby=rd]').dataset.old = '1'")
    until(page, "document.querySelector('section[aria-labelledby=rd]:not([data-old])') !== null")
    assert page.locator("section[aria-labelledby=rd] details").get_attribute("open") is not None


def test_the_values_of_a_machine_stand_by_the_time_since_the_start_and_by_no_step(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as(width=390)
    visit(page, addresses(ids)["live"])
    page.click("section[aria-label=processor] summary:has-text('Show data')")
    table = page.locator("section[aria-label=processor] .data-table table")
    assert [head.inner_text() for head in table.locator("th").all() if head.is_visible()] == [
        "series", "time since start", "value",
    ]  # fmt: skip
    times = table.locator("tbody tr td:nth-child(2)").all_inner_texts()
    assert times and all(time.endswith(" s") and "e+" not in time for time in times)
