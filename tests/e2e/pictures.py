"""The pictures of the README, taken anew from real jobs into docs/images: `make pictures`.

A stack in a temporary home trains the digits. A browser takes the page of the job while it runs, its results, and the
offer for a longer one, each cut off below what the picture is about. Figures and times are those of this machine.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from harness.datasets.samples import sample_file
from tests.e2e.browser import CHROMIUM, DIST, NO_CHROMIUM, NO_PAGES, chromium, open_page, sign_in
from tests.e2e.portal import ROOT, until
from tests.e2e.stack import JOB_TIMEOUT_S, RunningStack
from tests.waiting import wait_for

PICTURES = ROOT / "docs" / "images"
JOB: dict[str, Any] = {"name": "Digits", "training": {"epochs": 16, "seed": 1}}
"""Short enough that its results are not perfect, long enough to be seen while it runs."""
LIVE_FROM = 0.5
"""Share of its training that is done in the picture."""
LONGER: dict[str, Any] = {"name": "Digits, longer", "training": {"epochs": 60, "seed": 1}}
DEADLINE_IN = timedelta(minutes=4)
WIDTH, HEIGHT = 1440, 2000
"""Of the browser's window: charts are drawn as they come into view."""
CHARTS_DRAWN = (
    "[...document.querySelectorAll('[data-mount=chart]')]"
    ".every((host) => host.childElementCount > 0 || host.getBoundingClientRect().top > innerHeight)"
)
BELOW_PX = 12
"""Left below the last card of a picture."""


def taken(page: Any, name: str, last: str) -> None:
    """Save the page down to the card with this heading, once the charts in view are drawn."""
    until(page, CHARTS_DRAWN)
    page.evaluate("document.fonts.ready")
    box = page.locator("section.card", has=page.get_by_role("heading", name=last, exact=True)).bounding_box()
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": round(box["y"] + box["height"]) + BELOW_PX}
    page.screenshot(path=PICTURES / name, clip=clip, animations="disabled")
    print(f"{PICTURES.relative_to(ROOT) / name}: {clip['width']} x {clip['height']}")


def live_take(stack: RunningStack, page: Any, job: str) -> None:
    """The job in the middle of its training."""
    stack.job_wait(job, "running")
    page.goto(f"/jobs/{job}/live/")
    wait_for(
        lambda: (stack.job_wait(job, "running")["progress"] or 0) >= LIVE_FROM,
        timeout_s=JOB_TIMEOUT_S,
        what="the job is in the middle of its training",
    )
    page.wait_for_selector("section[aria-label=accuracy] .uplot")
    taken(page, "live.png", "Accuracy")


def results_take(stack: RunningStack, page: Any, job: str) -> None:
    """How good it became."""
    stack.job_wait(job, "succeeded")
    page.goto(f"/jobs/{job}/results/")
    taken(page, "results.png", "Confusion matrix")


def offer_take(stack: RunningStack, page: Any, dataset: str) -> None:
    """All options to run a longer job by a deadline."""
    deadline = (datetime.now(UTC) + DEADLINE_IN).replace(second=0, microsecond=0)
    spec = {**LONGER, "budget": {"deadline": deadline.isoformat()}}
    draft = stack.post("/jobs", {"project": stack.project, "dataset": dataset, "spec": spec})["id"]
    page.goto(f"/jobs/{draft}/cost/")
    page.wait_for_selector(".offer-table")
    taken(page, "offer.png", "All options")


@contextmanager
def running() -> Iterator[RunningStack]:
    """A stack in a home that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="pictures-") as folder:
        stack = RunningStack(Path(folder) / "home")
        try:
            yield stack.wait_running()
            stack.stop()
        finally:
            stack.kill()


def main() -> int:
    """Take all three."""
    missing = [why for why, is_there in ((NO_CHROMIUM, CHROMIUM), (NO_PAGES, DIST.exists())) if not is_there]
    if missing:
        print("No pictures:", "; ".join(missing))
        return 1
    strange: list[str] = []
    with running() as stack, chromium() as browser, tempfile.TemporaryDirectory() as folder:
        dataset = stack.upload(sample_file("digits", Path(folder)), "digits (sample)")
        page = open_page(browser, stack.url, strange, width=WIDTH)
        page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        sign_in(page, stack.url, stack.user, stack.password)
        job = stack.job_submit(dataset, JOB)
        live_take(stack, page, job)
        results_take(stack, page, job)
        offer_take(stack, page, dataset)
    assert not strange, strange
    return 0


if __name__ == "__main__":
    sys.exit(main())
