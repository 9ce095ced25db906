"""What moves on the pages: live points, zoom, uploads that are interrupted."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.e2e.browser import BROWSER_MARKS, open_page, sign_in
from tests.e2e.portal import NAMED, Portal, until, visit
from tests.e2e.seeded import browser, ids, open_as, portal
from tests.factories import PASSWORD
from worker.events import Event, EventKind, job_stream

pytestmark = BROWSER_MARKS
__all__ = ["browser", "ids", "open_as", "portal"]


def test_live_points_arrive_and_no_event_is_lost_over_a_restart_of_the_portal(
    open_as: Callable[..., Any], ids: dict[str, str], portal: Portal, broker_url: str
) -> None:
    job_id = ids["running"]
    client = redis.Redis.from_url(broker_url)
    seq = iter(range(1_000_000))

    def say(kind: EventKind, **data: Any) -> None:
        event = Event(kind=kind, job_id=job_id, token=1, rank=0, seq=next(seq), time_s=time.time(), data=data)
        client.xadd(job_stream(job_id), {"event": event.to_json()})

    def point(step: int) -> None:
        say(EventKind.METRIC, step=step, epoch=step / 20, values={"train/loss": 10.0 + step})

    page = open_as()
    visit(page, f"/jobs/{job_id}/live/")
    page.wait_for_selector(".uplot")
    last = "document.querySelector('[data-charts]').innerText.includes('training {}')"
    point(141)
    say(
        EventKind.PROGRESS,
        step=141,
        steps_total=240,
        epoch=7.05,
        epochs=12,
        samples_per_s=999.0,
        eta_s=61.0,
        phase="training",
    )
    until(page, last.format(151))
    until(page, "document.querySelector('[data-live=step]').textContent === '141'")
    portal.kill()
    until(page, "!document.getElementById('connection').hidden")
    for step in (142, 143, 144):
        point(step)
    portal.start()
    until(page, last.format(154))
    until(page, "document.getElementById('connection').hidden")
    page.click("section[aria-label=loss] summary:has-text('Show data')")
    steps = (
        "[...document.querySelectorAll('section[aria-label=loss] .data-table tbody tr')]"
        ".filter(row => row.cells[0].textContent === 'training').map(row => Number(row.cells[1].textContent)).slice(-5)"
    )
    until(page, f"{steps}.length === 5")
    assert page.evaluate(steps) == [140, 141, 142, 143, 144]


def look(page: Any, *, away: bool) -> None:
    """What a browser does for tabs in the background; one without windows shows all of them."""
    page.evaluate(
        "away => { Object.defineProperty(document, 'hidden', {configurable: true, get: () => away});"
        " document.dispatchEvent(new Event('visibilitychange')); }",
        away,
    )


def test_more_tabs_are_open_than_a_browser_has_connections_and_each_shows_what_it_missed(
    open_as: Callable[..., Any], ids: dict[str, str], broker_url: str
) -> None:
    job_id = ids["running"]
    client = redis.Redis.from_url(broker_url)

    def at(step: int) -> None:
        data = {"step": step, "steps_total": 240, "epoch": step / 20, "epochs": 12, "phase": "training"}
        event = Event(
            kind=EventKind.PROGRESS, job_id=job_id, token=1, rank=0, seq=50_000 + step, time_s=time.time(), data=data
        )
        client.xadd(job_stream(job_id), {"event": event.to_json()})

    first = open_as()
    tabs = [first]
    for tab in tabs:
        visit(tab, f"/jobs/{job_id}/")
        until(tab, "document.querySelector('[data-live=step]')")
        look(tab, away=True)
        if len(tabs) < 8:
            tabs.append(first.context.new_page())
    step = "document.querySelector('[data-live=step]').textContent"
    first.wait_for_timeout(4000)  # the last of them has given its stream back as well
    at(150)
    at(151)
    first.wait_for_timeout(1000)
    for tab in tabs:
        assert tab.evaluate(step) not in {"150", "151"}
    for tab in tabs:
        look(tab, away=False)
        until(tab, f"{step} === '151'")
        look(tab, away=True)


def test_a_page_that_was_away_for_too_long_reads_its_curves_again(
    open_as: Callable[..., Any], ids: dict[str, str], broker_url: str
) -> None:
    job_id = ids["running"]
    client = redis.Redis.from_url(broker_url)
    page = open_as()
    visit(page, f"/jobs/{job_id}/live/")
    page.wait_for_selector(".uplot")
    look(page, away=True)
    page.wait_for_timeout(4000)
    for seq in range(60_000, 60_004):
        event = Event(kind=EventKind.NOTE, job_id=job_id, token=1, rank=0, seq=seq, time_s=time.time(), data={})
        client.xadd(job_stream(job_id), {"event": event.to_json()})
    client.xtrim(job_stream(job_id), maxlen=1, approximate=False)
    charts = page.locator(".uplot").count()
    with page.expect_response(lambda response: "/curves" in response.url and response.ok):
        look(page, away=False)
    page.wait_for_timeout(500)
    assert page.locator(".uplot").count() == charts and not page.locator("[data-charts] .alert").count()


def test_lines_of_a_second_attempt_are_shown_on_a_page_that_was_opened_before_the_first(
    open_as: Callable[..., Any], ids: dict[str, str], broker_url: str
) -> None:
    job_id = ids["queued"]
    client = redis.Redis.from_url(broker_url)
    page = open_as()
    visit(page, f"/jobs/{job_id}/logs/")
    page.wait_for_selector("[data-mount=logs] [data-none]")
    for token in (1, 2, 2):  # what is told twice is shown once
        data = {"line_start": 1, "lines": [f"of attempt {token}"]}
        event = Event(kind=EventKind.LOG, job_id=job_id, token=token, rank=0, seq=1, time_s=time.time(), data=data)
        client.xadd(job_stream(job_id), {"event": event.to_json()})
    until(page, "document.querySelector('[data-view]').innerText.includes('of attempt 2')")
    assert page.locator("[data-view] .log-line .text").all_inner_texts() == ["of attempt 1", "of attempt 2"]


def test_an_upload_goes_on_where_it_stopped(open_as: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "big.csv"
    with path.open("w") as stream:
        stream.write("a,b,label\n")
        stream.writelines(f"{row},{row % 97},{'yes' if row % 3 else 'no'}\n" for row in range(1_600_000))
    page = open_as()
    visit(page, "/datasets/upload/")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(f"{request.method} {request.headers.get('upload-offset', '')}"))
    told = {"error": {"code": "too_slow", "message": "The request body came too slowly.", "hint": ""}}
    failures = [lambda route: route.fulfill(status=408, json=told), lambda route: route.abort()]

    def break_twice(route: Any) -> None:
        if route.request.method == "PATCH" and route.request.headers.get("upload-offset") != "0" and failures:
            failures.pop()(route)
        else:
            route.continue_()

    page.route("**/api/v1/uploads/*", break_twice)
    page.set_input_files("[data-file]", str(path))
    page.fill("[data-option-name]", "big table")
    page.click("[data-start]")
    until(page, "/datasets\\/[a-z0-9]{12}\\//.test(window.location.href)", limit_s=240)
    assert page.inner_text("h1") == "big table"
    assert not failures
    assert [line for line in sent if line == "PATCH 0"] == ["PATCH 0"]


@pytest.fixture
def two_pieces(tmp_path: Path) -> str:
    """A file that is sent in two pieces."""
    table = tmp_path / "away.csv"
    table.write_bytes(b"x,label\n" + b"1,a\n2,b\n" * 1_200_000)  # 9.6 MB
    return str(table)


def test_an_upload_goes_on_by_itself_and_tries_as_often_when_the_computer_is_no_longer_offline(
    browser: Any, portal: Portal, two_pieces: str
) -> None:
    strange: list[str] = []
    url = portal.url.replace("127.0.0.1", NAMED)  # it needs no network else
    page = open_page(browser, url, strange)
    sign_in(page, url, "owner", PASSWORD)
    visit(page, "/datasets/upload/")
    sent: list[str] = []
    held: list[Any] = []

    def lose_second(route: Any) -> None:
        """Three times before the computer is offline, and three times after it."""
        if route.request.method == "PATCH":
            sent.append(route.request.headers["upload-offset"])
        if route.request.method != "PATCH" or len(sent) in (1, 9):
            route.continue_()
        elif len(sent) == 5:
            held.append(route)
        else:
            route.abort()

    page.route("**/api/v1/uploads/*", lose_second)
    page.set_input_files("[data-file]", two_pieces)
    page.click("[data-start]")
    deadline = time.monotonic() + 90
    while not held and time.monotonic() < deadline:
        page.wait_for_timeout(100)
    assert held, sent
    page.context.set_offline(True)
    held[0].abort("internetdisconnected")
    page.wait_for_selector("[data-status]:has-text('offline')")
    page.context.set_offline(False)
    until(page, "/datasets\\/[a-z0-9]{12}\\//.test(window.location.href)", limit_s=120)
    assert len(sent) == 9 and sent.count("0") == 1
    page.context.close()
    assert not strange, strange


def test_an_upload_to_a_portal_on_a_computer_without_a_network_waits_for_none(
    open_as: Callable[..., Any], two_pieces: str
) -> None:
    page = open_as()
    page.add_init_script("Object.defineProperty(Navigator.prototype, 'onLine', { get: () => false })")
    visit(page, "/datasets/upload/")
    sent: list[str] = []

    def lose_second(route: Any) -> None:
        if route.request.method == "PATCH":
            sent.append(route.request.headers["upload-offset"])
        if route.request.method == "PATCH" and len(sent) == 2:
            route.abort()
        else:
            route.continue_()

    page.route("**/api/v1/uploads/*", lose_second)
    page.set_input_files("[data-file]", two_pieces)
    page.click("[data-start]")
    until(page, "/datasets\\/[a-z0-9]{12}\\//.test(window.location.href)", limit_s=120)
    assert len(sent) == 3 and sent.count("0") == 1


def test_zooming_a_curve_asks_for_its_part_and_the_csv_is_exact(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "start=" in request.url else None)
    visit(page, f"/jobs/{ids['succeeded']}/live/")
    page.wait_for_selector("section[aria-label=loss] .uplot")
    link = page.locator("section[aria-label=loss] a:has-text('CSV')")
    until(page, "document.querySelector('section[aria-label=loss] a[download]').getAttribute('href') !== '#'")
    address = link.get_attribute("href")
    assert address.startswith(f"/api/v1/jobs/{ids['succeeded']}/series.csv?keys=")
    body = page.request.get(address).text().splitlines()
    assert body[0] == "key,step,epoch,time_s,value" and len(body) > 10
    box = page.locator("section[aria-label=loss] .u-over").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 50, steps=5)
    page.mouse.up()
    until(page, "!document.querySelector('section[aria-label=loss] button').hidden")
    deadline = time.monotonic() + 90
    while not asked and time.monotonic() < deadline:
        page.wait_for_timeout(50)
    page.wait_for_timeout(500)  # for requests of other charts, which must not come
    assert len(asked) == 1 and "keys=train%2Floss" in asked[0] and "stop=" in asked[0]
    page.click("section[aria-label=loss] button:has-text('Reset zoom')")
    page.wait_for_selector("section[aria-label=loss] button:has-text('Reset zoom')", state="hidden")


def test_a_question_answered_after_the_page_changed_below_it_still_counts(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as()
    visit(page, f"/jobs/{ids['queued']}/live/")
    page.click("#job-header button:has-text('Cancel')")
    page.wait_for_selector("#confirm-dialog[open]")
    page.evaluate("document.getElementById('job-header').remove()")
    page.click("#confirm-dialog button[value=yes]")
    until(page, "document.querySelector('[data-live=state]')?.innerText.includes('Cancelled')")


def test_a_rank_has_one_colour_in_all_charts_whoever_spoke_first(
    open_as: Callable[..., Any], ids: dict[str, str], broker_url: str
) -> None:
    job_id, client = ids["placed"], redis.Redis.from_url(broker_url)
    page = open_as()
    visit(page, f"/jobs/{job_id}/live/")
    page.wait_for_selector("[data-mount=curves][data-mounted]")
    said = [(rank, key) for key, order in (("rows", (1, 0)), ("idle_share", (0, 1))) for rank in order]
    for seq, (rank, key) in enumerate(said):
        data = {"step": 1, "epoch": 0.1, "values": {f"rank{rank}/{key}": 0.5}}
        event = Event(kind=EventKind.METRIC, job_id=job_id, token=1, rank=rank, seq=seq, time_s=time.time(), data=data)
        client.xadd(job_stream(job_id), {"event": event.to_json()})
    until(page, "document.querySelectorAll('.uplot').length === 2")
    colours = """[...document.querySelectorAll('.u-legend')].map((legend) =>
      [...legend.querySelectorAll('.u-series')].slice(1).map((series) =>
        series.innerText.split(':')[0] + getComputedStyle(series.querySelector('.u-marker')).borderColor))"""
    until(page, f"{colours}.every((names) => names.length === 2)")
    one, other = page.evaluate(colours)
    assert one == other and one[0].startswith("rank 0") and one[1].startswith("rank 1")


def test_what_was_asked_of_a_job_is_told_until_its_state_changes(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page, other = open_as(), open_as()
    visit(page, f"/jobs/{ids['running']}/live/")
    page.click("button:has-text('Pause')")
    page.wait_for_selector("[data-flash=success]:has-text('Pausing.')")
    assert page.inner_text("[data-live=state]") == "Pausing"
    visit(other, f"/jobs/{ids['running']}/live/")
    other.click("#job-header form[action$='/cancel/'] button")
    if other.locator("#confirm-dialog[open]").count():
        other.click("#confirm-dialog button[value=yes]")
    until(page, "document.querySelector('[data-live=state]').textContent.trim() === 'Cancelling'")
    until(page, "!document.querySelector('[data-flash=success]')", limit_s=5)
