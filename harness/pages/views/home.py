"""Home: what runs, what waits, what failed, what is free."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from harness.accounts.access import project_refused
from harness.datasets.samples import SAMPLES
from harness.jobs.control.expectations import left_s
from harness.jobs.models import Job
from harness.jobs.selectors import JobFilters, job_list, jobs_queued_count, queue_position
from harness.pages.first_steps import first_steps
from harness.pages.job_view import progress_share
from harness.pages.web import asks_part, page, person, show
from harness.pool.selectors import pool_overview

SHOWN = 8


@page("GET", "HEAD")
def home(request: HttpRequest) -> HttpResponseBase:
    """The page, or for htmx its live part."""
    user = person(request)

    def jobs(*states: str) -> list[Job]:
        return job_list(user=user, filters=JobFilters(states=states), page_size=SHOWN).items

    running = jobs("placed", "running", "pausing", "cancelling")
    queued = job_list(user=user, filters=JobFilters(states=("queued",)), sort="queued", page_size=SHOWN).items
    context = {
        "running": [{"job": job, "share": progress_share(job), "left_s": left_s(job)} for job in running],
        "queued": [{"job": job, "place": queue_position(job)} for job in queued],
        "failed": job_list(user=user, filters=JobFilters(states=("failed",)), sort="-finished", page_size=5).items,
        "finished": job_list(user=user, filters=JobFilters(states=("succeeded",)), sort="-finished", page_size=5).items,
        "drafts": jobs("draft", "paused")[:5],
        "pool": pool_overview(),
        "waiting": jobs_queued_count(),
        "disk_free_bytes": settings.STORE.free_bytes(),
        "disk_is_low": settings.STORE.free_bytes() < 5 * settings.DISK_RESERVE_BYTES,
        "first": first_steps(user),
        "no_more": project_refused(user),
        "samples": [(name, words) for name, (_, _, words) in SAMPLES.items()],
    }
    template = "home/board.html" if asks_part(request) else "home/page.html"
    return show(request, template, context, nav="home")
