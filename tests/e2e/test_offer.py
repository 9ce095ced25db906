"""The offer step in a real browser: on the seeded world, and with a program that a real node reads and runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.browser import BROWSER_MARKS
from tests.e2e.portal import until, visit
from tests.e2e.seeded import browser, ids, open_as, portal
from tests.e2e.stack import RunningStack, wait_for

pytestmark = BROWSER_MARKS
__all__ = ["browser", "ids", "open_as", "portal"]

LOCAL = """(moment => {
  const [date, pad] = [new Date(moment), (value) => String(value).padStart(2, "0")];
  const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
  return `${day}T${pad(date.getHours())}:${pad(date.getMinutes())}`;
})"""
"""A moment as a field holds it."""


def test_the_picture_is_drawn_and_another_line_can_be_taken(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as(theme="dark")
    visit(page, f"/jobs/{ids['draft']}/cost/")
    page.wait_for_selector(".analysis canvas")
    assert page.locator("input[name=line]:checked").count() == 1
    hidden = page.locator("tr[data-minor][hidden]").count()
    if hidden:
        page.click("[data-show-minor]")
        assert page.locator("tr[data-minor][hidden]").count() == 0
    page.locator("tr:has-text('2 CPU cores (core), one rank each') input[name=line]").check()
    page.click("button:has-text('Take it, submit later')")
    page.wait_for_selector("text=The spec has the devices of this offer.")
    visit(page, f"/jobs/{ids['draft']}/program/")
    assert "sync" in page.inner_text("section:has(h2:has-text('Before you submit'))")


def test_one_click_asks_for_the_earliest_finish_that_can_be_kept_and_fills_it_in(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as()
    visit(page, f"/jobs/{ids['draft']}/cost/")
    soon = page.evaluate(f"{LOCAL}(Date.now() + 120_000)")
    page.fill("#deadline", soon)
    page.click("button:has-text('Ask again')")
    page.wait_for_selector("text=No option meets this deadline")
    page.click("button:has-text('Ask for the earliest finish')")
    until(page, "!document.querySelector('#offer').innerText.includes('No option meets this deadline')")
    page.wait_for_selector("text=Deadline:")
    asked = page.input_value("#deadline")
    told = page.get_attribute("#offer strong time", "datetime")
    assert asked > soon and asked == page.evaluate(f"{LOCAL}('{told}')")
    assert page.locator("button:has-text('Ask for the earliest finish')").count() == 0
    assert page.is_enabled("button:has-text('Take it and submit')")


@pytest.mark.stack
def test_a_node_reads_the_program_and_what_was_promised_is_compared_with_what_came_true(
    stack: RunningStack, wine: str
) -> None:
    job = stack.post("/jobs", {"dataset": wine, "spec": {"training": {"epochs": 3}}})
    offer = stack.post(f"/jobs/{job['id']}/offers", {"count": 1})

    def priced() -> dict[str, Any] | None:
        found: dict[str, Any] = stack.get(f"/offers/{offer['id']}")
        return found if found["state"] != "waiting" else None

    found = wait_for(priced, timeout_s=180, what="the program is read")
    assert found["state"] == "ready", found["problem"]
    assert found["lines"][found["recommended"]]["count"] == 1
    stack.post(f"/offers/{offer['id']}/accept", {"submit": True})

    def told() -> dict[str, Any] | None:
        cost: dict[str, Any] = stack.get(f"/jobs/{job['id']}/estimate")
        return cost if cost["actual"]["run_s"] else None

    cost = wait_for(told, timeout_s=300, what="the job has ended and its cost is known")
    assert cost["estimate"]["allocation"]["count"] == 1
    assert cost["actual"]["run_s"] > 0
