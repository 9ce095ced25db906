"""What hands meet on the pages: drops, buttons, ticks, titles, and parts that follow what others do."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.e2e.browser import BROWSER_MARKS
from tests.e2e.portal import addresses, rename, until, visit
from tests.e2e.seeded import browser, ids, open_as, portal
from worker.events import Event, EventKind, job_stream

pytestmark = BROWSER_MARKS
__all__ = ["browser", "ids", "open_as", "portal"]
DROP_BESIDE = """(() => {
  const transfer = new DataTransfer();
  transfer.items.add(new File(["a,b\\n1,2\\n"], "beside.csv"));
  const options = { dataTransfer: transfer, bubbles: true, cancelable: true };
  return !document.querySelector("h1").dispatchEvent(new DragEvent("drop", options));
})()"""
"""Drops a file on the heading; true if the page took it, so that the browser does not open it."""
SHOWN = "[...document.querySelector('#project').options].map((option) => option.textContent.trim())"
CHOSEN = "document.querySelector('#project').value"


def test_a_file_that_is_dropped_beside_its_field_is_taken_all_the_same(open_as: Callable[..., Any]) -> None:
    page = open_as()
    visit(page, "/datasets/upload/")
    until(page, DROP_BESIDE)
    assert page.inner_text("[data-name]") == "beside.csv" and page.is_visible("[data-start]")


def test_a_text_is_copied_on_a_page_without_a_clipboard_of_the_browser(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as()
    visit(page, addresses(ids)["predict"])
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.evaluate("document.addEventListener('copy', (event) => { window.copied = event.target.value; })")
    page.click("button[data-copy=by-dlh]")
    until(page, "document.querySelector('button[data-copy=by-dlh]').textContent === 'Copied'")
    assert page.evaluate("window.copied") == page.inner_text("#by-dlh")
    until(page, "document.querySelector('button[data-copy=by-dlh]').textContent === 'Copy'")


def test_a_form_is_not_sent_twice_by_a_quick_hand(open_as: Callable[..., Any]) -> None:
    page = open_as()
    visit(page, "/account/")
    sent: list[str] = []

    def stay(route: Any) -> None:
        sent.append(route.request.post_data)
        route.fulfill(status=204)  # the browser stays on the page, as while an answer takes its time

    page.route("**/account/tokens/", stay)
    page.fill("#id_name", "laptop")
    page.click("button:has-text('Create token')")
    until(page, "document.querySelector('form[action*=tokens] button[aria-busy]') !== null")
    assert page.is_disabled("button:has-text('Create token')") and len(sent) == 1


@pytest.fixture
def crowded(open_as: Callable[..., Any]) -> Any:
    """The list of jobs with a thousand projects more to filter by, which are folded out."""
    page = open_as()
    every = '<option value="">All</option>'

    def crowd(route: Any) -> None:
        answer = route.fetch()
        many = "".join(f'<option value="zoo-{number}">Zoo {number}</option>' for number in range(1000))
        route.fulfill(response=answer, body=answer.text().replace(every, every + many))

    page.route("**/jobs/?more=1", crowd)
    visit(page, "/jobs/?more=1")
    page.unroute("**/jobs/?more=1")
    page.click("summary:has-text('More filters')")
    return page


def test_a_list_of_a_thousand_projects_is_found_in_by_typing(crowded: Any) -> None:
    page = crowded
    field = page.get_by_label("Find in the list Project")
    field.press_sequentially("zoo 77")
    texts = page.evaluate(SHOWN)
    assert texts[:2] == ["All", "Zoo 77"] and {"Zoo 177", "Zoo 770"} < set(texts) and "Zoo 78" not in texts
    assert page.url.endswith("?more=1"), "the form did not take it for a filter"
    page.evaluate("""() => {
      window.heard = [];
      for (const kind of ["input", "change"])
        document.body.addEventListener(kind, (event) => window.heard.push([kind, event.target.id]));
    }""")
    with page.expect_request(lambda request: "project=zoo-77" in request.url):
        field.press("Enter")
    assert page.evaluate(CHOSEN) == "zoo-77"
    assert page.evaluate("window.heard") == [["input", "project"], ["change", "project"]]
    assert field.input_value() == "" and len(page.evaluate(SHOWN)) > 1000, "all are there again"
    assert not page.locator(".select-find").nth(1).count(), "short lists have no such field"


def test_finding_in_a_long_list_leaves_what_is_chosen_as_it_is(crowded: Any) -> None:
    page = crowded
    field = page.get_by_label("Find in the list Project")
    for chosen in ("", "zoo-500", "zoo-999", "zoo-770"):
        page.evaluate("(value) => { document.querySelector('#project').value = value; }", chosen)
        for typed in ("zoo 77", "no such project", ""):
            field.fill(typed)
            assert page.evaluate(CHOSEN) == chosen, typed
    assert len(page.evaluate(SHOWN)) > 1000
    page.evaluate("document.querySelector('#project').disabled = true")
    field.fill("zoo 3")
    field.press("Enter")
    assert page.evaluate(CHOSEN) == "zoo-770"


def test_a_long_list_keeps_a_choice_that_came_to_it_after_its_page(crowded: Any) -> None:
    page = crowded
    field = page.get_by_label("Find in the list Project")
    come = """([text, value]) => {
      const select = document.querySelector("#project");
      select.add(new Option(text, value));
      select.value = value;
    }"""
    page.evaluate(come, ["Whales", "whales"])
    for typed in ("zoo 77", "", "whal"):
        field.fill(typed)
        assert page.evaluate(CHOSEN) == "whales" and "Whales" in page.evaluate(SHOWN), typed
    page.evaluate(come, ["zoo-5", "zoo-5"])  # as the form of a spec does for what its list does not have in sight
    field.fill("")
    assert page.evaluate(CHOSEN) == "zoo-5"
    assert "zoo-5" not in page.evaluate(SHOWN) and page.evaluate(SHOWN).count("Zoo 5") == 1


def test_a_question_names_what_its_answer_does(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as()
    visit(page, f"/jobs/{ids['running']}/live/")
    page.click("#job-header button:has-text('Cancel')")
    page.wait_for_selector("#confirm-dialog[open]")
    assert page.inner_text("#confirm-dialog button[value=yes]") == "Yes, cancel"


def test_ticked_rows_are_counted_and_kept_while_the_list_follows_what_others_do(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page, other = open_as(), open_as("member")
    visit(page, "/jobs/")
    visit(other, f"/jobs/{ids['paused']}/live/")
    rename(other, "renamed by a colleague")
    until(page, "document.querySelector('#jobs').innerText.includes('renamed by a colleague')")
    page.check(f"input[name=job][value='{ids['failed']}']")
    assert page.inner_text("[data-chosen-count]") == "1 chosen"
    assert page.evaluate("document.querySelector('[data-select-all]').indeterminate")
    rename(other, "renamed once more")
    page.wait_for_timeout(2500)  # longer than it takes to hear of it
    assert page.is_checked(f"input[name=job][value='{ids['failed']}']")
    page.uncheck(f"input[name=job][value='{ids['failed']}']")
    until(page, "document.querySelector('#jobs').innerText.includes('renamed once more')")


def test_the_tab_of_the_browser_tells_how_a_run_goes(
    open_as: Callable[..., Any], ids: dict[str, str], broker_url: str
) -> None:
    page = open_as()
    visit(page, f"/jobs/{ids['running']}/live/")
    until(page, "/^\\d+\\.\\d % · .* · Live · Harness$/.test(document.title)")
    data = {"step": 200, "steps_total": 250, "epoch": 8.0, "epochs": 10, "samples_per_s": 9.0, "eta_s": 5.0}
    event = Event(kind=EventKind.PROGRESS, job_id=ids["running"], token=1, rank=0, seq=1, time_s=time.time(), data=data)
    redis.Redis.from_url(broker_url).xadd(job_stream(ids["running"]), {"event": event.to_json()})
    until(page, "document.title.startsWith('80.0 % · ')")


def test_the_time_left_of_a_run_runs_down_to_its_expected_finish(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as()
    visit(page, f"/jobs/{ids['running']}/live/")
    left = "Number(document.querySelector('[data-live=left]').dataset.left)"
    before = page.evaluate(left)
    until(page, f"{left} < {before} && /^about \\d/.test(document.querySelector('[data-live=left]').textContent)")


def test_who_wished_it_is_told_when_a_run_ends(
    open_as: Callable[..., Any], ids: dict[str, str], broker_url: str
) -> None:
    page, job = open_as(), ids["running"]
    page.context.grant_permissions(["notifications"])
    page.add_init_script(
        """window.told = [];
        window.Notification = class extends EventTarget {
          static permission = "granted";
          static requestPermission = async () => "granted";
          constructor(title) { super(); window.told.push(title); }
        };"""
    )
    visit(page, f"/jobs/{job}/live/")
    name = page.inner_text("h1")
    page.click("button:has-text('Notify me when it ends')")
    page.wait_for_selector("button[aria-pressed=true]:has-text('You will be notified')")

    def ended(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace("Running", "Succeeded"))

    page.route(f"**/jobs/{job}/header/", ended)
    event = Event(kind=EventKind.EXITED, job_id=job, token=1, rank=0, seq=2, time_s=time.time(), data={})
    redis.Redis.from_url(broker_url).xadd(job_stream(job), {"event": event.to_json()})
    until(page, "window.told.length > 0")
    assert page.evaluate("window.told") == [f"{name}: succeeded"]


@pytest.mark.parametrize("name", ["live", "results"])
def test_no_row_of_cards_has_a_hole(open_as: Callable[..., Any], ids: dict[str, str], name: str) -> None:
    page = open_as()
    visit(page, addresses(ids)[name])
    page.wait_for_selector(".uplot")
    rows = """(() => {
      const cards = [...document.querySelectorAll('.grid-2 section.card')].map((card) => card.getBoundingClientRect());
      const ends = new Map();
      for (const { top, right } of cards) ends.set(Math.round(top), Math.max(ends.get(Math.round(top)) ?? 0, right));
      return new Set([...ends.values()].map(Math.round)).size;
    })()"""
    until(page, f"{rows} === 1")


def test_what_a_person_folded_out_stays_open_while_the_page_follows_others(open_as: Callable[..., Any]) -> None:
    page = open_as("admin")
    visit(page, "/pool/calibration/")
    page.wait_for_selector("#calibration-runs[data-mounted]")
    fold = page.locator("#calibration-runs details").first
    fold.locator("summary").click()
    page.evaluate("document.querySelector('#calibration-runs details').dataset.before = '1'")
    until(page, "!document.querySelector('#calibration-runs details').dataset.before")
    assert fold.get_attribute("open") is not None


def test_a_job_keeps_its_colour_in_charts_where_another_one_has_nothing(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as()

    def without_training_loss(route: Any) -> None:
        body = route.fetch().json()
        del body["curves"]["train/loss"]
        route.fulfill(json=body)

    page.route(f"**/jobs/{ids['running']}/curves/**", without_training_loss)
    visit(page, addresses(ids)["compare"])
    markers = "[...document.querySelectorAll('section[aria-label=\"loss, {}\"] .u-series:not(:first-child) .u-marker')]"
    colours = f"{markers}.map((marker) => marker.style.border)"
    until(page, f"{colours.format('validation')}.length === 2 && {colours.format('training')}.length === 1")
    assert page.evaluate(colours.format("training")) == page.evaluate(colours.format("validation"))[1:]


def test_data_is_not_sent_before_a_project_is_chosen_and_a_sample_goes_to_it(open_as: Callable[..., Any]) -> None:
    page = open_as("admin")  # sees all projects, created none of them, and has nothing in any
    visit(page, "/datasets/upload/")
    assert page.input_value("[data-option-project]") == ""
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.method) if request.method == "POST" else None)
    until(page, DROP_BESIDE)
    page.click("[data-start]")
    page.click("[data-forget]")
    page.click("[data-samples] button >> nth=1")
    assert page.evaluate("document.activeElement.id") == "project" and not sent
    page.select_option("[data-option-project]", "orchard")
    page.click("[data-samples] button >> nth=1")
    page.wait_for_url("**/datasets/*/")
    assert "Orchard" in page.inner_text(".crumbs") and sent == ["POST"]


def test_an_upload_that_stopped_is_not_continued_into_another_project_than_is_chosen(
    open_as: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "secret.csv"
    path.write_text("a,b,label\n" + "".join(f"{row},{row % 7},{'yes' if row % 3 else 'no'}\n" for row in range(99)))
    page = open_as("admin")
    for is_anew in (False, True):
        visit(page, "/datasets/upload/")
        page.route("**/api/v1/uploads/*", lambda _route: None)  # what is sent is never answered
        page.select_option("#project", "orchard")
        page.set_input_files("[data-file]", str(path))
        page.focus("[data-start]")
        page.keyboard.press("Enter")
        until(page, "document.activeElement.matches('[data-pause]')")
        until(page, "JSON.stringify(localStorage).includes('orchard')")
        page.keyboard.press("Enter")
        until(page, "document.activeElement.matches('[data-start]')")
        page.unroute("**/api/v1/uploads/*")
        if is_anew:
            visit(page, "/datasets/upload/")
            page.set_input_files("[data-file]", str(path))
        page.select_option("#project", "elsewhere")
        page.click("[data-start]")
        until(page, "/datasets\\/[a-z0-9]{12}\\//.test(window.location.href)")
        assert page.inner_text(".crumbs") == "Datasets · Elsewhere"
