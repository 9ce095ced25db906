"""The form of a spec in a real browser: what is ticked and folded out there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.e2e.browser import BROWSER_MARKS
from tests.e2e.portal import addresses, until, visit
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
    until(page, f"/exclude:[^]*{name}/.test({YAML})")
    until(page, VALID)
    assert page.inner_text("[data-column-count]") == "1 left out"
    assert first.locator("input").evaluate("box => box === document.activeElement"), "the keyboard stays where it was"
    page.keyboard.press("Space")
    until(page, f"!{YAML}.includes('exclude')")
