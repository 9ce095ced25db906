"""A node that answers sweeps by a law that is known."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from harness.jobs.models import Job, JobAttempt, MetricPoint
from tests.harness.measuring.jobs import foretell
from tests.scheduler.made_workloads import true_peak, true_step_s, workload
from tests.silent_broker import SilentBroker

Measures = Callable[[], list[dict[str, Any]]]
Commit = Callable[..., Any]
LINK_TIMES = {"ok": True, "problem": None, "sizes_bytes": [4096, 65536, 1 << 20], "seconds": [1e-3, 1.1e-3, 3e-3]}
"""What a node says of its link."""


@pytest.fixture(autouse=True)
def quiet(tasks_sent: list[Any], monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any) -> None:
    """No broker."""
    from harness import broker

    monkeypatch.setattr(broker, "client", SilentBroker)


@pytest.fixture
def start(people: SimpleNamespace, node_make: Callable[..., Any], commit: Callable[..., Any]) -> Callable[..., Any]:
    """Start a sweep on a node with two idle cores, whose link counts as timed; `link=None`: as not timed."""
    from harness.measuring.links import link_read, link_store
    from harness.measuring.services import calibration_start

    def make(*, link: Any = LINK_TIMES, **more: Any) -> Any:
        node_make("node-1")
        run = commit(calibration_start, user=people.admin, **{"node": "node-1", "budget_s": 600.0, **more})
        if link:
            link_store(run, link_read(link))
        return run

    return make


@pytest.fixture
def measures(tasks_sent: list[Any]) -> Callable[[], list[dict[str, Any]]]:
    """Requests for measurements that were sent to nodes."""
    return lambda: [args[0] for name, args, _ in tasks_sent if name == "node.measure"]


def answer(request: dict[str, Any], number: int = 0, **more: Any) -> dict[str, Any]:
    """What a node says to a request."""
    work = workload(layers=1 + number % 4, filters=4 + 3 * number, batch=8 + 4 * number)
    step_s = true_step_s(work)
    return {
        "request_id": request["request_id"], "ok": True, "problem": None, "workload": work.to_dict(),
        "step_s": [step_s, step_s * 1.02], "peak_bytes": true_peak(work), "power_w": None, "noise": 0.01, **more,
    }  # fmt: skip


def advance(commit: Commit, times: int = 1) -> None:
    """As control does again and again."""
    from harness.measuring.sweep import calibrations_advance

    for _ in range(times):
        commit(calibrations_advance)


@pytest.fixture
def ended(job_make: Callable[..., Any], node_make: Callable[..., Any]) -> Callable[..., Job]:
    """A job that ran on one core and succeeded; its steps took `step_s`."""
    from tests.harness.jobs.helpers import event, run_now

    def make(
        step_s: float,
        *,
        estimated: bool = True,
        run_s: float = 60.0,
        before_end: Callable[[Job], None] = lambda job: None,
    ) -> Job:
        from harness.jobs.control.effects import events_apply

        node_make("node-1")
        job = job_make(resources={"device": "cpu", "count": 1}, training={"batch_size": 32, "epochs": 2})
        if estimated:
            foretell(job)
        attempt = run_now(job)
        for step in range(5):
            MetricPoint.objects.create(
                job=job, key="rank0/samples_per_s", step=step, epoch=0.1, value=32 / step_s, time_s=1.0
            )
        started = timezone.now() - timedelta(seconds=run_s)
        JobAttempt.objects.filter(pk=attempt.pk).update(started_at=started)
        job.refresh_from_db()
        before_end(job)
        events_apply(job.pk, [event(job, "exited", 9, time_s=time.time(), outcome="succeeded", failure=None)])
        job.refresh_from_db()
        assert job.state == "succeeded"
        return job

    return make
