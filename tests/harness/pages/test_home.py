"""The home page shows a few jobs of each kind, and asks for no more than these."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from harness.jobs.models import Job
from harness.pages.views.home import SHOWN, SHOWN_ENDED
from tests.plans import tables_read_whole
from worker.states import HAS_ATTEMPT, TERMINAL, JobState

pytestmark = pytest.mark.django_db


@pytest.fixture
def many(people: SimpleNamespace, job_make: Callable[..., Any]) -> None:
    """Seven jobs in each state; those with higher numbers ended earlier."""
    first, now = job_make(), timezone.now()
    fields = {"project": first.project, "owner": first.owner, "dataset": first.dataset}
    Job.objects.bulk_create(
        Job(
            name=f"{state}-{number}",
            state=state,
            queued_at=now if state == JobState.QUEUED else None,
            queue_position=number + 1 if state == JobState.QUEUED else None,
            finished_at=now - timedelta(hours=number) if state in TERMINAL else None,
            **fields,
        )
        for state in JobState
        for number in range(7)
    )


def test_the_newest_ended_jobs_are_shown_and_those_that_are_open(
    many: None, people: SimpleNamespace, client: Client
) -> None:
    client.force_login(people.owner)
    page = client.get("/").content.decode()
    for state in (JobState.SUCCEEDED, JobState.FAILED):
        shown = [number for number in range(7) if f">{state}-{number}<" in page]
        assert shown == list(range(SHOWN_ENDED))
    assert all(f">{state}-6<" in page for state in (JobState.CANCELLING, JobState.QUEUED, JobState.PAUSED))


def test_where_more_jobs_run_or_wait_than_are_shown_it_says_so_and_leads_to_all(
    many: None, people: SimpleNamespace, client: Client
) -> None:
    client.force_login(people.owner)
    page = " ".join(client.get("/").content.decode().split())
    run_all = "?" + "&amp;".join(f"state={state}" for state in sorted(HAS_ATTEMPT))
    assert f'<h2 id="rt">Running</h2> <span class="text-secondary">the newest {SHOWN}</span>' in page
    assert f'href="/jobs/{run_all}"' in page
    assert '<h2 id="qt">Queue</h2> <span class="text-secondary"> 7</span>' in page and "All waiting jobs" not in page

    state, behind = JobState.QUEUED, Job.objects.filter(state=JobState.QUEUED, queue_position=7).get()
    fields = {"project": behind.project, "owner": behind.owner, "dataset": behind.dataset}
    later = timezone.now() + timedelta(minutes=1)
    Job.objects.create(name="told first", state=state, queued_at=later, queue_position=0, **fields)
    Job.objects.create(name="told last", state=state, queued_at=later - timedelta(days=1), queue_position=8, **fields)
    page = " ".join(client.get("/").content.decode().split())
    assert f'<h2 id="qt">Queue</h2> <span class="text-secondary">the first {SHOWN}</span>' in page
    assert "All waiting jobs" in page and ">told first<" in page and ">told last<" not in page

    found = client.get(f"/jobs/{run_all.replace('&amp;', '&')}").content.decode()
    assert f"{7 * len(HAS_ATTEMPT)} in all" in found


def test_no_list_is_counted_or_read_to_its_end(many: None, people: SimpleNamespace, client: Client) -> None:
    client.force_login(people.owner)
    client.get("/")
    with CaptureQueriesContext(connection) as asked, tables_read_whole() as found:
        assert client.get("/").status_code == 200
    of_jobs = [query["sql"] for query in asked if 'FROM "jobs_job"' in query["sql"] and "EXPLAIN" not in query["sql"]]
    counts = [sql for sql in of_jobs if "COUNT(" in sql]
    assert all("LIMIT" in sql for sql in of_jobs if sql not in counts)
    assert len(counts) == 1 and "queued" in counts[0]  # how many wait is told
    assert "jobs_job" not in found


def test_lists_of_ended_and_of_open_jobs_are_read_off_their_indexes(people: SimpleNamespace) -> None:
    from harness.jobs.selectors import jobs_ended, jobs_open

    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL chooses by what is in its tables")
    ended = jobs_ended(user=people.owner, state=JobState.SUCCEEDED)[:5].explain()
    assert "job_ended (state=? AND finished_at>?)" in ended
    assert "job_open" in jobs_open(user=people.owner, states=[JobState.RUNNING, JobState.PLACED])[:5].explain()
