from __future__ import annotations

import json

import pytest
from django.conf import settings

from harness.database import DATABASE_AWAY
from harness.jobs.control import ingest as ingest_module
from harness.jobs.control.effects import events_apply
from harness.jobs.control.ingest import ingest
from harness.jobs.models import Allocation, Checkpoint, Job, JobEvent, MetricPoint, ResourceSample
from tests.harness.jobs.helpers import event, place_now, run_now
from worker.events import CONTROL_STREAM
from worker.states import JobState

pytestmark = pytest.mark.django_db


@pytest.fixture
def running(job, node_make):
    node_make()
    run_now(job)
    return job


def test_events_that_come_twice_count_once(running):
    batch = [
        event(running, "metric", 1, rank=0, step=10, epoch=1.0, values={"val/accuracy": 0.5}),
        event(running, "note", 2, rank=0, message="hello"),
        event(running, "sample", 1, ranks=[]),
    ]
    assert events_apply(running.pk, batch) == 3
    assert events_apply(running.pk, batch) == 0
    assert MetricPoint.objects.count() == 1
    assert JobEvent.objects.filter(kind="note").count() == 1
    assert ResourceSample.objects.count() == 1


def test_events_of_an_older_attempt_are_dropped(running):
    Job.objects.filter(pk=running.pk).update(token=2)
    assert events_apply(running.pk, [event(running, "exited", 5, outcome="succeeded")]) == 0
    running.refresh_from_db()
    assert running.state == "running"


def test_progress_is_absolute(running):
    events_apply(running.pk, [event(running, "progress", 1, rank=0, step=5, steps_total=50, eta_s=9.5, phase="train")])
    events_apply(running.pk, [event(running, "progress", 2, rank=0, step=7, steps_total=50, epoch=0.5, eta_s=None)])
    running.refresh_from_db()
    assert (running.step, running.steps_total, running.epoch, running.eta_s) == (7, 50, 0.5, None)


def test_a_value_that_is_not_finite_is_kept_as_a_gap(running):
    text = event(running, "metric", 1, rank=0, step=3, epoch=0.1, values={"train/loss": float("nan")}).to_json()
    from worker.events import Event

    events_apply(running.pk, [Event.from_json(text)])
    assert MetricPoint.objects.get().value is None


def test_a_step_made_again_after_a_resume_overwrites_its_point(running):
    events_apply(running.pk, [event(running, "metric", 1, rank=0, step=10, epoch=1, values={"train/loss": 1.0})])
    events_apply(running.pk, [event(running, "metric", 2, rank=0, step=10, epoch=1, values={"train/loss": 0.5})])
    assert MetricPoint.objects.get().value == 0.5


def test_the_best_value_follows_the_metric_of_the_job(running):
    Job.objects.filter(pk=running.pk).update(metric_name="rmse")
    for seq, value in enumerate([3.0, 1.0, 2.0], start=1):
        events_apply(
            running.pk, [event(running, "metric", seq, rank=0, step=seq, epoch=seq, values={"val/rmse": value})]
        )
    running.refresh_from_db()
    assert running.metric_best == 1.0
    assert running.last_values["val/rmse"] == 2.0


def test_checkpoints_come_become_best_and_go(running):
    first = {"name": "step-00000010", "step": 10, "epoch": 1, "metric": 0.5, "bytes": 100, "best": True, "removed": []}
    second = first | {"name": "step-00000020", "step": 20, "metric": 0.6, "removed": ["step-00000010"]}
    events_apply(running.pk, [event(running, "checkpoint", 1, rank=0, **first)])
    events_apply(running.pk, [event(running, "checkpoint", 2, rank=0, **second)])
    kept = Checkpoint.objects.get(removed_at=None)
    assert (kept.name, kept.best, kept.size_bytes) == ("step-00000020", True, 100)
    assert Checkpoint.objects.get(name="step-00000010").best is False


@pytest.mark.parametrize("token", [1, 0])
def test_what_a_lost_attempt_removed_unheard_is_listed_until_the_next_one_makes_a_step(running, token):
    for step in (10, 20):
        told = {"name": f"step-000000{step}", "step": step, "epoch": 1, "metric": 0.5, "bytes": 100, "best": False}
        events_apply(running.pk, [event(running, "checkpoint", step, rank=0, **told, removed=[])])
    (settings.STORE.job(running.pk).checkpoints / "step-00000020").mkdir(parents=True)
    events_apply(running.pk, [event(running, "running", 30, rank=0, token=token)])
    listed = Checkpoint.objects.filter(removed_at=None).order_by("step").values_list("step", flat=True)
    assert list(listed) == ([20] if token else [10, 20])


def test_what_a_lost_attempt_removed_is_listed_no_more_where_the_first_step_of_the_next_one_went_unheard(running):
    told = {"name": "step-00000010", "step": 10, "epoch": 1, "metric": 0.5, "bytes": 100, "best": False}
    events_apply(running.pk, [event(running, "checkpoint", 10, rank=0, **told, removed=[])])
    settings.STORE.job(running.pk).checkpoints.mkdir(parents=True, exist_ok=True)
    Job.objects.filter(pk=running.pk).update(state=JobState.PLACED)
    events_apply(running.pk, [event(running, "progress", 20, rank=0, step=11, epoch=1)])
    assert Job.objects.get(pk=running.pk).state == JobState.RUNNING
    assert not Checkpoint.objects.filter(removed_at=None).exists()


@pytest.mark.parametrize("together", [False, True])
def test_a_run_whose_first_words_a_broker_lost_runs_all_the_same(job_make, node_make, together, broker, tasks_sent):
    node_make(cpus=2)
    jobs = [job_make(resources={"count": 1}) for _ in range(2)]
    for job in jobs:
        place_now(job)
        loading = event(job, "progress", 4, rank=0, step=0, phase="loading")
        training = event(job, "progress", 5, rank=0, step=3, phase="training")
        for one in (event(job, "sample", 7, ranks=[]), loading, training):
            broker.xadd(CONTROL_STREAM, {"event": one.to_json()})
        if not together:
            ingest()
    ingest()
    for job in jobs:
        job.refresh_from_db()
        attempt = job.attempts.get()
        assert (job.state, job.step, job.running_at) == ("running", 3, attempt.running_at)
        assert attempt.started_at < attempt.running_at


def test_a_run_that_only_loads_does_not_train_yet(job, node_make):
    node_make()
    place_now(job)
    words = [event(job, "progress", 1, rank=0, step=0, phase="loading"), event(job, "metric", 2, rank=0, values={})]
    events_apply(job.pk, words)
    job.refresh_from_db()
    assert job.state == "placed"


def test_the_end_frees_the_devices_whatever_else_is_in_the_batch(running):
    failure = {"code": "nan_loss", "message": "Loss became NaN at step 7.", "step": 7}
    batch = [event(running, "exited", 3, outcome="failed", failure=failure), event(running, "running", 2, rank=0)]
    events_apply(running.pk, batch)
    running.refresh_from_db()
    assert running.state == "failed"
    assert running.failure["message"] == "Loss became NaN at step 7."
    assert "learning rate" in running.failure["hint"]
    assert not Allocation.objects.exists()


def test_an_attempt_that_ends_before_its_first_step_still_succeeds(job, node_make):
    node_make()
    place_now(job)
    events_apply(job.pk, [event(job, "started", 0), event(job, "exited", 1, outcome="succeeded")])
    job.refresh_from_db()
    assert job.state == "succeeded"


def test_what_was_said_before_the_end_counts_although_the_end_is_heard_first(job, node_make):
    """A node's word that the supervisor is gone has the largest number of all."""
    node_make()
    place_now(job)
    end = event(job, "exited", 1 << 40, outcome="lost", failure=None)
    assert events_apply(job.pk, [end]) == 1
    late = [
        event(job, "started", 0, sandbox_level=3, node="node-1", time_s=1.7e9),
        event(job, "running", 0, rank=0, time_s=1.7e9 + 5),
        event(job, "progress", 1, rank=0, step=7, steps_total=50, eta_s=9.0, samples_per_s=3.0),
        event(job, "sample", 1, ranks=[]),
    ]
    assert events_apply(job.pk, [*late, end]) == len(late)
    job.refresh_from_db()
    attempt = job.attempts.get()
    assert (job.state, job.sandbox_level, job.step) == ("queued", 3, 7)
    assert (job.eta_s, job.samples_per_s) == (None, None)
    assert (attempt.started_at.timestamp(), attempt.running_at.timestamp()) == (1.7e9, 1.7e9 + 5)
    assert job.running_at == attempt.running_at
    assert ResourceSample.objects.filter(job=job).count() == 1


def test_a_program_cannot_flood_the_history(running):
    events_apply(running.pk, [event(running, "note", seq, rank=0, message="x") for seq in range(1, 900)])
    assert JobEvent.objects.filter(kind="note").count() == 200


def test_the_stream_is_read_acknowledged_and_read_once(running, broker):
    for seq in range(1, 6):
        sent = event(running, "metric", seq, rank=0, step=seq, epoch=0, values={"train/loss": seq})
        broker.xadd(CONTROL_STREAM, {"event": sent.to_json()})
    broker.xadd(CONTROL_STREAM, {"event": "no event"})
    broker.xadd(CONTROL_STREAM, {"something": "else"})
    assert ingest() == 7
    assert ingest() == 0
    assert MetricPoint.objects.count() == 5
    assert broker.xpending(CONTROL_STREAM, "control")["pending"] == 0


def test_what_a_killed_control_had_read_is_taken_in_by_the_next(running, broker):
    sent = event(running, "metric", 1, rank=0, step=1, epoch=0, values={"train/loss": 1})
    broker.xadd(CONTROL_STREAM, {"event": sent.to_json()})
    broker.xgroup_create(CONTROL_STREAM, "control", id="0")
    assert ingest_module._read(CONTROL_STREAM, ">")
    assert MetricPoint.objects.count() == 0
    assert ingest() == 1
    assert MetricPoint.objects.count() == 1


def test_a_poisonous_event_loses_only_itself(running, broker, monkeypatch):
    from harness.jobs.control import effects

    def explode(job, attempt, events):
        raise RuntimeError("poison")

    monkeypatch.setitem(effects._EFFECTS, effects.EventKind.NOTE, explode)
    for sent in (
        event(running, "note", 1, rank=0, message="poison"),
        event(running, "metric", 2, rank=0, step=1, epoch=0, values={"a": 1}),
    ):
        broker.xadd(CONTROL_STREAM, {"event": sent.to_json()})
    assert ingest() == 2
    assert MetricPoint.objects.count() == 1
    assert broker.xpending(CONTROL_STREAM, "control")["pending"] == 0


@pytest.mark.parametrize("error", DATABASE_AWAY)
def test_a_database_that_is_away_loses_no_event(running, broker, monkeypatch, error):
    def away(job_id, events):
        raise error("the connection is closed")

    sent = event(running, "metric", 1, rank=0, step=1, epoch=0, values={"a": 1})
    broker.xadd(CONTROL_STREAM, {"event": sent.to_json()})
    with monkeypatch.context() as patch, pytest.raises(error):
        patch.setattr(ingest_module, "events_apply", away)
        ingest()
    assert ingest() == 1
    assert MetricPoint.objects.count() == 1


def test_only_one_control_reads_at_a_time(running, broker):
    broker.set("dlh:ingest", "another")
    broker.xadd(CONTROL_STREAM, {"event": "x"})
    assert ingest() == 0


def test_a_broker_that_lost_its_memory_is_used_anew(running, broker):
    ingest()
    broker.flushall()
    sent = event(running, "metric", 1, rank=0, step=1, epoch=0, values={"a": 1})
    broker.xadd(CONTROL_STREAM, {"event": sent.to_json()})
    assert ingest() == 1
    assert json.loads(sent.to_json())["seq"] == 1


def test_characters_that_a_database_cannot_store_do_not_lose_the_end_of_a_run(running, broker):
    failure = {"code": "program_error", "message": "bad \0 byte", "traceback": "a\0b"}
    broker.xadd(CONTROL_STREAM, {"event": event(running, "exited", 1, outcome="failed", failure=failure).to_json()})
    ingest()
    running.refresh_from_db()
    assert running.state == "failed" and "\0" not in json.dumps(running.failure)


def test_bytes_that_are_no_text_lose_only_their_own_event(running, broker):
    sent = event(running, "metric", 1, rank=0, step=1, epoch=0, values={"a": 1})
    broker.xadd(CONTROL_STREAM, {"event": b'{"kind": "\xff"}'})
    broker.xadd(CONTROL_STREAM, {"event": sent.to_json()})
    assert ingest() == 2
    assert MetricPoint.objects.count() == 1
    assert broker.xpending(CONTROL_STREAM, "control")["pending"] == 0
