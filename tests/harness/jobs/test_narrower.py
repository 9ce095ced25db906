"""A change that takes cores of a running job: it goes on with fewer, and this is told beside its new finish."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from harness.jobs.consequences import priority_consequences
from harness.jobs.models import Job
from harness.jobs.options import job_options_set
from harness.jobs.queueing import job_priority_set
from scheduler.types import Option
from tests.harness.jobs.helpers import queue, run_now

pytestmark = [pytest.mark.usefixtures("tasks_sent"), pytest.mark.django_db]
WORDS = "It goes on with 1 of its 2 CPU cores."
BACK = "as if it got none of them back"


@pytest.fixture
def make_pair(job_make, node_make):
    """A job that runs on both cores and can do with one, and one of a core that waits; with estimates or without."""

    def make(*, estimated: bool) -> tuple[Job, Job]:
        node_make(cpus=2)
        wide = job_make(name="wide", mode="sync", resources={"device": "cpu", "count": 2, "least": 1})
        waits = job_make(name="waits", resources={"device": "cpu", "count": 1})
        if estimated:
            ways = [Option(kind="cpu", count=count, mode="sync", rate_per_s=count / 7200) for count in (2, 1)]
            job_options_set(wide, ways, slowdown=1.0)
            job_options_set(waits, [Option(kind="cpu", count=1, mode="single", rate_per_s=1 / 600)], slowdown=1.0)
        run_now(wide)
        return wide, queue(waits)

    return make


def test_who_lends_a_core_is_told_to_go_on_beside_a_finish_without_it(make_pair, people):
    wide, waits = make_pair(estimated=True)
    found = {row.job: row for row in priority_consequences(user=people.admin, job=waits, priority=50)}
    assert found[waits].gains
    row = found[wide]
    assert row.why.startswith(WORDS) and BACK in row.why and not row.gains
    assert row.finish_after - row.finish_before > timedelta(minutes=10)


def test_who_lends_a_core_is_told_so_where_nobody_knows_its_finish(make_pair, people):
    wide, waits = make_pair(estimated=False)
    found = {row.job: row for row in priority_consequences(user=people.admin, job=waits, priority=50)}
    assert (found[wide].why, found[wide].finish_after) == (WORDS, None)


def test_who_gives_a_core_away_anyway_is_not_told_again(make_pair, people):
    wide, waits = make_pair(estimated=False)
    job_priority_set(user=people.admin, job=waits, priority=50)
    assert wide not in [row.job for row in priority_consequences(user=people.admin, job=waits, priority=60)]


def test_who_gives_more_away_than_anyway_is_told(job_make, node_make, people):
    node_make(cpus=4)
    wide = job_make(name="wide", mode="sync", resources={"device": "cpu", "count": 4, "least": 1})
    one, two = (job_make(name=f"takes {count}", resources={"device": "cpu", "count": count}) for count in (1, 2))
    run_now(wide)
    job_priority_set(user=people.admin, job=queue(one), priority=50)
    found = {row.job: row.why for row in priority_consequences(user=people.admin, job=queue(two), priority=50)}
    assert found[wide] == "It goes on with 1 of its 4 CPU cores."


def test_the_page_shows_both_before_and_after(make_pair, people):
    _, waits = make_pair(estimated=True)
    admin = Client()
    admin.force_login(people.admin)
    act = reverse("queue_act", args=[waits.pk])
    looked = admin.post(act, {"priority": "50", "look": "1"}).content.decode()
    assert WORDS in looked and BACK in looked
    done = " ".join(admin.post(act, {"priority": "50"}, follow=True).content.decode().split())
    assert WORDS in done and "instead of" in done[: done.index(WORDS)]
