"""What a person has in hand on a page outlives that parts of it are drawn anew."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
import redis

from tests.e2e.browser import BROWSER_MARKS
from tests.e2e.portal import rename, until, visit
from tests.e2e.seeded import browser, ids, open_as, portal
from worker.events import Event, EventKind, job_stream

pytestmark = BROWSER_MARKS
__all__ = ["browser", "ids", "open_as", "portal"]
MARK = "document.querySelector('{}').dataset.before = '1'"
DRAWN = "document.querySelector('{}').dataset.before === undefined"
sequence = count(10)


@pytest.fixture
def tell(ids: dict[str, str], broker_url: str) -> Callable[[], None]:
    """Something happened to the running job: its page asks for the header anew."""

    def told() -> None:
        event = Event(
            kind=EventKind.EXITED,
            job_id=ids["running"],
            token=1,
            rank=0,
            seq=next(sequence),
            time_s=time.time(),
            data={},
        )
        redis.Redis.from_url(broker_url).xadd(job_stream(ids["running"]), {"event": event.to_json()})

    return told


@pytest.fixture
def header(open_as: Callable[..., Any], ids: dict[str, str]) -> tuple[Any, dict[str, str]]:
    """The page of the running job, and the words of its header that are exchanged for others on their way to it."""
    page, exchanged = open_as(), {}

    def answer(route: Any) -> None:
        found = route.fetch()
        text = found.text()
        for old, new in exchanged.items():
            text = text.replace(old, new)
        route.fulfill(response=found, body=text)

    page.route(f"**/jobs/{ids['running']}/header/", answer)
    visit(page, f"/jobs/{ids['running']}/live/")
    page.wait_for_selector("#job-header", state="attached")
    return page, exchanged


def test_a_run_that_has_finished_is_told_until_the_page_is_left(
    header: tuple[Any, dict[str, str]], tell: Callable[[], None]
) -> None:
    page, exchanged = header
    exchanged["Running"] = "Succeeded"
    tell()
    page.wait_for_selector("text=The run has finished.")
    page.evaluate(MARK.format("#job-header"))
    exchanged["What this means"] = "What that means"
    tell()
    until(page, DRAWN.format("#job-header"))
    assert page.is_visible("text=The run has finished.") and page.is_visible("a:has-text('See the results')")


def test_what_is_folded_out_of_the_header_stays_open_and_in_focus(
    header: tuple[Any, dict[str, str]], tell: Callable[[], None]
) -> None:
    page, exchanged = header
    page.click("#job-header summary:has-text('What this means')")
    page.evaluate(MARK.format("#job-header"))
    exchanged["What this means"] = "What that means"
    tell()
    until(page, DRAWN.format("#job-header"))
    assert page.locator("#job-header details:has-text('What that means')").get_attribute("open") is not None
    assert page.evaluate("document.activeElement.textContent") == "What that means"


def test_what_did_not_change_is_not_drawn_anew(
    header: tuple[Any, dict[str, str]], ids: dict[str, str], tell: Callable[[], None]
) -> None:
    page, _ = header
    body = page.request.get(f"/jobs/{ids['running']}/header/").text()
    page.route(f"**/jobs/{ids['running']}/header/", lambda route: route.fulfill(body=body))
    page.evaluate(MARK.format("#job-header"))
    tell()
    until(page, DRAWN.format("#job-header"))
    page.evaluate(MARK.format("#job-header"))
    with page.expect_response(f"**/jobs/{ids['running']}/header/"):
        tell()
    page.wait_for_timeout(300)  # to draw it would take less
    assert not page.evaluate(DRAWN.format("#job-header"))


def test_a_button_keeps_the_focus_while_its_list_follows_what_others_do(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page, other = open_as("admin"), open_as("owner")
    visit(other, f"/jobs/{ids['queued']}/")
    visit(page, "/queue/")
    button = f"form[action*='{ids['queued']}'] button:has-text('Set')"
    page.focus(button)
    rename(other, "renamed in the queue")
    until(page, "document.querySelector('main').innerText.includes('renamed in the queue')")
    assert page.locator(button).evaluate("node => node === document.activeElement")
