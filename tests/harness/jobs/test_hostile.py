"""Programs that leave poison where control reads: a job ends all the same, and no other job suffers."""

from __future__ import annotations

import errno
import json
import os
import re
import time
from unittest.mock import Mock

import pytest
from django.conf import settings

from harness.errors import Conflict, Unavailable
from harness.jobs.control.clock import JUMP_S, SETTLE_S, JumpGuard
from harness.jobs.control.effects import events_apply
from harness.jobs.control.reading import event_read
from harness.jobs.control.retention import jobs_purge
from harness.jobs.control.saved import checkpoint_is_whole
from harness.jobs.control.telemetry import KEYS_PER_JOB_MAX, history_cut
from harness.jobs.control.tick import tick
from harness.jobs.models import Allocation, Checkpoint, Job, JobEvent, MetricPoint
from harness.jobs.results import job_chart_csv, job_results
from harness.jobs.series import job_series
from tests.harness.jobs.helpers import event, queue, run_now

pytestmark = pytest.mark.django_db


@pytest.fixture
def running(job, node_make, tasks_sent):
    node_make()
    run_now(job)
    return job


def results_write(job, text):
    folder = settings.STORE.job(job.pk).results
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"metric": {"value_val": 1' + "0" * 400 + "}}",
        '{"metric": {"value_val": NaN, "value_test": Infinity}}',
        '{"metric": [1], "charts": 5}',
    ],
)
def test_a_job_whose_results_are_poison_ends_and_gives_its_devices_back(running, text):
    results_write(running, text)
    events_apply(running.pk, [event(running, "exited", 1, outcome="succeeded")])
    running.refresh_from_db()
    assert (running.state, running.metric_best) == ("succeeded", None)
    assert not Allocation.objects.exists()


def test_a_run_of_more_epochs_than_a_column_holds_is_heard(running):
    """On PostgreSQL nothing of its progress was taken in."""
    events_apply(running.pk, [event(running, "progress", 1, rank=0, step=5, steps_total=10**12, epochs=10**18)])
    running.refresh_from_db()
    assert (running.step, running.steps_total, running.epochs) == (5, 10**12, 2**31 - 1)


def test_results_too_deep_to_read_are_told_and_raise_nothing_else(running):
    results_write(running, "[" * 100_000)
    with pytest.raises(Conflict):
        job_results(running)


@pytest.mark.parametrize("chart", [{"columns": 5}, {"columns": ["a"], "rows": 5}, {"columns": None}])
def test_a_chart_in_another_form_is_told_as_the_fault_of_the_program(running, chart):
    results_write(running, json.dumps({"charts": [{"id": "c", **chart}]}))
    with pytest.raises(Conflict, match="wrote chart c in another form"):
        job_chart_csv(running, "c")


def test_results_that_a_disk_does_not_give_are_no_fault_of_the_program(running, monkeypatch):
    monkeypatch.setattr("harness.store.read_beneath", Mock(side_effect=OSError(errno.EIO, "Input/output error")))
    with pytest.raises(Unavailable, match="could not be read: Input/output error"):
        job_results(running)


def test_results_of_values_without_end_are_told_and_not_parsed(running):
    results_write(running, "[" + "[]," * 300_000 + "[]]")
    with pytest.raises(Conflict, match=r"results.json has more than 500,000 values"):
        job_results(running)


def test_a_failure_in_letters_that_cannot_be_encoded_ends_the_job(running):
    failure = {"code": "program_error", "message": "half a letter: \ud800 and \0", "traceback": "\udfff"}
    sent = event(running, "exited", 1, outcome="failed", failure=failure)
    assert events_apply(running.pk, [event_read(sent.to_json())]) == 1
    running.refresh_from_db()
    assert running.state == "failed" and running.failure["message"] == "half a letter: \ufffd and \ufffd"


def test_an_event_too_deep_to_read_is_none():
    with pytest.raises(ValueError):
        event_read('{"data": ' + "[" * 100_000)


@pytest.mark.parametrize(
    "time_s", ["NaN", "Infinity", "-1", "86400.5", "1e300", "1700000000000", "null", "[]", '"soon"', "1" + "0" * 400]
)
def test_what_a_node_without_a_sound_clock_tells_is_taken_as_of_now(running, time_s):
    """The word of the end was dropped, and the job ran on until its lease was gone, as one that is lost."""
    told = [event(running, "metric", 1, rank=0, step=1, epoch=1.0, values={"train/loss": 0.5})]
    told.append(event(running, "exited", 2, outcome="failed", failure={"code": "nan_loss", "message": "m"}))
    lines = [re.sub(r'"time_s":[^,]+', f'"time_s":{time_s}', one.to_json()) for one in told]
    assert events_apply(running.pk, list(map(event_read, lines))) == 2
    running.refresh_from_db()
    assert running.state == "failed"
    assert abs(MetricPoint.objects.get().time_s - time.time()) < 60


def test_a_step_beyond_all_numbers_counts_as_none(running):
    assert events_apply(running.pk, [event(running, "progress", 1, rank=0, step=10**400, epoch=1.0)]) == 1


def test_a_checkpoint_is_kept_only_under_a_plain_name(running):
    names = ["../../../etc", "/etc", "a/b", "", ".hidden", "x" * 41, "step-00000001"]
    events = [event(running, "checkpoint", 1 + n, rank=0, name=name, step=n) for n, name in enumerate(names)]
    events_apply(running.pk, events)
    assert list(Checkpoint.objects.values_list("name", flat=True)) == ["step-00000001"]


def test_a_program_that_makes_up_keys_without_end_fills_no_database(running):
    for number in range(4):
        values = {f"key-{number}-{n}": 1.0 for n in range(500)}
        events_apply(running.pk, [event(running, "metric", 1 + number, rank=0, step=1, epoch=0.1, values=values)])
    running.refresh_from_db()
    assert len(running.last_values) == running.points.count() == KEYS_PER_JOB_MAX


def test_a_run_whose_values_fill_the_room_for_them_says_so_once_and_goes_on(running, monkeypatch):
    monkeypatch.setattr("harness.jobs.control.telemetry.POINTS_PER_JOB_MAX", 5)
    for step in range(1, 5):
        values = {"val/accuracy": step / 10, "train/loss": 1.0}
        events_apply(running.pk, [event(running, "metric", step, rank=0, step=step, epoch=0.1, values=values)])
    running.refresh_from_db()
    assert running.points.count() == running.points_told == 5
    assert running.last_values["val/accuracy"] == 0.4, "what it says now is known all the same"
    notes = JobEvent.objects.filter(job=running, kind="note", message__contains="values of this run are kept")
    assert [note.message.split()[0] for note in notes] == ["5"]
    history_cut(running, 1)
    assert running.points_told == Job.objects.get(pk=running.pk).points_told == 2, "what was forgotten leaves room"


@pytest.mark.parametrize("manifest", ["[" * 100_000, '{"files": {"../../../../../etc/passwd": {"bytes": 1}}}', "[]"])
def test_a_poisoned_manifest_is_no_checkpoint_and_stops_no_queue(job, manifest, node_make, tasks_sent):
    folder = settings.STORE.job(job.pk).checkpoints / "step-1"
    folder.mkdir(parents=True)
    (folder / "MANIFEST.json").write_text(manifest)
    Checkpoint.objects.create(job=job, name="step-1", step=1, epoch=1.0)
    assert not checkpoint_is_whole(settings.STORE.job(job.pk), "step-1")
    node_make()
    queue(job)
    assert tick() == 1


def test_a_checkpoint_whose_file_is_a_link_is_not_whole(job, tmp_path):
    folder = settings.STORE.job(job.pk).checkpoints / "step-1"
    folder.mkdir(parents=True)
    (tmp_path / "secret").write_text("12345")
    (folder / "state.pt").symlink_to(tmp_path / "secret")
    (folder / "MANIFEST.json").write_text(json.dumps({"files": {"state.pt": {"bytes": 5}}}))
    assert not checkpoint_is_whole(settings.STORE.job(job.pk), "step-1")


def test_a_job_that_no_plan_can_be_made_for_fails_and_the_next_one_starts(
    job, node_make, tasks_sent, monkeypatch, people
):
    from harness.jobs.control import tick as module
    from harness.jobs.services import job_clone

    other = job_clone(user=people.owner, job=job)
    node_make()
    queue(job)
    queue(other)
    real = module.plan_make

    def plan(wanted, **rest):
        if wanted.pk == job.pk:
            raise RuntimeError("poison")
        return real(wanted, **rest)

    monkeypatch.setattr(module, "plan_make", plan)
    tick()
    tick()
    states = dict(Job.objects.values_list("pk", "state"))
    assert (states[job.pk], states[other.pk]) == ("failed", "placed")
    assert JobEvent.objects.filter(job=job, new_state="failed").count() == 1


def test_a_job_with_folders_too_deep_for_python_is_purged(job, settings):
    settings.TRASH_DAYS = 0
    work = settings.STORE.job(job.pk).work
    work.mkdir(parents=True)
    here = os.open(work, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    Job.objects.filter(pk=job.pk).update(deleted_at="2020-01-01T00:00:00Z")
    assert jobs_purge() == 1
    assert not settings.STORE.job(job.pk).root.exists()


def test_curves_are_read_the_same_whatever_their_number_of_points(running):
    for number in range(10):
        events_apply(
            running.pk,
            [
                event(running, "metric", 1 + number * 100 + n, rank=0, step=number * 100 + n, epoch=0.0,
                      values={"a": float(number * 100 + n), "b": None})
                for n in range(100)
            ],
        )  # fmt: skip
    curves = job_series(job=running, points=50)
    assert set(curves) == {"a", "b"}
    assert curves["a"]["total"] == 1000 and curves["a"]["reduced"] and len(curves["a"]["x"]) <= 50
    assert curves["a"]["x"][0] == 0 and curves["a"]["x"][-1] == 999
    assert set(curves["b"]["y"]) == {None}


def test_after_a_jump_of_the_clock_no_age_is_believed_until_all_could_speak():
    guard = JumpGuard()
    assert guard.steady(1000.0, 0.0)
    assert guard.steady(1005.0, 5.0)
    assert not guard.steady(1010.0 + 2 * JUMP_S, 10.0)
    assert not guard.steady(1010.0 + 2 * JUMP_S + SETTLE_S / 2, 10.0 + SETTLE_S / 2)
    assert guard.steady(1010.0 + 2 * JUMP_S + SETTLE_S, 10.0 + SETTLE_S)
    assert not guard.steady(0.0, 20.0 + SETTLE_S)
