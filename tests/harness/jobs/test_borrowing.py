"""Who holds devices above the quota of its project, or can start no other way, is told that it may be put back."""

from __future__ import annotations

import pytest
from django.utils import timezone

from harness.jobs.models import Job
from harness.jobs.queueing import queue_rows
from harness.jobs.quota_use import borrowers
from harness.pool.quotas import quota_set
from tests.harness.jobs.helpers import place_now, queue

pytestmark = pytest.mark.usefixtures("tasks_sent")


@pytest.mark.django_db
def test_who_borrows_is_told_so_and_a_promised_job_is_not(job_make, people, node_make):
    node_make(cpus=2)
    quota_set(user=people.admin, project=people.project, device_kind="cpu", devices=1)
    place_now(job_make(name="within"))
    waits = queue(job_make(name="waits"))
    assert borrowers([waits]) == set(), "it starts within the quota when the other has ended"
    quota_set(user=people.admin, project=people.project, device_kind="cpu", devices=0)
    waiting, running = queue_rows(user=people.viewer)
    assert [row.borrows for row in (*waiting, *running)] == [True, True]
    Job.objects.update(promised_at=timezone.now())
    assert not any(row.borrows for rows in queue_rows(user=people.viewer) for row in rows)
    quota_set(user=people.admin, project=people.project, device_kind="cpu", devices=1, may_borrow=False)
    Job.objects.update(promised_at=None)
    assert not any(row.borrows for rows in queue_rows(user=people.viewer) for row in rows)


@pytest.mark.django_db
@pytest.mark.parametrize(("may_borrow", "said"), [(True, "1 of them borrowed"), (False, "1 more than it allows")])
def test_what_is_held_above_a_quota_is_borrowed_only_where_it_may_be(
    job_make, people, node_make, client, may_borrow, said
):
    node_make(cpus=2)
    place_now(job_make())
    quota_set(user=people.admin, project=people.project, device_kind="cpu", devices=0, may_borrow=may_borrow)
    client.force_login(people.viewer)
    page = " ".join(client.get("/pool/quotas/").content.decode().split())
    assert said in page and ("borrowed" in page) == may_borrow
