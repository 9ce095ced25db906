"""The comparison of many jobs in a real browser: ranges, marks, charts by keyboard, what the address keeps."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.browser import BROWSER_MARKS
from tests.e2e.portal import ROOT, Portal, until, visit
from tests.e2e.seeded import browser, ids, open_as, portal
from tests.e2e.test_pages_results import SCROLLED

pytestmark = BROWSER_MARKS
__all__ = ["browser", "ids", "open_as", "portal"]
SHOWN = "[...document.querySelectorAll('[data-runs] [data-run]')].filter((row) => !row.hidden).length"
MARKED = "document.querySelector('[data-runs] tr.marked')?.dataset.run"
READY = "document.querySelectorAll('.run-chart canvas').length === 3 && document.querySelectorAll('.uplot').length > 1"
_MAKE = """
import django; django.setup()
from harness.jobs.models import Job
from tests.factory_runs import runs_make
runs_make(Job.objects.get(pk=%r), 50)
"""


def into_view(page: Any, selector: str) -> dict[str, float]:
    """Where it is once it stands still: pages scroll smoothly."""
    page.evaluate(f"document.querySelector({selector!r}).scrollIntoView({{ behavior: 'instant', block: 'center' }})")
    box: dict[str, float] = page.locator(selector).bounding_box()
    return box


@pytest.fixture(scope="module")
def many(portal: Portal, ids: dict[str, str]) -> str:
    """Address of a comparison of fifty runs."""
    subprocess.run([sys.executable, "-c", _MAKE % ids["succeeded"]], cwd=ROOT, env=portal.env, check=True, timeout=120)
    return "/jobs/compare/?" + "&".join(f"job=run{number:09d}" for number in range(50))


def test_a_range_dragged_along_an_axis_keeps_its_jobs_everywhere_and_stays_in_the_address(
    open_as: Callable[..., Any], many: str
) -> None:
    page = open_as()
    visit(page, many)
    until(page, READY)
    box = into_view(page, "#runs-parallel")
    # The last axis is the metric's; its upper half has the better half of the jobs.
    x, top = box["x"] + box["width"] - 90, box["y"] + 52
    page.mouse.move(x, top + 4)
    page.mouse.down()
    page.mouse.move(x, top + 60, steps=4)
    page.mouse.move(x, top + 120, steps=4)
    page.mouse.up()
    until(page, f"{SHOWN} < 40 && {SHOWN} > 5")
    kept = page.evaluate(SHOWN)
    moved = abs(page.locator("#runs-parallel").bounding_box()["y"] - box["y"])
    assert moved < 8, "the chart went away from under the hand"
    assert f"{kept} of 50 within the ranges" in page.inner_text("[data-within]")
    until(page, "location.search.includes('within=')")
    page.reload()
    until(page, f"{READY} && {SHOWN} === {kept}")
    assert page.get_by_label("Best accuracy (validation) from").input_value() != ""
    page.click("button:has-text('Clear the ranges')")
    until(page, f"{SHOWN} === 50 && !location.search.includes('within=')")


def test_ranges_are_set_without_a_mouse_by_bounds_and_by_names(open_as: Callable[..., Any], many: str) -> None:
    page = open_as()
    visit(page, many)
    until(page, READY)
    page.click("summary:has-text('Ranges')")
    page.get_by_label("Learning rate from").fill("0.001")
    page.get_by_label("Learning rate from").press("Tab")
    until(page, f"{SHOWN} < 50")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Learning rate to"
    by_rate = page.evaluate(SHOWN)
    page.locator("fieldset:has-text('Optimizer') label:has-text('sgd') input").uncheck()
    until(page, f"{SHOWN} < {by_rate}")
    assert page.get_by_label("Learning rate from").input_value() == "0.001"


def test_what_is_pointed_at_in_one_chart_is_marked_in_the_others_and_opens_by_enter(
    open_as: Callable[..., Any], many: str
) -> None:
    page = open_as()
    visit(page, many)
    until(page, READY)
    page.focus("#runs-scatter")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    until(page, f"{MARKED} === 'run000000001'")
    tips = "[...document.querySelectorAll('.run-tip')].map((tip) => tip.textContent)"
    assert all(tip.startswith("run 001") for tip in page.evaluate(tips))
    assert "run 001" in page.inner_text("#announcer")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/run000000001/**")


def test_a_row_of_the_table_marks_its_job_and_a_curve_opens_it(open_as: Callable[..., Any], many: str) -> None:
    page = open_as()
    visit(page, many.replace("&job=run000000001", "").split("&job=run000000002")[0] + "&job=run000000024")
    until(page, READY)
    page.hover("[data-run=run000000024]")
    until(page, "document.querySelector('.run-tip').textContent.startsWith('run 024')")
    page.mouse.move(0, 0)
    box = into_view(page, "section[aria-label='loss, validation'] .u-over")
    for height in range(10, int(box["height"]) - 4, 6):
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + height)
        if page.evaluate(MARKED):
            break
    name = page.evaluate(MARKED)
    assert name
    page.mouse.down()
    page.mouse.up()
    page.wait_for_url(f"**/jobs/{name}/**")


def test_metric_axes_and_scatter_are_in_the_address_and_figures_come_as_table_and_csv(
    open_as: Callable[..., Any], many: str
) -> None:
    page = open_as()
    visit(page, many)
    until(page, READY)
    page.get_by_label("Metric").select_option("run_s")
    page.get_by_label("Across").select_option("training.optimizer")
    page.locator("section[aria-label=Scatter] label:has-text('Log') input").check()
    until(page, "['metric=run_s', 'sx=training.optimizer', 'sylog=1'].every((part) => location.search.includes(part))")
    page.reload()
    until(page, READY)
    assert page.get_by_label("Metric").input_value() == "run_s"
    assert "Less is better. First: run 000, 40." in page.inner_text("section[aria-label=Best]")
    page.click("section[aria-label=Best] summary")
    until(page, "document.querySelectorAll('section[aria-label=Best] tbody tr').length === 50")
    with page.expect_download() as waiting:
        page.click("section[aria-label='Parallel coordinates'] button:has-text('CSV')")
    lines = waiting.value.path().read_text().splitlines()
    assert lines[0].startswith("id,name,state,Task,Batch size,Learning rate") and len(lines) == 51


@pytest.mark.parametrize(("width", "theme"), [(1440, "dark"), (390, "light")])
def test_fifty_jobs_fit_the_page_and_have_no_serious_accessibility_fault(
    open_as: Callable[..., Any], many: str, width: int, theme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = open_as(width=width, theme=theme)
    visit(page, many)
    until(page, READY)
    page.click("summary:has-text('Ranges')")
    page.click("summary:has-text('Axes')")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    faults = [fault for fault in Axe().run(page).response["violations"] if fault["impact"] in {"serious", "critical"}]
    assert not [(fault["id"], [node["target"] for node in fault["nodes"]][:3]) for fault in faults]


@pytest.mark.parametrize("width", [1440, 390])
def test_the_table_of_fifty_jobs_does_not_scroll_within_the_page_and_the_charts_are_a_click_away(
    open_as: Callable[..., Any], many: str, width: int
) -> None:
    page = open_as(width=width)
    visit(page, many)
    until(page, READY)
    assert set(page.evaluate(SCROLLED)) <= {"column-list"}, "a list to tick may, no table"
    page.click("a:text-is('To the charts')")
    until(page, "document.querySelector('#compare-charts').getBoundingClientRect().top < innerHeight / 2")


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (390, "dark")])
def test_jobs_are_grouped_in_place_and_a_group_opens_to_jobs_to_compare(
    open_as: Callable[..., Any], many: str, width: int, theme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = open_as(width=width, theme=theme)
    visit(page, "/jobs/?q=run+0")
    page.click("summary:text-is('Group')")
    page.select_option("#group", "spec:training.optimizer")
    page.wait_for_url("**group=spec*")
    page.wait_for_selector("a:has-text('▸ adamw')")
    assert page.locator("#jobs input[name=job]").count() == 0
    page.click("a:has-text('▸ adamw') >> nth=0")
    page.wait_for_url("**open=*")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    faults = [fault for fault in Axe().run(page).response["violations"] if fault["impact"] in {"serious", "critical"}]
    assert not [(fault["id"], [node["target"] for node in fault["nodes"]][:3]) for fault in faults]
    page.check("[data-select-all=job]") if width > 640 else page.locator("input[name=job]").first.check()
    page.click("button:has-text('Compare selected')")
    page.wait_for_url("**/jobs/compare/?job=*")


_LONG = """
import django; django.setup()
from harness.jobs.models import Job
for job in Job.objects.filter(pk__in=["run000000001", "run000000002"]):
    job.last_values["val/a_score_that_somebody_gave_a_very_long_name"] = 0.5
    job.save(update_fields=["last_values"])
"""


def test_a_phone_has_room_for_the_controls_whatever_metrics_are_called(
    open_as: Callable[..., Any], many: str, portal: Portal
) -> None:
    subprocess.run([sys.executable, "-c", _LONG], cwd=ROOT, env=portal.env, check=True, timeout=120)
    page = open_as(width=390)
    visit(page, "/jobs/compare/?job=run000000001&job=run000000002&seeds=mean")
    until(page, READY)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert "run 001 and 1 other seed" in page.inner_text("[data-mount=compare]")
