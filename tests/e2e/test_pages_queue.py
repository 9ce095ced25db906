"""An admin orders the queue by hand: what a move does is shown before it is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.browser import BROWSER_MARKS
from tests.e2e.portal import visit
from tests.e2e.seeded import browser, ids, open_as, portal

pytestmark = BROWSER_MARKS
__all__ = ["browser", "ids", "open_as", "portal"]
PLACE = "[data-label=Place]"


@pytest.fixture
def queued(open_as: Callable[..., Any], ids: dict[str, str]) -> tuple[Any, str, str]:
    """The page of a queue that ends with two jobs without a promise: (page, the first one's id, the last one's)."""
    page = open_as("admin")
    visit(page, "/queue/")
    token = page.locator("input[name=csrfmiddlewaretoken]").first.input_value()
    asked = {"headers": {"X-CSRFToken": token, "Referer": page.url}}
    for name in ("<b>later", "latest") if page.locator("tr[data-job]").count() < 3 else ():
        made = page.request.post(f"/api/v1/jobs/{ids['queued']}/clone", data={"name": name}, **asked)
        assert made.status == 201, made.text()
        sent = page.request.post(f"/api/v1/jobs/{made.json()['id']}/submit", data={"promise": False}, **asked)
        assert sent.ok, sent.text()
    visit(page, "/queue/")
    page.locator("[data-mount=queue][data-mounted]").wait_for()
    _, first, last = order(page)
    return page, first, last


def order(page: Any) -> list[str]:
    found: list[str] = page.evaluate("[...document.querySelectorAll('tr[data-job]')].map(row => row.dataset.job)")
    return found


def drag(page: Any, job: str, before: str) -> None:
    """By the mouse."""
    page.drag_and_drop(f"tr[data-job='{job}'] {PLACE}", f"tr[data-job='{before}'] {PLACE}")
    page.wait_for_selector("text=Nothing is saved yet.")


def test_a_row_that_is_dropped_moves_only_once_that_is_confirmed(queued: tuple[Any, str, str]) -> None:
    page, first, last = queued
    drag(page, last, first)
    assert " went before " in page.locator("#qd").inner_text()
    assert order(page)[1:] == [first, last]
    page.click("a:has-text('Leave it as it is')")
    assert page.locator("#qd").count() == 0 and order(page)[1:] == [first, last]
    drag(page, last, first)
    assert page.evaluate("document.activeElement.textContent").strip() == "Move it"
    page.keyboard.press("Enter")
    page.wait_for_selector("text=/goes before/")
    assert order(page)[1:] == [last, first]


def test_a_link_in_a_row_that_cannot_be_moved_is_dragged_nowhere(
    queued: tuple[Any, str, str], open_as: Callable[..., Any]
) -> None:
    _, first, last = queued
    page = open_as("owner")
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    visit(page, "/queue/")
    page.locator("[data-mount=queue][data-mounted]").wait_for()
    page.drag_and_drop(f"tr[data-job='{last}'] a", f"tr[data-job='{first}'] {PLACE}")
    assert faults == [] and page.url.endswith("/queue/")


def test_by_keyboard_an_arrow_that_was_looked_at_is_carried_out_beside_it(queued: tuple[Any, str, str]) -> None:
    page, first, last = queued
    page.locator(f"tr[data-job='{last}'] summary").press("Enter")
    page.locator(f"tr[data-job='{last}'] [aria-label^='Look at a move'][aria-label$='forward']").press("Enter")
    page.wait_for_selector("text=Nothing is saved yet.")
    assert order(page)[1:] == [first, last]
    page.keyboard.press("Enter")
    page.wait_for_selector("text=/goes one place forward/")
    assert order(page)[1:] == [last, first]
