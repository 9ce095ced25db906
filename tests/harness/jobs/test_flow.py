from __future__ import annotations

import json

import pytest

from harness.jobs.control.effects import events_apply
from harness.jobs.control.tick import tick
from harness.jobs.models import Allocation, JobAttempt, JobEvent
from harness.rates.submitting import job_submit
from worker.events import Event, EventKind
from worker.plan import RunPlan

pytestmark = pytest.mark.django_db


def event(job, kind, seq, rank=-1, token=1, **data):
    return Event(kind=EventKind(kind), job_id=job.pk, token=token, rank=rank, seq=seq, time_s=1.7e9 + seq, data=data)


def test_a_submitted_job_is_placed_runs_and_succeeds(
    job, people, node_make, tasks_sent, django_capture_on_commit_callbacks
):
    node_make()
    with django_capture_on_commit_callbacks(execute=True):
        job_submit(user=people.owner, job=job)
    assert ("control.tick", [], "control") in tasks_sent
    with django_capture_on_commit_callbacks(execute=True):
        assert tick() == 1
    job.refresh_from_db()
    assert (job.state, job.token) == ("placed", 1)
    starts = [args[0] for name, args, queue in tasks_sent if name == "node.start" and queue == "node.node-1"]
    plan = RunPlan.from_dict(json.loads(json.dumps(starts[0])))
    assert (plan.job_id, plan.token, plan.world_size) == (job.pk, 1, len(plan.ranks))
    assert JobAttempt.objects.get().sent_at is not None

    events_apply(job.pk, [event(job, "started", 0, sandbox_level=3, node="node-1"), event(job, "running", 0, rank=0)])
    job.refresh_from_db()
    assert (job.state, job.sandbox_level) == ("running", 3)
    events_apply(job.pk, [event(job, "exited", 1, outcome="succeeded", failure=None)])
    job.refresh_from_db()
    assert job.state == "succeeded"
    assert job.finished_at
    assert not Allocation.objects.exists()
    states = JobEvent.objects.filter(kind="state").order_by("id").values_list("new_state", flat=True)
    assert list(states) == ["queued", "placed", "running", "succeeded"]
