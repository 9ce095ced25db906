"""What a run saved, and nobody heard of, is found on the disk: where its words have a gap, or when its attempt ends."""

from __future__ import annotations

import json
from dataclasses import replace
from unittest.mock import Mock

import pytest
from django.conf import settings
from django.db import OperationalError
from django.utils import timezone

from harness.jobs.control import found as found_module
from harness.jobs.control import saved as saved_module
from harness.jobs.control.effects import events_apply
from harness.jobs.control.found import UNHEARD_MAX
from harness.jobs.control.telemetry import telemetry_apply
from harness.jobs.models import Checkpoint, Job, JobAttempt, JobEvent
from harness.jobs.services import job_resume
from tests.harness.jobs.helpers import event, run_now, tick_later
from worker.states import JobState
from worker.transfer.tree import FILES_MAX

pytestmark = pytest.mark.django_db
LOST = {"outcome": "lost", "failure": {"code": "rank_killed", "message": "Rank 0 was killed."}}


@pytest.fixture
def running(job, node_make, tasks_sent):
    node_make()
    run_now(job)
    return job


def name(step):
    return f"step-{step:08d}"


def write(job, step, /, *, metric=0.5, attempt=1, **changes):
    folder = settings.STORE.job(job.pk).checkpoints / name(step)
    folder.mkdir(parents=True)
    (folder / "state.pt").write_bytes(b"state")
    files = {"state.pt": {"bytes": 5, "sha256": "0" * 64}}
    manifest = {"format": 1, "step": step, "epoch": step / 10, "metric": metric, "files": files, "attempt": attempt}
    manifest |= changes
    (folder / "MANIFEST.json").write_text(json.dumps(manifest))


def saved(job, step, seq, *, metric=0.5, best=True, token=1, removed=()):
    """Saved and told of."""
    if not (settings.STORE.job(job.pk).checkpoints / name(step)).exists():
        write(job, step, metric=metric, attempt=token)
    told = {"name": name(step), "step": step, "epoch": 1.0, "metric": metric, "bytes": 5, "best": best}
    return event(job, "checkpoint", seq, rank=0, token=token, **told, removed=list(removed))


def ended(job, seq=90, *, token=1, **told):
    return event(job, "exited", seq, token=token, **(told or LOST))


def steps(job):
    return list(Checkpoint.objects.filter(job=job, removed_at=None).order_by("step").values_list("step", flat=True))


def test_a_checkpoint_whose_word_a_broker_lost_is_where_the_next_attempt_goes_on(running):
    events_apply(running.pk, [saved(running, 10, 1)])
    write(running, 20, metric=0.7)
    events_apply(running.pk, [ended(running)])
    row = Checkpoint.objects.get(name=name(20))
    assert (row.step, row.epoch, row.metric, row.size_bytes, row.token, row.best) == (20, 2.0, 0.7, 5, 1, True)
    assert not Checkpoint.objects.get(name=name(10)).best
    assert tick_later() == 1
    assert JobAttempt.objects.get(job=running, number=2).run_plan.resume_from == name(20)
    told = JobEvent.objects.get(kind="note")
    assert told.message == f"Found on the disk, as no word of it had arrived: {name(20)}."


def test_a_run_that_was_cancelled_can_be_resumed_from_what_nobody_heard_of(running, people):
    write(running, 20)
    Job.objects.filter(pk=running.pk).update(state=JobState.CANCELLING)
    events_apply(running.pk, [ended(running, outcome="cancelled")])
    job_resume(user=people.owner, job=Job.objects.get(pk=running.pk))
    running.refresh_from_db()
    assert running.state == "queued" and steps(running) == [20]


def test_what_was_heard_of_stays_as_it_was_told(running):
    write(running, 20, metric=0.9)
    events_apply(running.pk, [saved(running, 20, 1, metric=0.4, best=False), ended(running)])
    row = Checkpoint.objects.get()
    assert (row.metric, row.best) == (0.4, False)
    assert not JobEvent.objects.filter(kind="note").exists()


@pytest.mark.parametrize("begun", [".old-{}", ".writer-1/replaced/{}"])
def test_one_that_was_about_to_be_replaced_is_not_taken_for_removed(running, begun):
    events_apply(running.pk, [saved(running, 10, 1), saved(running, 20, 2)])
    checkpoints = settings.STORE.job(running.pk).checkpoints
    aside = checkpoints / begun.format(name(20))
    aside.parent.mkdir(parents=True, exist_ok=True)
    (checkpoints / name(20)).rename(aside)  # whoever works there next takes it back
    events_apply(running.pk, [ended(running)])
    assert steps(running) == [10, 20]


@pytest.mark.parametrize(
    "files", [[], "", [["state.pt", {"bytes": 5}]], {"state.pt": 5}, {"state.pt": {}}, {"state.pt": {"bytes": "5"}}]
)
def test_files_in_a_form_that_is_none_make_no_checkpoint_and_the_attempt_ends(running, files):
    write(running, 20, files=files)
    write(running, 30)
    events_apply(running.pk, [ended(running)])
    assert steps(running) == [30]
    assert JobAttempt.objects.get(job=running).outcome == "lost"


def test_of_a_checkpoint_with_files_without_end_none_is_looked_at(running, monkeypatch):
    write(running, 20, files={f"file-{number}": {"bytes": 5} for number in range(FILES_MAX + 1)})
    looked_at = []
    monkeypatch.setattr(saved_module, "_size_bytes", lambda paths, path: looked_at.append(path) or 5)
    events_apply(running.pk, [ended(running)])
    assert steps(running) == looked_at == []


def test_a_look_that_fails_in_a_way_nobody_thought_of_keeps_no_attempt_from_ending(running, monkeypatch, caplog):
    write(running, 20)
    monkeypatch.setattr(found_module, "saved_read", Mock(side_effect=AttributeError("no items")))
    events_apply(running.pk, [ended(running)])
    assert JobAttempt.objects.get(job=running).ended_at is not None and steps(running) == []
    assert f"checkpoints of job {running.pk} cannot be looked at" in caplog.text


def test_a_database_that_is_away_meanwhile_has_the_end_taken_in_later(running, monkeypatch):
    write(running, 20)
    monkeypatch.setattr(found_module, "saved_read", Mock(side_effect=OperationalError("gone")))
    with pytest.raises(OperationalError):
        events_apply(running.pk, [ended(running)])
    assert JobAttempt.objects.get(job=running).ended_at is None


def test_half_ones_damaged_ones_and_those_put_aside_are_not_taken(running):
    checkpoints = settings.STORE.job(running.pk).checkpoints
    write(running, 20)
    (checkpoints / name(20) / "state.pt").write_bytes(b"st")
    write(running, 30, step=31)
    write(running, 40, files={"state.pt": {"bytes": 5}, "../../plan.json": {"bytes": 5}})
    write(running, 50)
    (checkpoints / name(50)).rename(checkpoints / "before-attempt-1")
    write(running, 60)
    Checkpoint.objects.create(job=running, name=name(60), step=60, epoch=6, size_bytes=5, removed_at=timezone.now())
    events_apply(running.pk, [ended(running)])
    assert steps(running) == []


def test_a_program_that_makes_any_number_of_folders_has_the_newest_taken(running):
    for step in range(1, UNHEARD_MAX + 9):
        write(running, step)
    events_apply(running.pk, [ended(running)])
    assert steps(running) == list(range(9, UNHEARD_MAX + 9))


def test_a_folder_that_is_a_link_is_not_followed(running, tmp_path):
    (tmp_path / "checkpoints").mkdir()
    write(running, 20)
    checkpoints = settings.STORE.job(running.pk).checkpoints
    checkpoints.rename(tmp_path / "elsewhere")
    checkpoints.symlink_to(tmp_path / "elsewhere")
    events_apply(running.pk, [ended(running)])
    assert steps(running) == []


@pytest.mark.parametrize(("has_saved", "listed"), [(False, [10, 30]), (True, [10, 20])])
def test_of_a_course_that_was_left_nothing_is_taken(running, people, has_saved, listed):
    """A node without the store puts later checkpoints aside in its own cache: in the store they stay in their place."""
    events_apply(running.pk, [saved(running, 10, 1), saved(running, 30, 2), ended(running, outcome="cancelled")])
    write(running, 40)  # of the course that is left, and nobody heard of it
    running.refresh_from_db()
    job_resume(user=people.owner, job=running, checkpoint=name(10))
    assert tick_later() == 1
    events_apply(running.pk, [event(running, "running", 1, rank=0, token=2)])
    if has_saved:
        write(running, 20, attempt=2)
    events_apply(running.pk, [ended(running, token=2)])
    assert steps(running) == listed
    assert Job.objects.get(pk=running.pk).resume_from == ("" if has_saved else name(10))


def test_what_a_course_that_was_left_has_in_the_store_stays_unlisted_though_the_next_one_told_all(running, people):
    events_apply(running.pk, [saved(running, 10, 1), saved(running, 30, 2), ended(running, outcome="cancelled")])
    running.refresh_from_db()
    job_resume(user=people.owner, job=running, checkpoint=name(10))
    assert tick_later() == 1
    events_apply(running.pk, [event(running, "running", 1, rank=0, token=2), saved(running, 20, 2, token=2)])
    events_apply(running.pk, [ended(running, token=2)])
    assert steps(running) == [10, 20]


def sample(job, number, *, token=1):
    return replace(event(job, "sample", 100 + number, token=token, ranks=[]), sent=number)


def test_a_checkpoint_whose_word_was_lost_is_listed_as_soon_as_the_run_says_more(running):
    events_apply(running.pk, [sample(running, 0), replace(saved(running, 10, 1), sent=1)])
    write(running, 20, metric=0.7)
    events_apply(running.pk, [sample(running, 2)])
    assert steps(running) == [10]  # its word is on its way
    events_apply(running.pk, [sample(running, 4)])
    assert steps(running) == [10, 20]
    assert Job.objects.get(pk=running.pk).state == "running"
    told = JobEvent.objects.get(kind="note")
    assert told.message == f"Found on the disk, as no word of it had arrived: {name(20)}."
    write(running, 30)
    events_apply(running.pk, [sample(running, 5)])
    assert steps(running) == [10, 20]


def test_what_a_run_removed_with_a_word_that_was_lost_is_listed_no_more(running):
    events_apply(running.pk, [replace(saved(running, step, step), sent=step // 10) for step in (10, 20)])
    (settings.STORE.job(running.pk).checkpoints / name(10)).rename(settings.STORE.job(running.pk).root / "gone")
    write(running, 30)
    events_apply(running.pk, [sample(running, 4)])
    assert steps(running) == [20, 30]


def test_of_runs_whose_telemetry_is_taken_in_together_one_that_lost_a_word_is_looked_at(running, job_make, tasks_sent):
    other = job_make(resources={"count": 1})
    run_now(other)
    write(running, 20)
    told = {running.pk: [sample(running, 1)], other.pk: [sample(other, 0)]}
    assert telemetry_apply(told) == {other.pk}
    events_apply(running.pk, told[running.pk])
    assert steps(running) == [20]
    assert telemetry_apply({running.pk: [sample(running, 2)], other.pk: [sample(other, 1)]}) == {running.pk, other.pk}


def test_words_of_an_older_attempt_and_such_as_come_again_leave_no_gap(running):
    events_apply(running.pk, [sample(running, number) for number in range(3)])
    write(running, 20)
    events_apply(running.pk, [sample(running, 1), sample(running, 9, token=0), sample(running, 3)])
    assert steps(running) == []


def test_what_is_found_in_a_gap_is_not_forgotten_with_the_course_that_was_left(running, people):
    events_apply(running.pk, [saved(running, 10, 1), saved(running, 30, 2), ended(running, outcome="cancelled")])
    running.refresh_from_db()
    job_resume(user=people.owner, job=running, checkpoint=name(10))
    assert tick_later() == 1
    events_apply(running.pk, [replace(event(running, "running", 1, rank=0, token=2), sent=0)])
    write(running, 20, attempt=2)
    write(running, 25, attempt=2)
    events_apply(running.pk, [replace(saved(running, 25, 2, token=2), sent=2)])
    assert steps(running) == [10, 20, 25]
    note = JobEvent.objects.get(kind="note", message__contains="no word")
    assert note.data["checkpoint"] == name(20)


@pytest.mark.parametrize(("made_by", "listed"), [(1, [10, 20, 30]), (0, [10, 20]), (3, [10, 20])])
def test_what_the_next_attempt_returned_of_an_older_one_is_taken_though_nobody_told_of_it(running, made_by, listed):
    events_apply(running.pk, [saved(running, 10, 1), saved(running, 20, 2), ended(running)])
    assert tick_later() == 1
    write(running, 30, attempt=made_by)
    events_apply(running.pk, [ended(running, token=2)])
    assert steps(running) == listed


def test_of_attempts_before_that_which_got_on_nothing_is_taken(running):
    events_apply(running.pk, [saved(running, 10, 1), ended(running)])
    assert tick_later() == 1
    events_apply(running.pk, [event(running, "running", 1, rank=0, token=2), saved(running, 20, 2, token=2)])
    write(running, 30, attempt=1)
    events_apply(running.pk, [ended(running, token=2)])
    assert steps(running) == [10, 20]


def test_one_that_does_not_tell_which_attempt_made_it_is_not_taken(running):
    write(running, 20, attempt=None)
    events_apply(running.pk, [ended(running)])
    assert steps(running) == []
