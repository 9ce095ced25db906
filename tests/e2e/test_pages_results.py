"""The charts of a finished job under a person's hands, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.browser import BROWSER_MARKS
from tests.e2e.portal import Portal, addresses, until, visit
from tests.e2e.seeded import browser, ids, open_as, portal

pytestmark = BROWSER_MARKS
__all__ = ["browser", "ids", "open_as", "portal"]


def one_curve(home: Path, job: str) -> None:
    """Leave the results of a job with the curves of one class, as those of two classes have."""
    path = next(path for path in home.rglob("results.json") if job in path.parts)
    body = json.loads(path.read_text())
    for chart in body["charts"]:
        if chart["id"] in {"roc", "pr"}:
            chart["rows"] = [row for row in chart["rows"] if row[0] == "apple"]
    path.write_text(json.dumps(body))


def test_one_threshold_is_chosen_for_all_curves_and_kept_in_the_address(
    open_as: Callable[..., Any], ids: dict[str, str], portal: Portal
) -> None:
    page = open_as()
    visit(page, addresses(ids)["results"])
    page.wait_for_selector(".analysis canvas")
    assert page.locator("input[type=range]").count() == 0  # each of several classes has a curve of its own
    one_curve(Path(portal.env["DLH_HOME"]), ids["succeeded"])
    page.reload()
    page.locator(".card:has(h2:text-is('ROC'))").scroll_into_view_if_needed()
    until(page, "document.querySelectorAll('input[type=range]').length === 2")
    roc, pr = (page.locator(f".card:has(h2:text-is('{title}'))") for title in ("ROC", "Precision and recall"))
    roc.locator("input[type=range]").evaluate("node => { node.value = 0.9; node.dispatchEvent(new Event('input')); }")
    assert "finds 74.1 % of “apple”, and takes 10.0 % of the others for it" in roc.inner_text()
    assert "finds 10.0 % of “apple”; of the rows called so, 99.9998 % are right" in pr.inner_text()
    page.reload()
    pr.scroll_into_view_if_needed()
    until(page, "document.querySelectorAll('input[type=range]').length === 2")
    assert pr.locator("input[type=range]").input_value() == "0.9"


def long_samples(home: Path, job: str) -> None:
    """Give the worst samples of a job a text each."""
    path = next(path for path in home.rglob("results.json") if job in path.parts)
    body = json.loads(path.read_text())
    (chart,) = (chart for chart in body["charts"] if chart["id"] == "worst_samples")
    chart["columns"].append("review")
    chart["rows"] = [[*row, "a long review " * 300] for row in chart["rows"]]
    path.write_text(json.dumps(body))


def test_a_long_text_takes_some_lines_of_a_phone_and_is_shown_whole_by_a_key(
    open_as: Callable[..., Any], ids: dict[str, str], portal: Portal
) -> None:
    long_samples(Path(portal.env["DLH_HOME"]), ids["succeeded"])
    page = open_as(width=390)
    visit(page, addresses(ids)["results"])
    until(page, "document.querySelectorAll('.sample .fold').length === 8")
    sample = page.locator(".sample .fold").first
    assert sample.bounding_box()["height"] < 250
    assert not sample.locator(".fold-whole").is_visible() and page.evaluate("document.body.scrollWidth") <= 390
    sample.locator("summary").press("Enter")
    assert sample.locator(".fold-whole").inner_text().count("review") == 300
    assert sample.locator("summary").inner_text() == "Show less"


def wide_table(home: Path, job: str) -> None:
    """Add a table to the results of a job that is too wide for a phone."""
    path = next(path for path in home.rglob("results.json") if job in path.parts)
    body = json.loads(path.read_text())
    columns = [f"figure {number}" for number in range(9)]
    rows = [[row + number / 10 for number in range(9)] for row in range(24)]
    body["charts"].append({"id": "wide", "title": "Wide table", "kind": "table", "columns": columns, "rows": rows})
    path.write_text(json.dumps(body))


def test_a_phone_shows_few_rows_of_a_table_that_has_a_card_for_each_and_the_others_by_a_button(
    open_as: Callable[..., Any], ids: dict[str, str], portal: Portal
) -> None:
    wide_table(Path(portal.env["DLH_HOME"]), ids["succeeded"])
    seen = {}
    for width in (1440, 390):
        page = open_as(width=width)
        visit(page, addresses(ids)["results"])
        card = page.locator(".card:has(h2:text-is('Wide table'))")
        card.scroll_into_view_if_needed()
        page.wait_for_selector(".card:has(h2:text-is('Wide table')) [data-mount=rows][data-mounted]")
        seen[width] = card.locator("tbody tr:visible").count()
    assert seen == {1440: 24, 390: 4}
    card.locator("text=Show 20 more rows").press("Enter")
    assert card.locator("tbody tr:visible").count() == 24 and page.evaluate("document.body.scrollWidth") <= 390


def test_the_confusion_matrix_is_shown_in_counts_and_in_shares_of_either_side(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as()
    visit(page, addresses(ids)["results"])
    page.wait_for_selector(".analysis.tall canvas")
    drawn, shown = "nodes => nodes.map((node) => node.toDataURL()).join()", []
    for mode in ("count", "share", "column"):
        page.click(f"[data-chart-mode={mode}]")
        assert page.locator("[data-chart-mode][aria-pressed=true]").get_attribute("data-chart-mode") == mode
        shown.append(page.locator(".analysis.tall canvas").evaluate_all(drawn))
    assert len(set(shown)) == 3


DRAWN = """() => {
  window.dispatchEvent(new Event("beforeprint"));
  return [...document.querySelectorAll("[data-mount=chart]")].map((node) => {
    const canvas = node.querySelector("canvas");
    const { width, height } = canvas ?? {};
    return width > 0 && canvas.getContext("2d").getImageData(0, 0, width, height).data.some(Boolean);
  });
}"""


def test_every_chart_is_drawn_before_the_page_is_printed(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as()
    visit(page, addresses(ids)["results"])
    page.wait_for_selector("[data-mount=chart][data-mounted] canvas")
    drawn = page.evaluate(DRAWN)
    assert len(drawn) > 6 and all(drawn), drawn


SCROLLED = """() => {
  for (const fold of document.querySelectorAll("main details")) fold.open = true;
  const scrolls = (node) => ["auto", "scroll"].includes(getComputedStyle(node).overflowY);
  const holdsMore = (node) => node.scrollHeight > node.clientHeight + 1;
  return [...document.querySelectorAll("main *")].filter((node) => scrolls(node) && holdsMore(node))
    .map((node) => node.getAttribute("aria-label") ?? node.className);
}"""


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("path", ["/pool/use/?by=device", "/pool/use/?by=job", "/pool/calibration/", "/accuracy/"])
def test_no_table_of_use_or_calibration_scrolls_within_the_page(
    open_as: Callable[..., Any], path: str, width: int
) -> None:
    page = open_as("admin", width=width)
    visit(page, path)
    assert page.evaluate(SCROLLED) == [] and page.evaluate("document.documentElement.scrollWidth") <= width


def test_nothing_scrolls_within_the_page_and_long_tables_are_shown_whole_on_demand(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as()
    visit(page, addresses(ids)["results"])
    page.wait_for_selector("button:has-text('more rows')", state="attached")
    assert page.evaluate(SCROLLED) == []
    button = "button:visible:has-text('more rows')"
    heading = page.locator("section", has=page.locator(button)).first.locator("h2").inner_text()
    section = page.locator("section", has=page.get_by_role("heading", name=heading, exact=True))
    rows = section.locator("tbody tr:visible")
    before = rows.count()
    more = int(section.locator(button).inner_text().split()[1].replace(",", ""))
    section.locator(button).click()
    assert rows.count() == before + more
    assert page.evaluate(SCROLLED) == []
