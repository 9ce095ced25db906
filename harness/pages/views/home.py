"""Home: what runs, what waits, what failed, what is free."""

from __future__ import annotations

from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseBase

from harness.accounts.access import project_refused
from harness.datasets.samples import SAMPLES
from harness.jobs.control.expectations import idle_s, left_s
from harness.jobs.models import Job
from harness.jobs.outlook import is_unknown_now
from harness.jobs.readers import standstill
from harness.jobs.selectors import jobs_ended, jobs_open, jobs_queued, jobs_queued_count, queue_position
from harness.pages.first_steps import first_steps
from harness.pages.job_view import progress_share
from harness.pages.web import asks_part, page, person, show
from harness.pool.selectors import pool_overview
from harness.store_disk import store_free_bytes
from worker.states import HAS_ATTEMPT, JobState

SHOWN, SHOWN_ENDED = 8, 5


@page("GET", "HEAD")
def home(request: HttpRequest) -> HttpResponseBase:
    """The page, or for htmx its live part."""
    user = person(request)
    disk_free_bytes = store_free_bytes(settings.STORE)
    running, more_run = _begun(jobs_open(user=user, states=sorted(HAS_ATTEMPT)))
    queued, more_wait = _begun(jobs_queued(user=user))
    context = {
        "running": [
            {
                "job": job,
                "share": progress_share(job),
                "left_s": left_s(job),
                "idle_s": idle_s(job),
                "is_unknown": is_unknown_now(job),
            }
            for job in running
        ],
        "more_run": more_run,
        "run_states": sorted(HAS_ATTEMPT),
        "more_wait": more_wait,
        "standstill": standstill(),
        "is_admin": user.is_superuser,
        "queued": [{"job": job, "place": queue_position(job)} for job in queued],
        "failed": jobs_ended(user=user, state=JobState.FAILED)[:SHOWN_ENDED],
        "finished": jobs_ended(user=user, state=JobState.SUCCEEDED)[:SHOWN_ENDED],
        "drafts": jobs_open(user=user, states=[JobState.DRAFT, JobState.PAUSED])[:SHOWN_ENDED],
        "pool": pool_overview(),
        "waiting": jobs_queued_count(),
        "disk_free_bytes": disk_free_bytes,
        "disk_is_low": disk_free_bytes is not None and disk_free_bytes < 5 * settings.DISK_RESERVE_BYTES,
        "first": first_steps(user),
        "no_more": project_refused(user),
        "samples": [(name, words) for name, (_, _, words) in SAMPLES.items()],
    }
    template = "home/board.html" if asks_part(request) else "home/page.html"
    return show(request, template, context, nav="home")


def _begun(jobs: QuerySet[Job]) -> tuple[list[Job], bool]:
    """The first of a list, and whether there are more: a list is not counted, it may be long."""
    found = list(jobs[: SHOWN + 1])
    return found[:SHOWN], len(found) > SHOWN
