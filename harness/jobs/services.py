"""Write jobs: what people ask for. Drafts live in `drafts`, predictions and checks in `predictions`.

A job is submitted with its estimate and its learning rate, which are found above: `harness.rates.submitting`.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from harness.accounts.access import project_hold, require
from harness.accounts.models import Role, User
from harness.broker import task_send_on_commit
from harness.errors import Conflict, Invalid, NotFound
from harness.jobs import programs
from harness.jobs.admission import job_admit_again
from harness.jobs.control.attempts import attempt_end
from harness.jobs.control.awaited import Awaited, results_awaited
from harness.jobs.cut_changes import cut_change_mend
from harness.jobs.drafts import (
    job_clone,
    job_create,
    job_spec_update,
    program_file_write,
    program_reset,
)
from harness.jobs.exports import export_create
from harness.jobs.models import Checkpoint, Job, JobAttempt
from harness.jobs.naming import job_update
from harness.jobs.pace import refusals_counted
from harness.jobs.past_predictions import prediction_delete
from harness.jobs.places import program_places_check
from harness.jobs.predictions import prediction_create, program_check
from harness.jobs.program_checks import program_syntax_check
from harness.jobs.spec_looks import job_suggest, spec_check
from harness.jobs.states import job_move
from harness.jobs.stopping import stop_message
from harness.jobs.trash import job_delete, job_purge, job_restore
from harness.pool.models import Node, NodeState
from harness.pool.services import node_queue, pool_setting_get
from harness.storage.room import storage_check
from worker.events import FailureCode, Outcome
from worker.states import HAS_ATTEMPT, TERMINAL, JobState, said

__all__ = [
    "export_create",
    "job_cancel",
    "job_clone",
    "job_create",
    "job_delete",
    "job_pause",
    "job_purge",
    "job_restore",
    "job_resume",
    "job_spec_update",
    "job_suggest",
    "job_update",
    "prediction_create",
    "prediction_delete",
    "program_check",
    "program_file_write",
    "program_reset",
    "spec_check",
]
READ_AGAIN = ("state", "spec", "resolved", "deadline_at", "options", "slowdown", "program_sha256", "dataset_sha256")
"""What somebody may have changed of a draft while its run was priced."""


def submit_check(*, user: User, job: Job) -> None:
    """Pass where the person may submit the job, and its program could run here. Raises what `job_submit` does."""
    require(user, job.project, Role.MEMBER)
    _not_in_trash(job)
    cut_change_mend(user=user, job=job)
    paths = settings.STORE.job(job.pk)
    files = programs.program_of(paths).files
    with refusals_counted(user):
        program_syntax_check(files, needs_build=True)
    program_places_check(paths)
    _sandbox_check(job)
    _backend_check(job)
    storage_check(job.project)


def draft_read_again(job: Job) -> None:
    """As it is now, with what was changed meanwhile. Raises `Conflict` where it is no draft any more."""
    job.refresh_from_db(fields=READ_AGAIN)
    if job.state != JobState.DRAFT:
        raise _wrong_state(job, "submitted")


def draft_queue(*, user: User, job: Job, promise: dict[str, Any]) -> None:
    """Queue a draft with what was promised (`job_admit`). Raises `Conflict`; call it in a transaction."""
    text = "Submitted" + (f". {told}" if (told := promise["promise"].get("text")) else "")
    moved = job_move(
        job.pk, JobState.DRAFT, JobState.QUEUED, actor=user, message=text, queued_at=timezone.now(), **promise
    )
    if moved is None:
        raise _wrong_state(job, "submitted")
    _not_in_trash(job)  # again: from here on the row is ours
    project_hold(job.project_id)
    if not job.options:
        task_send_on_commit("control.estimate_job", [job.pk])


def minimum_sandbox_level(job: Job) -> int:
    """Least level this job's program may run at."""
    return pool_setting_get().minimum_sandbox_level(own_code=job.own_code)


def _sandbox_check(job: Job) -> None:
    need = minimum_sandbox_level(job)
    levels = list(Node.objects.filter(state=NodeState.UP).values_list("sandbox_level", "sandbox_reason"))
    if levels and max(level for level, _ in levels) < need:
        best, reason = max(levels)
        raise Conflict(
            f"This program needs sandbox level {need}; the strongest node has level {best}"
            + (f" ({reason})." if reason else "."),
            code="sandbox_too_weak",
            hint="An admin can lower the pool's least level, or prepare a node for a stronger sandbox.",
        )


def _backend_check(job: Job) -> None:
    least = job.resolved.get("spec", {}).get("resources", {}).get("least")
    if isinstance(least, int) and pool_setting_get().backend != "horovod":
        raise Invalid(
            "Runs of this pool meet by torch.distributed, and none of them continues without a lost rank: "
            "resources.least would do nothing.",
            field="resources.least",
            hint="Use auto; or an admin has them meet by Horovod: dlh pool settings --set backend=horovod.",
        )


def job_cancel(*, user: User, job: Job) -> Job:
    """Stop a job for good; its checkpoints stay. Again: does nothing. Raises `NotFound`, `Forbidden`, `Conflict`."""
    require(user, job.project, Role.MEMBER)
    with transaction.atomic():
        _hold(job)
        waits = (JobState.DRAFT, JobState.QUEUED, JobState.PAUSED)
        runs = (JobState.PLACED, JobState.RUNNING, JobState.PAUSING, JobState.RETURNING)
        if job_move(job.pk, runs, JobState.CANCELLING, actor=user, message="Cancel requested"):
            stop_send(job.pk, "cancel")
        elif not job_move(job.pk, waits, JobState.CANCELLED, actor=user, message="It held no devices"):
            job.refresh_from_db()
            if job.state not in {JobState.CANCELLING, JobState.CANCELLED}:
                raise _wrong_state(job, "cancelled")
    return job_moved(job)


def job_pause(*, user: User, job: Job) -> Job:
    """Have a job save a checkpoint and leave its devices. Again: does nothing. Raises like `job_cancel`."""
    require(user, job.project, Role.MEMBER)
    with transaction.atomic():
        _hold(job)
        # What a person pauses is not queued again by itself, and nobody can promise when it ends.
        left: dict[str, Any] = {"preempted": False, "promised_at": None, "promise": {}, "warning": ""}
        runs = (JobState.PLACED, JobState.RUNNING)
        if job_move(job.pk, runs, JobState.PAUSING, actor=user, message="Pause requested", **left):
            stop_send(job.pk, "pause")
        elif not job_move(job.pk, JobState.QUEUED, JobState.PAUSED, actor=user, message="Paused while waiting", **left):
            job.refresh_from_db()
            if job.state not in {JobState.PAUSING, JobState.PAUSED}:
                raise _wrong_state(job, "paused")
            Job.objects.filter(pk=job.pk).update(**left)
    return job_moved(job)


def _hold(job: Job) -> None:
    """Keep others from moving the job while its state is looked at more than once."""
    Job.objects.select_for_update().filter(pk=job.pk).values_list("pk").first()


def _not_in_trash(job: Job) -> None:
    """Raises `Conflict`: a job in the trash would wait forever."""
    job.refresh_from_db(fields=["deleted_at"])
    if job.deleted_at:
        raise Conflict("This job is in the trash.", hint="Restore it first.")


def stop_send(job_id: str, how: str) -> None:
    """Tell the nodes of a job's open attempt to stop it, on commit; the reconciler repeats it until they did."""
    attempt = JobAttempt.objects.filter(job_id=job_id, ended_at=None).order_by("-number").first()
    if attempt is None:
        return
    for node in sorted(attempt.run_plan.nodes):
        task_send_on_commit("node.stop", stop_message(attempt, how), queue=node_queue(node))


def job_resume(*, user: User, job: Job, checkpoint: str = "") -> Job:
    """Queue a paused, failed or cancelled job again, from the named checkpoint or the newest good one; also one whose
    results are on a node alone that does not answer: they are not waited for any longer.

    Raises `NotFound`, `Forbidden`, `Conflict` (state, or nothing to resume from), `NoSpace` (storage quota).
    """
    require(user, job.project, Role.MEMBER)
    _not_in_trash(job)
    storage_check(job.project)
    kept = Checkpoint.objects.filter(job=job, removed_at=None)
    chosen = kept.filter(name=checkpoint).first() if checkpoint else None
    if checkpoint and chosen is None:
        raise NotFound(
            f"There is no checkpoint {checkpoint}.", field="checkpoint", hint="The job's page and dlh show list them."
        )
    if awaited := results_awaited(job):
        return _train_again(user, job, awaited, checkpoint)
    olds = [JobState.PAUSED]
    if kept.exists():
        olds += [JobState.FAILED, JobState.CANCELLED]
    text = f"Resumed from {chosen.name}" if chosen else "Resumed"
    job.resume_from = checkpoint  # what is left of it is asked for below
    anew: dict[str, Any] = {"restarts": 0, "failure": None, "preempted": False}
    with transaction.atomic():
        moved = job_move(
            job.pk,
            olds,
            JobState.QUEUED,
            actor=user,
            message=text,
            queued_at=timezone.now(),
            resume_from=checkpoint,
            **anew,
            **job_admit_again(job),
        )
        if moved is None:
            raise _no_resume(job)
        _not_in_trash(job)  # again: from here on the row is ours
        project_hold(job.project_id)
    return job_moved(job)


def _train_again(user: User, job: Job, awaited: Awaited, checkpoint: str) -> Job:
    """End an attempt that had succeeded as lost; its node returns nothing of it any more. Raises `Conflict`."""
    told = f"{user.username} does not wait for its results, which are on {awaited.node} alone."
    attempt = job.attempts.get(number=job.token)
    failure = {"code": str(FailureCode.NODE_LOST), "message": told}
    with transaction.atomic():  # nobody places it before it knows its checkpoint
        if not attempt_end(attempt, Outcome.LOST, failure, forgiven=True):
            raise _wrong_state(job, "resumed")
        Job.objects.filter(pk=job.pk, state=JobState.QUEUED).update(resume_from=checkpoint)
    job = job_moved(job)
    return job_resume(user=user, job=job, checkpoint=checkpoint) if awaited.pauses else job


def _no_resume(job: Job) -> Conflict:
    """Why a job was not queued again."""
    job.refresh_from_db()
    if job.state in {JobState.FAILED, JobState.CANCELLED}:
        how = "failed" if job.state == JobState.FAILED else "was cancelled"
        told = f"{job.name} {how} before it saved a checkpoint: there is nothing to resume from."
        return Conflict(told, hint="Clone it: the clone starts from the beginning.")
    if job.state in {JobState.QUEUED, JobState.PLACED, JobState.RUNNING}:  # asked for twice, as in two tabs
        how = {JobState.QUEUED: "queued", JobState.PLACED: "starting", JobState.RUNNING: "running"}[JobState(job.state)]
        hint = "There is nothing to do. To have it go on from another checkpoint, pause it first."
        return Conflict(f"{job.name} is {how} already.", code="wrong_state", hint=hint)
    if job.state == JobState.PAUSING:
        return Conflict(f"{job.name} is being paused.", code="wrong_state", hint="Resume it once it is paused.")
    return _wrong_state(job, "resumed")


def _wrong_state(job: Job, verb: str) -> Conflict:
    job.refresh_from_db(fields=["state"])
    told = f"A job that {said(job.state)} cannot be {verb}."
    return Conflict(told, code="wrong_state", hint=_advice(job.pk, JobState(job.state)))


def _advice(job_id: str, state: JobState) -> str:
    """What a job in this state waits for, or what can be done with it."""
    if state in TERMINAL:
        return "Clone it to run it again."
    if state in HAS_ATTEMPT:
        return "Wait, or cancel it."
    if state == JobState.QUEUED:
        return "It was submitted already: it starts by itself."
    if state == JobState.PAUSED:
        return "Resume it to have it go on."
    return f"Submit it as it is (`dlh submit {job_id}`), or with the line of an offer (`dlh jobs offer {job_id}`)."


def job_moved(job: Job) -> Job:
    """As it is now; the scheduler looks at it soon."""
    task_send_on_commit("control.tick")
    job.refresh_from_db()
    return job
