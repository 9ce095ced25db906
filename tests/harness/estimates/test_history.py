"""What has run is written as a trace that the simulator replays."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from harness.csv import csv_chunks
from harness.estimates import history
from harness.estimates.history import TRACE_COLUMNS, trace_rows
from harness.estimates.models import JobEstimate
from harness.jobs.models import DeviceUse, Job, JobEvent
from harness.jobs.windows import window_of
from scheduler.simulate.pool import SimPool
from scheduler.simulate.run import simulate
from scheduler.simulate.traces import read_trace
from tests.factory_offers import estimate_make, offer_make
from tests.harness.jobs.helpers import queue
from worker.states import JobState

pytestmark = [pytest.mark.usefixtures("tasks_sent"), pytest.mark.django_db]
NOW = timezone.now().replace(microsecond=0)


def use_make(job, device, *, token, minutes, seconds, watts=10.0, basis="assumed"):
    """What a device did for a job, so many minutes ago."""
    start = NOW - timedelta(minutes=minutes)
    return DeviceUse.objects.create(
        device=device, node_name=device.node.name, device_kind=device.kind, device_index=device.index, job=job,
        device_model=device.model_name,
        job_name=job.name, project=job.project, project_name=job.project.name, owner=job.owner, owner_name="owner",
        token=token, started_at=start, ended_at=start + timedelta(seconds=seconds), energy_j=watts * seconds,
        energy_basis=basis,
    )  # fmt: skip


def ended(job, *, minutes, state=JobState.SUCCEEDED, **fields):
    """The job as it was when it ended, so many minutes ago."""
    at = NOW - timedelta(minutes=minutes)
    Job.objects.filter(pk=job.pk).update(state=state.value, finished_at=at, **fields)


def queued(job, *, minutes):
    """Queue it, as if so many minutes ago."""
    queue(job)
    at = NOW - timedelta(minutes=minutes)
    JobEvent.objects.filter(job=job, new_state=JobState.QUEUED.value).update(at=at)
    return at.timestamp()


def test_jobs_that_ended_can_be_replayed(job_make, people, node_make, tmp_path):
    first, second = node_make(cpus=2).devices.order_by("index")
    wide, later = job_make(name="wide"), job_make(name="later")
    began_s, later_s = queued(wide, minutes=60), queued(later, minutes=50)
    deadline = NOW + timedelta(minutes=5)
    use_make(wide, first, token=1, minutes=58, seconds=100)
    for device in (first, second):
        use_make(wide, device, token=2, minutes=50, seconds=300)
    use_make(later, first, token=1, minutes=40, seconds=120)
    ended(wide, minutes=45, deadline_at=deadline, priority=7)
    ended(later, minutes=38, state=JobState.FAILED)

    path = tmp_path / "history.csv"
    path.write_bytes(b"".join(csv_chunks(TRACE_COLUMNS, trace_rows(user=people.viewer, window=window_of("day")))))

    one, two = read_trace(path)
    assert (one.job_id, one.submitted_s, one.count, one.run_s) == (wide.pk, began_s, 2, 350.0)
    assert (one.deadline_s, one.kind, one.priority) == (deadline.timestamp(), "cpu", 7)
    assert (one.power_w, one.project) == (20.0, people.project.slug)
    assert (two.job_id, two.submitted_s, two.count, two.run_s) == (later.pk, later_s, 1, 120.0)
    assert two.deadline_s is None
    replay = simulate(path, SimPool.parse("1x2:cpu"), "deadline_energy", overheads=False)
    assert [outcome.finished_s is not None for outcome in replay.outcomes] == [True, True]


def test_a_job_that_changed_to_a_gpu_is_told_by_it_and_not_as_so_many_gpus_as_it_had_cores(
    job_make, people, node_make, tmp_path
):
    node = node_make(cpus=4, gpus=1)
    (gpu,) = node.devices.filter(kind="cuda")
    job = job_make(name="moved")
    queued(job, minutes=60)
    use_make(job, gpu, token=2, minutes=40, seconds=60, watts=100.0)
    for core in node.devices.filter(kind="cpu"):
        use_make(job, core, token=1, minutes=58, seconds=300)
    ended(job, minutes=30)
    path = tmp_path / "history.csv"
    path.write_bytes(b"".join(csv_chunks(TRACE_COLUMNS, trace_rows(user=people.owner, window=window_of("day")))))
    (one,) = read_trace(path)
    assert (one.kind, one.count, one.run_s) == ("cuda", 1, 360.0)
    assert one.power_w == pytest.approx((4 * 300 * 10.0 + 60 * 100.0) / 360.0)


def test_what_a_job_ran_on_and_what_its_watts_rest_on_go_with_it(job_make, people, node_make, tmp_path):
    one, other = node_make("node-1", cpus=1), node_make("node-2", cpus=1)
    other.devices.update(model_name="slow core")
    here, there = one.devices.get(), other.devices.get()
    alike, moved = job_make(name="alike"), job_make(name="moved")
    use_make(alike, here, token=1, minutes=58, seconds=60, basis="measured")
    use_make(moved, here, token=1, minutes=50, seconds=60, basis="measured")
    use_make(moved, there, token=2, minutes=40, seconds=60)
    for job in (alike, moved):
        queued(job, minutes=60)
        ended(job, minutes=30)
    path = tmp_path / "history.csv"
    path.write_bytes(b"".join(csv_chunks(TRACE_COLUMNS, trace_rows(user=people.owner, window=window_of("day")))))
    found = {job.job_id: (job.device_model, job.power_basis) for job in read_trace(path)}
    assert found == {alike.pk: (here.model_name, "measured"), moved.pk: ("", "assumed")}


def test_what_the_estimator_told_goes_with_the_job(job_make, people, node_make, tmp_path):
    device = node_make(cpus=1).devices.get()
    job, other = job_make(name="told"), job_make(name="not told")
    kept = estimate_make(job)
    wider = kept.estimate | {"allocation": kept.estimate["allocation"] | {"count": 4, "mode": "sync"}}
    mixed = {"count": 2, "mode": "sync", "parts": [["core", 1], ["slow core", 1]]}
    mixture = kept.estimate | {"allocation": kept.estimate["allocation"] | mixed}
    JobEstimate.objects.update(ways=[wider, mixture])
    JobEstimate.objects.create(job=other, inspection_key="", estimate={"of": "an older release"})
    for one in (job, other):
        queued(one, minutes=60)
        use_make(one, device, token=1, minutes=50, seconds=60)
        ended(one, minutes=1)
    path = tmp_path / "history.csv"
    path.write_bytes(b"".join(csv_chunks(TRACE_COLUMNS, trace_rows(user=people.owner, window=window_of("day")))))
    ways = {one.job_id: one.ways for one in read_trace(path)}
    assert [(way.kind, way.model, way.count, way.mode) for way in ways[job.pk]] == [
        ("cpu", "core", 1, "single"),
        ("cpu", "core", 4, "sync"),
    ], "a mixture is no way for like devices"
    assert ways[job.pk][0].run_s == pytest.approx(kept.estimate["run_s"]["mid"])
    assert ways[other.pk] == ()
    replay = simulate(path, SimPool.parse("1x4:cpu"), "deadline_energy", overheads=False, estimator=True)
    assert {len(outcome.job.options) for outcome in replay.outcomes} == {1, 2}


def test_lines_of_the_offer_that_was_taken_are_told_too(job_make, people, node_make):
    device = node_make(cpus=2).devices.first()
    job = job_make(name="offered")
    offer = offer_make(people.owner, job)
    JobEstimate.objects.filter(pk=estimate_make(job).pk).update(offer=offer)
    queued(job, minutes=60)
    use_make(job, device, token=1, minutes=50, seconds=60)
    ended(job, minutes=1)
    (row,) = trace_rows(user=people.owner, window=window_of("day"))
    assert {way["count"] for way in json.loads(row[-1])} == {1, 2}


def test_who_never_held_a_device_ended_before_or_is_of_others_is_left_out(job_make, people, node_make):
    device = node_make(cpus=1).devices.get()
    idle, old, running = (job_make(name=name) for name in ("idle", "old", "running"))
    for job in (old, running):
        queued(job, minutes=60)
        use_make(job, device, token=1, minutes=50, seconds=60)
    ended(idle, minutes=1, state=JobState.CANCELLED)
    ended(old, minutes=3 * 24 * 60)
    assert not list(trace_rows(user=people.owner, window=window_of("day")))
    ended(running, minutes=1)
    assert [row[0] for row in trace_rows(user=people.owner, window=window_of("day"))] == [running.pk]
    assert not list(trace_rows(user=people.outsider, window=window_of("day")))


def test_it_is_read_some_jobs_at_a_time_and_of_others_nothing(job_make, people, node_make, monkeypatch):
    monkeypatch.setattr(history, "_READ_AT_ONCE", 2)
    device = node_make(cpus=1).devices.get()
    jobs = [job_make(name=f"job {number}") for number in range(5)]
    for number, job in enumerate(jobs):
        queued(job, minutes=60 - number)
        use_make(job, device, token=1, minutes=50 - number, seconds=60)
        ended(job, minutes=1)
    Job.objects.filter(pk=jobs[3].pk).update(project=people.elsewhere)
    with CaptureQueriesContext(connection) as asked:
        found = [row[0] for row in trace_rows(user=people.owner, window=window_of("day"))]
    assert found == [job.pk for job in jobs if job != jobs[3]]
    of_uses = [query["sql"] for query in asked if 'FROM "jobs_deviceuse"' in query["sql"]]
    assert len(of_uses) == 2 and not any(jobs[3].pk in sql for sql in of_uses)
    assert not any("GROUP BY" in query["sql"] for query in asked)
