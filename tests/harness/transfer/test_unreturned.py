"""What an attempt saved on a node and could not return is not lost with it: the next one there goes on from it."""

from __future__ import annotations

import pytest
from django.utils import timezone

from harness.jobs.control.effects import events_apply
from harness.jobs.control.saved import checkpoint_set_aside, course_begin
from harness.jobs.models import Checkpoint, Job, JobAttempt
from tests.harness.jobs.helpers import event
from tests.waiting import wait_for
from tests.worker.transfer.test_unreturned import save
from worker.attempt import Attempt
from worker.cause import failure
from worker.events import FailureCode, Outcome
from worker.plan import RunPlan
from worker.transfer.carrier import Carrier


def row(job_id, step, token=1, **more):
    return Checkpoint.objects.create(
        job_id=job_id, name=f"step-{step:08d}", step=step, epoch=1.0, token=token, metric=0.4, **more
    )


@pytest.fixture
def second(plan, store) -> RunPlan:
    """The job's next attempt, on the same node: it is to go on from what the first one returned."""
    save(store.work, 100, attempt=1)
    row(plan.job_id, 100, best=True)
    JobAttempt.objects.filter(job_id=plan.job_id).update(ended_at=timezone.now(), outcome="lost")
    body = {**plan.to_dict(), "token": 2, "resume_from": "step-00000100"}
    JobAttempt.objects.create(job_id=plan.job_id, number=2, plan=body)
    Job.objects.filter(pk=plan.job_id).update(token=2)
    return RunPlan.from_dict(body)


@pytest.fixture
def carrier(depot, second, here):
    made = Carrier(Attempt(second, here, "node-1"), depot)
    yield made
    made.close()


def brought(carrier):
    """(names of the checkpoints here, where the run goes on, what is told)."""
    here, note = carrier.bring(lambda: False)
    found = sorted(path.name for path in here.paths.checkpoints.iterdir())
    return found, here.plan.resume_from, note["message"]


def test_the_next_attempt_on_the_node_goes_on_from_it_and_returns_it(carrier, second, here, store):
    for step in (200, 300):
        save(here.work, step, attempt=1)
    names = ["step-00000100", "step-00000200", "step-00000300"]
    found, resume_from, told = brought(carrier)
    assert (found, resume_from) == (names, "step-00000300")
    assert "It goes on from step-00000300, which lay there and had not been returned." in told
    kept = []
    wait_for(lambda: kept.extend(carrier.kept()) or len(kept) == 2)
    assert sorted(path.name for path in store.checkpoints.glob("step-*")) == names
    job = Job.objects.get(pk=second.job_id)
    events = [event(job, "checkpoint", 10 + seq, rank=0, token=2, **data) for seq, data in enumerate(kept)]
    events_apply(job.pk, events)
    rows = Checkpoint.objects.filter(job=job).order_by("step").values_list("name", "best", "token")
    assert list(rows) == [(names[0], False, 1), (names[1], False, 2), (names[2], True, 2)]


DAMAGED = failure(FailureCode.CHECKPOINT_CORRUPT, "Damaged checkpoint: step-00000300/state.pt: no archive")


def test_one_that_does_not_load_is_dropped_and_the_next_attempt_goes_on_from_an_older_one(carrier, depot, second, here):
    for step in (200, 300):
        save(here.work, step, attempt=1)
    brought(carrier)
    outcome, cause = carrier.leftover_judge(Outcome.FAILED, DAMAGED)
    carrier.close()
    assert outcome is Outcome.LOST, "the checkpoint of the plan is not to blame"
    assert cause["message"] == (
        "The checkpoint step-00000300, which lay on node-1 and had not been returned, does not load."
    )
    assert not (here.checkpoints / "step-00000300").exists()
    again = Carrier(Attempt(second, here, "node-1"), depot)
    assert brought(again)[1] == "step-00000200"
    again.close()


def test_one_that_ranks_on_another_node_refused_is_not_gone_on_from_again(carrier, depot, second, here):
    for step in (200, 300):
        save(here.work, step, attempt=1)
    assert brought(carrier)[1] == carrier.leftover == "step-00000300"
    carrier.close()
    checkpoint_set_aside(Job.objects.get(pk=second.job_id), "step-00000300")
    again = Carrier(Attempt(second, here, "node-1"), depot)
    assert brought(again)[1] == "step-00000200"
    assert not (here.checkpoints / "step-00000300").exists()
    again.close()


def test_one_that_is_made_again_under_that_name_counts(carrier, depot, second, here):
    checkpoint_set_aside(Job.objects.get(pk=second.job_id), "step-00000300")
    save(here.work, 300, attempt=3)
    assert brought(carrier)[1] == "step-00000300"


def test_a_checkpoint_of_the_plan_that_does_not_load_is_for_control_to_set_aside(carrier, here):
    assert brought(carrier)[1] == "step-00000100"
    assert carrier.leftover_judge(Outcome.FAILED, DAMAGED) == (Outcome.FAILED, DAMAGED)
    assert (here.checkpoints / "step-00000100").exists()


def test_a_run_that_fails_otherwise_keeps_what_it_went_on_from(carrier, here):
    save(here.work, 300, attempt=1)
    brought(carrier)
    wrong = failure(FailureCode.PROGRAM_ERROR, "bad shape")
    assert carrier.leftover_judge(Outcome.FAILED, wrong) == (Outcome.FAILED, wrong)
    assert (here.checkpoints / "step-00000300").exists()


def test_one_that_another_node_has_got_on_without_is_given_up(carrier, second, here, store):
    save(here.work, 300, attempt=0)
    save(here.work, 100, attempt=1)
    found, resume_from, told = brought(carrier)
    assert (found, resume_from) == (["step-00000100"], "step-00000100")
    assert "goes on from" not in told


def test_after_a_person_chose_an_earlier_point_what_was_made_before_is_of_another_course(carrier, second, here):
    Job.objects.filter(pk=second.job_id).update(resume_from="step-00000100", queued_at=timezone.now())
    save(here.work, 300, attempt=1)
    assert brought(carrier)[:2] == (["step-00000100"], "step-00000100")


def test_what_was_made_after_that_choice_counts_also_under_the_name_of_one_that_was_left(carrier, second, here, store):
    save(store.work, 300, attempt=1, epoch=9.0)
    row(second.job_id, 300)
    first = JobAttempt.objects.get(job_id=second.job_id, number=1)
    Job.objects.filter(pk=second.job_id).update(resume_from="step-00000100", queued_at=first.created_at)
    save(here.work, 300, attempt=1)
    assert course_begin(Job.objects.get(pk=second.job_id)) == 1
    assert brought(carrier)[:2] == (["step-00000100", "step-00000300"], "step-00000300")
    assert '"epoch": 1.5' in (here.checkpoints / "step-00000300" / "MANIFEST.json").read_text()
