"""What every page does by itself: theme, keys, questions, tables, charts that say the same after a reload."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import redis

from tests.e2e.browser import BROWSER_MARKS, sign_in
from tests.e2e.portal import Portal, addresses, until, visit
from tests.e2e.seeded import browser, ids, open_as, portal
from tests.factories import PASSWORD
from worker.events import Event, EventKind, job_stream

pytestmark = BROWSER_MARKS
__all__ = ["browser", "ids", "open_as", "portal"]
YEAR = datetime.now(UTC).year + 1
TITLES = "[...document.querySelectorAll('[data-charts] > section h2')].map(head => head.textContent)"


def test_the_browser_tells_its_time_zone_for_the_times_in_emails(browser: Any, portal: Portal) -> None:
    context = browser.new_context(base_url=portal.url, timezone_id="Asia/Calcutta")
    page = context.new_page()
    with page.expect_response("**/account/time-zone/browser/") as told:
        sign_in(page, portal.url, "owner", PASSWORD)
    assert told.value.status == 204
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    visit(page, "/account/")
    chosen = "document.querySelector('[name=time_zone]').selectedOptions[0].textContent"
    assert page.evaluate(chosen) == "As my browser (Asia/Kolkata)"
    page.select_option("[name=time_zone]", label="Berlin")
    page.click("form[action='/account/time-zone/'] button")
    page.wait_for_selector("text=Your e-mails give times in Europe/Berlin.")
    assert page.evaluate(chosen) == "Berlin" and not any("browser" in address for address in sent)
    context.close()


def test_figures_of_compared_jobs_stand_in_one_order_with_a_line_for_each_job(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as()
    visit(page, f"/jobs/compare/?job={ids['succeeded']}&job={ids['running']}")
    until(page, f"{TITLES}.length === 5")
    named = ["Loss, training", "Loss, validation", "Accuracy, training", "Accuracy, validation"]
    assert page.evaluate(TITLES) == [*named, "Learning rate, training"]
    visit(page, f"/jobs/compare/?job={ids['running']}&job={ids['succeeded']}")
    until(page, f"{TITLES}.length === 5")
    assert page.evaluate(TITLES)[:4] == named
    until(page, "document.querySelectorAll('section[aria-label=\"loss, training\"] .u-series').length === 3")
    with page.expect_download() as waiting:
        page.click("section[aria-label='loss, training'] a:has-text('CSV')")
    text = waiting.value.path().read_text()
    assert text.startswith("job,name,key,step,epoch,time_s,value\n")
    assert all(ids[state] in text for state in ("running", "succeeded"))


def test_what_curves_are_drawn_along_and_how_smooth_is_in_the_address(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as()
    visit(page, f"/jobs/{ids['succeeded']}/live/")
    page.wait_for_selector("section[aria-label=loss] .uplot")
    page.select_option(".chart-tools select", "epoch")
    page.locator(".chart-tools input[type=range]").fill("0.6")
    page.check(".chart-tools input[type=checkbox]")
    until(page, "['x=epoch', 'smooth=0.6', 'log=1'].every(part => location.search.includes(part))")
    page.reload()
    page.wait_for_selector("section[aria-label=loss] .uplot")
    assert page.input_value(".chart-tools select") == "epoch"
    assert page.is_checked(".chart-tools input[type=checkbox]")
    until(page, "document.querySelector('section[aria-label=loss] .u-legend').innerText.includes('training (raw)')")


def test_a_theme_that_was_chosen_stays_and_redraws_the_charts(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as()
    visit(page, addresses(ids)["results"])
    page.wait_for_selector(".analysis canvas")
    drawn = "document.querySelector('.analysis canvas').toDataURL()"
    light = page.evaluate(drawn)
    page.click("summary:has-text('Account menu')")
    page.click("[data-theme-choice=dark]")
    until(page, "document.documentElement.dataset.bsTheme === 'dark'")
    until(page, f"{drawn} !== {light!r}")
    assert page.get_attribute("[data-theme-choice=dark]", "aria-pressed") == "true"
    page.keyboard.press("Escape")
    assert page.locator("details.menu[open]").count() == 0
    page.reload()
    assert page.evaluate("document.documentElement.dataset.bsTheme") == "dark"


def test_on_paper_a_page_is_light_and_then_dark_again(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as(theme="dark")
    visit(page, f"/jobs/{ids['succeeded']}/results/")
    page.wait_for_selector(".analysis canvas")
    theme = "document.documentElement.dataset.bsTheme"
    drawn = "document.querySelector('.analysis canvas').toDataURL()"
    page.evaluate(f"addEventListener('beforeprint', () => {{ window.printed = [{theme}, {drawn}]; }})")
    dark = page.evaluate(f"[{theme}, {drawn}]")
    assert dark[0] == "dark"
    page.pdf()
    until(page, f"{theme} === 'dark' && {drawn} === {dark[1]!r}")
    printed = page.evaluate("window.printed")
    assert printed[0] == "light" and printed[1] != dark[1]
    layers = "[...document.querySelectorAll('.analysis')].map(chart => chart.querySelectorAll('canvas').length)"
    assert set(page.evaluate(layers)) == {1}, "of several a browser prints the uppermost alone"


def test_on_paper_no_chart_is_wider_than_its_card(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as()
    visit(page, f"/jobs/compare/?job={ids['running']}&job={ids['succeeded']}")
    until(page, "document.querySelectorAll('.uplot canvas').length > 3")
    # Measured before observers of sizes are told, as no printer waits for them.
    wider = """() => {
      document.body.style.width = "700px";
      const right = (node) => node.getBoundingClientRect().right;
      const drawn = [...document.querySelectorAll("canvas, .uplot *")].filter((one) => one.getClientRects().length);
      const wide = drawn.filter((one) => right(one) > right(one.closest(".card")));
      document.body.style.width = "";
      return wide.length;
    }"""
    assert page.evaluate(wider) > 0, "on a screen they would be, until they are told"
    page.emulate_media(media="print")
    assert page.evaluate(wider) == 0


def test_a_form_that_is_refused_in_a_dialog_comes_back_open(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as()
    visit(page, f"/jobs/{ids['succeeded']}/")
    page.click("button:has-text('Rename, tag')")
    page.fill("#edit-tags", "x" * 70)
    page.fill("#edit-notes", "What I saw")
    page.click("#edit-dialog button:has-text('Save')")
    page.wait_for_selector("#edit-dialog [role=alert]")
    assert page.evaluate("document.querySelector('#edit-dialog').matches(':modal')")
    assert page.evaluate("document.activeElement.id") == "edit-tags"
    assert page.input_value("#edit-notes") == "What I saw"


def test_keys_open_tabs_and_their_own_list_but_not_while_one_types(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as()
    visit(page, f"/jobs/{ids['failed']}/live/")
    page.keyboard.press("?")
    page.wait_for_selector("#shortcuts-dialog[open]")
    page.keyboard.press("Escape")
    until(page, "!document.querySelector('#shortcuts-dialog').open")
    third = page.locator("[data-tab]").nth(2)
    address = third.get_attribute("href")
    page.keyboard.press("3")
    page.wait_for_url(f"**{address}")
    visit(page, f"/jobs/{ids['failed']}/logs/")
    page.focus("input[name=q]")
    page.keyboard.type("1?gj")
    assert page.input_value("input[name=q]") == "1?gj"
    assert page.url.endswith("/logs/") and not page.locator("#shortcuts-dialog[open]").count()


def test_a_question_that_is_answered_no_changes_nothing(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as()
    asked: list[str] = []
    told = "/account/time-zone/browser/"  # by the first page, where the portal knows another
    page.on("request", lambda sent: asked.append(sent.url) if sent.method == "POST" and told not in sent.url else None)
    visit(page, f"/jobs/{ids['running']}/live/")
    for answer in ("click", "Escape"):
        page.click("#job-header button:has-text('Cancel')")
        page.wait_for_selector("#confirm-dialog[open]")
        if answer == "click":
            page.click("#confirm-dialog button:has-text('Keep it as it is')")
        else:
            page.keyboard.press("Escape")
        until(page, "!document.querySelector('#confirm-dialog').open")
    assert asked == [] and "Running" in page.inner_text("[data-live=state]")


def test_all_jobs_of_a_page_are_chosen_at_once_and_compared(open_as: Callable[..., Any]) -> None:
    page = open_as()
    visit(page, "/jobs/?state=running&state=succeeded")
    page.check("[data-select-all=job]")
    assert page.locator("input[name=job]:checked").count() == page.locator("input[name=job]").count() == 2
    page.click("button:has-text('Compare selected')")
    page.wait_for_url("**/jobs/compare/?job=*&job=*")


def test_following_pauses_while_one_reads_further_up_and_goes_on_at_the_end(
    open_as: Callable[..., Any], ids: dict[str, str], broker_url: str
) -> None:
    client = redis.Redis.from_url(broker_url)
    page = open_as()
    visit(page, f"/jobs/{ids['running']}/logs/")
    view = "document.querySelector('[data-view]')"
    until(page, f"{view}.scrollTop > 0 && document.querySelector('[data-follow]').textContent === 'Following'")

    def say(line: int) -> None:
        data = {"line_start": line, "lines": [f"said as line {line}"]}
        event = Event(
            kind=EventKind.LOG, job_id=ids["running"], token=1, rank=0, seq=line, time_s=time.time(), data=data
        )
        client.xadd(job_stream(ids["running"]), {"event": event.to_json()})
        until(page, f"{view}.innerText.includes('said as line {line}')")

    at_end = f"{view}.scrollHeight - {view}.scrollTop - {view}.clientHeight < 24"
    say(9001)
    until(page, at_end)
    page.evaluate(f"{view}.scrollTop = 0")
    until(page, "document.querySelector('[data-follow]').getAttribute('aria-pressed') === 'false'")
    say(9002)
    assert page.evaluate(f"{view}.scrollTop") == 0
    page.click("[data-follow]")
    until(page, at_end)
    say(9003)
    until(page, at_end)


def test_a_deadline_that_has_passed_is_said_at_its_line_before_the_draft_is_made(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as()
    visit(page, addresses(ids)["spec"])
    page.wait_for_selector(".model-card")
    page.click("#yaml > summary")
    page.click(".cm-content")
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("budget:\n  deadline: 2020-01-31T18:00:00Z\n")
    until(page, "document.querySelector('[data-problems]').innerText.includes('has passed')")
    page.wait_for_selector(".cm-content .cm-lintRange-error")
    until(page, "document.querySelector('[data-go]').disabled")
    assert page.inner_text("[data-go-note]") == "First correct “Done by (your time)”."
    assert "has passed" in page.inner_text("[data-problem='budget.deadline']")
    page.click(".cm-content")
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("budget:\n  deadline: auto\n")
    until(page, "!document.querySelector('[data-go]').disabled")


def test_a_finish_is_wished_for_in_the_readers_own_time_and_a_past_one_is_said_at_once(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as()
    visit(page, addresses(ids)["spec"])
    page.wait_for_selector(".model-card")
    page.click("#yaml > summary")
    page.fill("#spec-budget-deadline", "2020-01-31T18:30")
    until(page, "document.querySelector('[data-problem=\"budget.deadline\"]').innerText.includes('has passed')")
    assert page.is_disabled("[data-go]")
    page.fill("#spec-budget-deadline", f"{YEAR}-01-31T18:30")
    until(page, "!document.querySelector('[data-go]').disabled")
    wanted = page.evaluate(f"new Date('{YEAR}-01-31T18:30').toISOString()").replace(".000Z", "Z")
    until(page, f"document.querySelector('.cm-content').innerText.includes('{wanted}')")
    page.click(".cm-content")
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(f"budget:\n  deadline: {YEAR}-02-01T09:00:30\n")
    shown = "new Date(document.querySelector('#spec-budget-deadline').value).toISOString()"
    until(page, f"{shown} === '{YEAR}-02-01T09:00:00.000Z'")
    page.fill("#spec-name", "a name")
    until(page, "document.querySelector('.cm-content').innerText.includes('name: a name')")
    assert f"{YEAR}-02-01T09:00:30Z" in page.inner_text(".cm-content")


def test_an_offer_is_asked_for_with_a_deadline_in_the_readers_own_time(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as()
    visit(page, f"/jobs/{ids['draft']}/cost/")
    page.wait_for_selector("#deadline")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.post_data or "") if request.method == "POST" else None)
    page.fill("#deadline", f"{YEAR}-01-31T18:30")
    wanted = page.evaluate(f"new Date('{YEAR}-01-31T18:30').toISOString()")
    page.click("button:has-text('Ask again')")
    until(page, f"document.querySelector('#deadline')?.value === '{YEAR}-01-31T18:30'")
    assert f"deadline_utc={wanted.replace(':', '%3A')}" in sent[0]


def test_that_no_device_is_there_for_a_try_is_said_above_the_offer(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as()
    visit(page, addresses(ids)["cost"])
    form = page.locator("form[hx-post$='/probe/']")
    form.wait_for()
    # The node that has GPUs drains.
    form.evaluate(
        "form => form.append(Object.assign(document.createElement('input'), { name: 'kind', value: 'cuda' }))"
    )
    form.locator("button").click()
    page.wait_for_selector("#offer [role=alert]:has-text('No node that is up has a device of the kind cuda')")
    assert page.locator(".offer-table input[name=line]").count() > 1
    assert page.locator("#connection").is_hidden()


def test_earlier_lines_come_in_above_and_the_reader_stays_where_he_was(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as()
    visit(page, f"/jobs/{ids['failed']}/logs/")
    first = page.locator("[data-view] .log-line").first.get_attribute("id")
    view = "document.querySelector('[data-view]')"
    until(page, f"document.querySelector('[data-mount=logs]').hasAttribute('data-mounted') && {view}.scrollTop > 0")
    page.evaluate(f"{view}.scrollTop = 0")
    place = f"document.getElementById('{first}').getBoundingClientRect().top"
    before = page.evaluate(place)
    page.click("[data-earlier]")
    until(page, f"{view}.querySelectorAll('.log-line').length === 600 && {view}.scrollTop > 0")
    assert abs(page.evaluate(place) - before) < 2
    assert page.locator("[data-view] .log-line").first.get_attribute("id") != first
