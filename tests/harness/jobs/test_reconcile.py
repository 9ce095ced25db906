from __future__ import annotations

import json
import time
from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from harness.jobs import selectors, services
from harness.jobs.control.clock import SETTLE_S
from harness.jobs.control.effects import events_apply
from harness.jobs.control.hearing import GAP_S, HEARING_KEY
from harness.jobs.control.ingest import ingest
from harness.jobs.control.reconcile import reconcile
from harness.jobs.control.streams import READ_BY_KEY
from harness.jobs.models import Allocation, Checkpoint, Job, JobAttempt, JobEvent, MetricPoint
from harness.pool.models import Node
from harness.release import release
from tests.harness.jobs.helpers import age, event, place_now, queue, run_now, stops, tick_later
from worker.events import control_stream

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def real_broker(broker, tasks_sent):
    """Leases live in the broker; tasks are only noted."""


def node_down(name="node-1"):
    Node.objects.filter(name=name).update(heartbeat_at=timezone.now() - timedelta(seconds=60))


def checkpoint_files_make(job, step, whole=True):
    """As a run leaves them before it tells control."""
    name = f"step-{step:08d}"
    folder = settings.STORE.job(job.pk).checkpoints / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "state.pt").write_bytes(b"x" * (10 if whole else 3))
    (folder / "MANIFEST.json").write_text(json.dumps({"format": 1, "files": {"state.pt": {"bytes": 10}}}))
    return name


def checkpoint_make(job, step, token=1, whole=True):
    name = checkpoint_files_make(job, step, whole)
    Checkpoint.objects.update_or_create(job=job, name=name, defaults={"step": step, "epoch": step, "token": token})
    return name


def starts(tasks_sent):
    return [args[0] for name, args, _ in tasks_sent if name == "node.start"]


def test_a_start_that_was_never_sent_is_sent(job, node_make, tasks_sent):
    node_make()
    place_now(job)
    tasks_sent.clear()
    JobAttempt.objects.update(sent_at=None)
    reconcile()
    assert [plan["job_id"] for plan in starts(tasks_sent)] == [job.pk]
    reconcile()
    assert len(starts(tasks_sent)) == 1


def test_a_start_without_an_answer_is_sent_again(job, node_make, tasks_sent):
    node_make()
    attempt = place_now(job)
    age(attempt, sent_at=25, created_at=25)
    reconcile()
    assert len(starts(tasks_sent)) == 1
    assert JobAttempt.objects.get().sends == 1


def test_a_start_that_is_never_answered_is_given_up_and_queued_again(job, node_make):
    node_make()
    attempt = place_now(job)
    JobAttempt.objects.update(sends=6)
    age(attempt, sent_at=25, created_at=150)
    reconcile()
    attempt.refresh_from_db()
    assert attempt.outcome == "lost" and attempt.failure["code"] == "start_failed"
    tick_later()
    job.refresh_from_db()
    assert (job.state, job.token, job.restarts) == ("placed", 2, 1)


@pytest.mark.parametrize(("theirs", "said"), [("0.0.1", "node-1 has 0.0.1."), ("", "node-1 has an older one.")])
def test_a_node_of_another_release_that_never_answers_is_told_as_such(job, node_make, theirs, said):
    node_make("node-1", description={"release": theirs})
    attempt = place_now(job)
    JobAttempt.objects.update(sends=6)
    age(attempt, sent_at=25, created_at=150)
    reconcile()
    attempt.refresh_from_db()
    assert attempt.failure["message"].endswith(f"the portal has release {release()} of the platform, and {said}")


def test_a_node_of_the_same_release_that_never_answers_has_none_to_be_told(job, node_make):
    node_make("node-1", description={"release": release()})
    attempt = place_now(job)
    JobAttempt.objects.update(sends=6)
    age(attempt, sent_at=25, created_at=150)
    reconcile()
    attempt.refresh_from_db()
    assert attempt.failure["message"] == "The node node-1 did not answer 6 start messages."


def goes_on_elsewhere(job, attempt, node_make):
    """Its node falls silent, and another one takes the job."""
    node_down()
    node_make("node-2")
    age(attempt, seen_at=40)
    reconcile()
    tick_later()
    job.refresh_from_db()


def test_an_attempt_of_a_silent_node_is_lost_and_goes_on_elsewhere_from_its_checkpoint(job, node_make, tasks_sent):
    node_make("node-1")
    attempt = run_now(job)
    name = checkpoint_make(job, 20)
    checkpoint_make(job, 30, whole=False)
    goes_on_elsewhere(job, attempt, node_make)
    assert (job.state, job.token, job.restarts) == ("placed", 2, 1)
    plan = JobAttempt.objects.get(number=2).plan
    assert plan["resume_from"] == name
    assert {rank["node"] for rank in plan["ranks"]} == {"node-2"}
    assert Node.objects.get(name="node-1").state == "down"
    assert "does not answer" in JobEvent.objects.filter(new_state="queued").last().message


@pytest.mark.parametrize("saved", [20, None])
def test_what_is_lost_of_a_run_is_not_shown_as_done_once_it_starts_again(job, node_make, saved):
    node_make("node-1")
    attempt = run_now(job)
    if saved:
        checkpoint_make(job, saved)
    Job.objects.filter(pk=job.pk).update(step=35, epoch=3.5, steps_total=100)
    goes_on_elsewhere(job, attempt, node_make)
    epoch = Checkpoint.objects.get(job=job).epoch if saved else 0.0
    assert (job.state, job.step, job.epoch, job.steps_total) == ("placed", saved or 0, epoch, 100)


def test_a_killed_agent_whose_supervisor_lives_on_loses_nothing(job, node_make, broker):
    node_make()
    attempt = run_now(job)
    node_down()
    age(attempt, seen_at=40)
    broker.set(f"dlh:lease:{job.pk}", "1")
    reconcile()
    job.refresh_from_db()
    assert (job.state, job.token) == ("running", 1)


def test_after_a_broker_was_away_nobody_is_called_lost_before_he_could_speak(job, node_make, broker):
    """Its lease has run out and its node is silent: so they are for whoever could not be heard."""
    node_make()
    attempt = run_now(job)
    age(attempt, seen_at=90)
    node_down()
    broker.delete(HEARING_KEY)
    for _ in range(2):
        reconcile()
    job.refresh_from_db()
    assert (job.state, Node.objects.get().state) == ("running", "up")
    assert 0 < broker.ttl(HEARING_KEY) <= GAP_S

    broker.set(HEARING_KEY, broker.time()[0] - int(SETTLE_S) - 1)
    reconcile()
    job.refresh_from_db()
    assert (job.state, job.restarts, Node.objects.get().state) == ("queued", 1, "down")


def test_a_start_that_a_broker_forgot_is_sent_again_at_once(job, node_make, broker, tasks_sent):
    node_make()
    attempt = place_now(job)
    tasks_sent.clear()
    age(attempt, sent_at=21)
    broker.delete(HEARING_KEY)
    reconcile()
    assert [plan["token"] for plan in starts(tasks_sent)] == [1]


def test_an_attempt_that_its_node_reports_is_not_lost(job, node_make):
    node_make()
    attempt = run_now(job)
    age(attempt, seen_at=40)
    node_make(running=[{"job_id": job.pk, "token": 1}])
    reconcile()
    job.refresh_from_db()
    assert job.state == "running"


def test_an_end_that_the_broker_lost_is_read_from_disk(job, node_make):
    node_make()
    attempt = run_now(job)
    exit_file = settings.STORE.job(job.pk).exit_file(1)
    exit_file.parent.mkdir(parents=True)
    exit_file.write_text(event(job, "exited", 9, outcome="succeeded").to_json())
    age(attempt, seen_at=10)
    reconcile()
    job.refresh_from_db()
    assert job.state == "succeeded"
    assert not Allocation.objects.exists()


@pytest.fixture
def words_waiting(job, node_make, broker):
    """A run has ended, as the disk tells, and what it said before lies in its stream for a while."""
    node_make()
    attempt = run_now(job)
    exit_file = settings.STORE.job(job.pk).exit_file(1)
    exit_file.parent.mkdir(parents=True)
    exit_file.write_text(event(job, "exited", 9, outcome="lost").to_json())
    age(attempt, seen_at=600, sent_at=600)
    metric = event(job, "metric", 1, rank=0, step=1, epoch=1.0, values={"train/loss": 1.0})
    stream = control_stream(attempt.run_plan.event_stream)
    broker.xadd(stream, {"event": metric.to_json()}, id=f"{int(1000 * (time.time() - 60))}-0")
    return attempt


@pytest.mark.parametrize(
    ("read_s", "settled", "state"),
    [(10, True, "running"), (None, False, "running"), (None, True, "queued"), (600, True, "queued")],
)
def test_an_end_on_disk_waits_for_the_words_before_it_as_long_as_they_are_taken_in(
    words_waiting, broker, read_s, settled, state
):
    attempt = words_waiting
    if read_s is not None:
        broker.hset(READ_BY_KEY, str(attempt.run_plan.event_stream), f"{time.time() - read_s:.3f} control/1")
    if not settled:
        broker.delete(HEARING_KEY)  # control has just begun
    reconcile()
    assert Job.objects.get(pk=attempt.job_id).state == state


def test_no_curve_is_lost_to_an_end_that_control_reads_first(words_waiting, broker):
    """Words of an attempt that its job has left are dropped."""
    broker.delete(HEARING_KEY)
    reconcile()
    assert ingest() == 1
    age(words_waiting, seen_at=600)
    reconcile()
    assert Job.objects.get(pk=words_waiting.job_id).state == "queued"
    assert MetricPoint.objects.filter(job=words_waiting.job_id).count() == 1


def test_a_record_on_disk_that_names_no_outcome_ends_the_attempt_as_lost(job, node_make):
    node_make()
    attempt = run_now(job)
    age(attempt, seen_at=10)
    JobAttempt.objects.update(seen_seq={"end": 9})
    file = settings.STORE.job(job.pk).exit_file(1)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(event(job, "exited", 5, outcome="odd").to_json())
    reconcile()
    job.refresh_from_db()
    assert (job.state, job.restarts) == ("queued", 1)


def test_a_lost_attempt_of_a_job_that_is_being_cancelled_cancels_it(job, people, node_make):
    node_make()
    attempt = run_now(job)
    services.job_cancel(user=people.owner, job=job)
    age(attempt, seen_at=40)
    reconcile()
    job.refresh_from_db()
    assert job.state == "cancelled"


def test_a_lost_attempt_of_a_job_that_is_pausing_pauses_it(job, people, node_make):
    node_make()
    attempt = run_now(job)
    services.job_pause(user=people.owner, job=job)
    age(attempt, seen_at=40)
    reconcile()
    job.refresh_from_db()
    assert job.state == "paused"


def test_a_cancel_that_was_lost_is_sent_again(job, people, node_make, tasks_sent):
    node_make()
    run_now(job)
    services.job_cancel(user=people.owner, job=job)
    tasks_sent.clear()
    reconcile()
    assert stops(tasks_sent) == [([job.pk, 1, "cancel"], "node.node-1")]


def test_stops_do_not_pile_up_for_a_node_whose_agent_is_down(job, people, node_make, tasks_sent):
    node_make("node-1")
    attempt = run_now(job)
    services.job_cancel(user=people.owner, job=job)
    node_down()
    tasks_sent.clear()
    for _ in range(3):
        reconcile()
    assert stops(tasks_sent) == []
    node_make("node-1", running=[{"job_id": job.pk, "token": attempt.number}])
    reconcile()
    assert stops(tasks_sent) == [([job.pk, 1, "cancel"], "node.node-1")]


def test_a_node_that_comes_back_with_an_old_attempt_is_told_to_stop_it(job, node_make, tasks_sent):
    node_make("node-1")
    attempt = run_now(job)
    node_down()
    node_make("node-2")
    age(attempt, seen_at=40)
    reconcile()
    node_make("node-1", running=[{"job_id": job.pk, "token": 1}])
    tasks_sent.clear()
    reconcile()
    assert stops(tasks_sent) == [([job.pk, 1, "cancel"], "node.node-1")]


def test_a_damaged_checkpoint_that_we_chose_is_put_aside_and_the_older_one_is_tried(job, node_make):
    node_make()
    older, newer = checkpoint_make(job, 10, token=0), checkpoint_make(job, 20, token=0)
    attempt = run_now(job)
    assert attempt.plan["resume_from"] == newer
    failure = {"code": "checkpoint_corrupt", "message": "state.pt has another checksum."}
    events_apply(job.pk, [event(job, "exited", 1, outcome="failed", failure=failure)])
    tick_later()
    assert JobAttempt.objects.get(number=2).plan["resume_from"] == older


def test_a_damaged_checkpoint_that_a_person_chose_fails_the_job(job, people, node_make):
    node_make()
    name = checkpoint_make(job, 10, token=0)
    run_now(job)
    events_apply(job.pk, [event(job, "exited", 1, outcome="paused")])
    services.job_resume(user=people.owner, job=job, checkpoint=name)
    tick_later()
    failure = {"code": "checkpoint_corrupt", "message": "state.pt has another checksum."}
    events_apply(job.pk, [event(job, "exited", 1, token=2, outcome="failed", failure=failure)])
    job.refresh_from_db()
    assert (job.state, job.failure["code"]) == ("failed", "checkpoint_corrupt")


def test_after_a_resume_from_an_older_checkpoint_the_left_history_is_not_gone_back_to(job, people, node_make):
    node_make()
    old = checkpoint_make(job, 10)
    checkpoint_make(job, 90)
    run_now(job)
    events_apply(job.pk, [event(job, "exited", 1, outcome="paused")])
    services.job_resume(user=people.owner, job=job, checkpoint=old)
    tick_later()
    assert JobAttempt.objects.get(number=2).plan["resume_from"] == old
    made = {"name": checkpoint_files_make(job, 20), "step": 20, "bytes": 1}
    events_apply(
        job.pk, [event(job, "checkpoint", 1, rank=0, token=2, **made), event(job, "exited", 1, token=2, outcome="lost")]
    )
    tick_later()
    assert JobAttempt.objects.get(number=3).plan["resume_from"] == "step-00000020"
    assert [saved.step for saved in selectors.job_checkpoints(job)] == [20, 10]


def test_what_a_run_saved_counts_though_a_damaged_checkpoint_lay_farther_on(job, node_make):
    node_make()
    checkpoint_make(job, 100)
    checkpoint_make(job, 200, whole=False)
    assert run_now(job).plan["resume_from"] == "step-00000100"
    made = {"name": checkpoint_files_make(job, 150), "step": 150, "bytes": 1}
    events_apply(job.pk, [event(job, "checkpoint", 1, rank=0, **made), event(job, "exited", 1, outcome="lost")])
    tick_later()
    assert JobAttempt.objects.get(number=2).plan["resume_from"] == "step-00000150"


def test_an_attempt_that_cannot_be_judged_does_not_hold_up_the_others(job_make, node_make, tasks_sent, monkeypatch):
    node_make(cpus=2)
    first, second = (place_now(job_make(resources={"device": "cpu", "count": 1})) for _ in range(2))
    JobAttempt.objects.filter(pk=first.pk).update(plan={"ranks": [None]})
    JobAttempt.objects.update(sent_at=None)
    tasks_sent.clear()
    reconcile()
    assert [plan["job_id"] for plan in starts(tasks_sent)] == [second.job_id]


def test_a_wish_with_a_field_of_a_newer_release_holds_up_nobody(job_make, node_make):
    node = node_make(cpus=2)
    first, second = (job_make(resources={"device": "cpu", "count": 1}) for _ in range(2))
    attempt = run_now(first)
    width = {"number": 1, "slots": [0], "asked_at": timezone.now().isoformat(), "done": True, "later": "x"}
    JobAttempt.objects.filter(pk=attempt.pk).update(width=width)
    Node.objects.filter(pk=node.pk).update(running=[{"job_id": first.pk, "token": attempt.number}])
    queue(second)
    reconcile()
    second.refresh_from_db()
    assert second.state == "placed"
