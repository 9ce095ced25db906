from __future__ import annotations

import threading

import pytest
from django.db import connection, transaction
from django.forms.models import model_to_dict

from harness.database import rows_update
from harness.jobs.control import telemetry
from harness.jobs.control.effects import events_apply
from harness.jobs.control.ingest import ingest
from harness.jobs.control.telemetry import telemetry_apply
from harness.jobs.models import Job, JobAttempt, JobEvent, MetricPoint, ResourceSample
from harness.jobs.options import work_left
from tests.harness.jobs.helpers import event, run_now
from worker.events import CONTROL_STREAM

pytestmark = pytest.mark.django_db


@pytest.fixture
def three(job_make, node_make):
    """Three running jobs."""
    node_make(cpus=3)
    jobs = [job_make(resources={"count": 1}) for _ in range(3)]
    for job in jobs:
        run_now(job)
    return jobs


def words_of(job):
    """A second of a run; one step is told twice, one event comes twice."""
    told = [
        event(job, "progress", 1, rank=0, step=5, steps_total=50, epoch=0.1, epochs=2, eta_s=9.5, phase="train"),
        event(job, "metric", 2, rank=0, step=5, epoch=0.1, values={"train/loss": 1.0, "val/accuracy": 0.5}),
        event(job, "metric", 3, rank=0, step=5, epoch=0.1, values={"train/loss": 0.75, "val/accuracy": 0.25}),
        event(job, "metric", 4, rank=0, step=6, epoch=0.2, values={"train/loss": float("nan"), "x" * 99: 2}),
        event(job, "progress", 5, rank=0, step=6, steps_total=50, epoch=0.2, epochs=2, eta_s=-1, samples_per_s=7),
        event(job, "sample", 1, ranks=[{"rank": 0}], node="node-1"),
    ]
    return [*told, told[1], event(job, "progress", 9, rank=0, token=7, step=49)]


def test_a_run_that_goes_on_keeps_its_place_while_it_loads_its_data_and_checkpoint(three):
    job = three[0]
    told = event(job, "progress", 1, rank=0, step=45, steps_total=50, epoch=1.8, epochs=2, phase="training")
    events_apply(job.pk, [told])
    loads = event(job, "progress", 2, rank=0, step=0, steps_total=None, epoch=0, epochs=2, phase="starting")
    events_apply(job.pk, [loads])
    job.refresh_from_db()
    assert (job.step, job.steps_total, job.epoch, job.phase) == (45, 50, 1.8, "starting")
    assert work_left(job) == pytest.approx(0.1)
    events_apply(job.pk, [event(job, "progress", 3, rank=0, step=40, steps_total=50, epoch=1.6, epochs=2)])
    job.refresh_from_db()
    assert (job.step, job.epoch) == (40, 1.6)


def rows_of(job):
    """Everything that these words change."""
    job.refresh_from_db()
    attempt = JobAttempt.objects.get(job=job, number=1)
    points = MetricPoint.objects.filter(job=job).order_by("key", "step")
    samples = ResourceSample.objects.filter(job=job)
    fields = ("step", "steps_total", "epoch", "epochs", "samples_per_s", "eta_s", "phase", "metric_best", "last_values")
    fields += ("points_told",)
    return (
        {name: getattr(job, name) for name in fields},
        attempt.seen_seq,
        attempt.seen_at is not None,
        [model_to_dict(row, exclude=["id", "job"]) for row in points],
        [model_to_dict(row, exclude=["id", "job"]) for row in samples],
    )


def test_runs_taken_together_leave_the_rows_that_each_leaves_alone(three):
    alone, *others = three
    events_apply(alone.pk, words_of(alone))
    assert telemetry_apply({job.pk: words_of(job) for job in others}) == {job.pk for job in others}
    expected = rows_of(alone)
    assert [rows_of(job) for job in others] == [expected, expected]
    assert len(expected[3]) == 4 and len(expected[4]) == 1


def test_rows_are_each_set_to_values_of_their_own_and_others_left(three):
    first, second, third = three
    changes = {"last_values": {"a": [1, "é"]}, "eta_s": None, "phase": "train", "step": 2**40}
    rows_update(Job, {first.pk: changes, second.pk: {"step": 7}, third.pk: {}})
    for job in three:
        job.refresh_from_db()
    assert (first.last_values, first.eta_s, first.phase, first.step) == ({"a": [1, "é"]}, None, "train", 2**40)
    assert (second.step, second.phase) == (7, "") and third.step == 0
    rows_update(Job, {})


def test_a_field_that_is_not_there_changes_no_row(three):
    with pytest.raises(KeyError, match="step_s"):
        rows_update(Job, {three[0].pk: {"step": 1}, three[1].pk: {"step_s": 1}})
    three[0].refresh_from_db()
    assert three[0].step == 0


def test_runs_taken_together_keep_each_so_many_points_and_say_so(three, monkeypatch):
    monkeypatch.setattr(telemetry, "POINTS_PER_JOB_MAX", 3)
    told = {job.pk: words_of(job) for job in three}
    telemetry_apply(told)
    for job in three:
        job.refresh_from_db()
        assert job.points_told == job.points.count() == 3
        assert JobEvent.objects.filter(job=job, kind="note", message__startswith="3 values").count() == 1


def test_what_comes_twice_counts_once(three):
    words = {job.pk: words_of(job) for job in three}
    telemetry_apply(words)
    before = [rows_of(job) for job in three]
    assert telemetry_apply(words) == set(words)
    assert [rows_of(job) for job in three] == before


def test_a_run_that_says_more_is_left_to_the_others_way(three):
    words = {job.pk: words_of(job) for job in three}
    words[three[0].pk].append(event(three[0], "note", 20, rank=0, message="hello"))
    assert telemetry_apply(words) == {three[1].pk, three[2].pk}
    assert not MetricPoint.objects.filter(job=three[0]).exists()


def test_one_poisonous_event_loses_only_itself(three, broker, monkeypatch):
    honest = telemetry.points_of

    def explode(job, events):
        events = list(events)
        if any(event.data.get("step") == 666 for event in events):
            raise RuntimeError("poison")
        return honest(job, events)

    monkeypatch.setattr(telemetry, "points_of", explode)
    monkeypatch.setattr("harness.jobs.control.effects.points_of", explode)
    for job in three:
        for sent in words_of(job):
            broker.xadd(CONTROL_STREAM, {"event": sent.to_json()})
    poison = event(three[1], "metric", 30, rank=0, step=666, epoch=1, values={"a": 1})
    broker.xadd(CONTROL_STREAM, {"event": poison.to_json()})
    ingest()
    assert MetricPoint.objects.filter(step=666).count() == 0
    assert {MetricPoint.objects.filter(job=job).count() for job in three} == {4}


def test_lists_hear_of_every_run_in_one_message_each(three, broker, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        telemetry_apply({job.pk: words_of(job) for job in three})
    told = broker.xrange(f"dlh:project:{three[0].project_id}")
    heard = [fields for _, fields in told if '"event":"progress"' in next(iter(fields.values()))]
    assert len(heard) == 3


def test_a_deleted_job_is_nobodys(three):
    words = {job.pk: words_of(job) for job in three}
    Job.objects.filter(pk=three[0].pk).delete()
    assert telemetry_apply(words) == {three[1].pk, three[2].pk}
    assert not JobEvent.objects.filter(job_id=three[0].pk).exists()


@pytest.mark.skipif("sqlite" in connection.vendor, reason="SQLite locks whole files; PostgreSQL runs this")
@pytest.mark.django_db(transaction=True)
def test_a_row_that_somebody_holds_is_not_waited_for(three):
    held, let_go = threading.Event(), threading.Event()

    def hold():
        with transaction.atomic():
            Job.objects.select_for_update().get(pk=three[0].pk)
            held.set()
            let_go.wait(60)
        connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(60)
    try:
        done = telemetry_apply({job.pk: words_of(job) for job in three})
    finally:
        let_go.set()
        holder.join()
    assert done == {three[1].pk, three[2].pk}


@pytest.mark.parametrize(
    ("kind", "data", "moves"),
    [
        ("progress", {"step": 7}, True),
        ("metric", {"values": {}}, True),
        ("metric", {"values": {}, "waits": True}, False),
        ("sample", {"ranks": []}, False),
    ],
)
def test_a_run_moves_with_what_it_tells_of_itself_and_not_while_it_waits(kind, data, moves, three):
    Job.objects.update(moved_at=None)
    alone, *others = three
    events_apply(alone.pk, [event(alone, kind, 1, rank=0, **data)])
    assert len(telemetry_apply({job.pk: [event(job, kind, 1, rank=0, **data)] for job in others})) == 2
    assert {moved is not None for moved in Job.objects.values_list("moved_at", flat=True)} == {moves}
