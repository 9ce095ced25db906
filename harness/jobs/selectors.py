"""Read one job and its history. Lists are made in `finding`, curves in `series`, logs in `logs`, files in `results`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import Count, Min, Q, QuerySet
from django.utils import timezone

from codegen.profile.types import DatasetProfile
from harness.accounts.access import require
from harness.accounts.models import Role, User
from harness.datasets.content import content_profile
from harness.datasets.selectors import dataset_profile
from harness.errors import NotFound
from harness.jobs.exports import export_get, export_model_open, export_name, export_zip
from harness.jobs.finding import (
    JobFilters,
    job_list,
    job_metric_keys,
    job_order,
    job_owners,
    job_rows,
    jobs_ended,
    jobs_open,
    jobs_queued,
    jobs_read,
)
from harness.jobs.logs import job_logs, job_logs_text
from harness.jobs.models import Checkpoint, Job, JobAttempt, JobEvent, Prediction
from harness.jobs.results import (
    checkpoint_open,
    data_file,
    job_chart_csv,
    job_results,
    model_zip,
    prediction_csv,
    prediction_has_own,
    prediction_output_get,
    prediction_own_open,
    program_diff,
    program_files,
    program_zip,
    weights_open,
    weights_path,
)
from harness.jobs.series import job_samples, job_series, job_series_csv, job_series_keys
from harness.paging import Page
from harness.trash import PURGE_BEGUN
from worker.states import TERMINAL, JobState

__all__ = [
    "JobFilters",
    "Page",
    "checkpoint_open",
    "data_file",
    "export_get",
    "export_model_open",
    "export_name",
    "export_zip",
    "job_attempts",
    "job_chart_csv",
    "job_checkpoints",
    "job_events",
    "job_get",
    "job_list",
    "job_logs",
    "job_logs_text",
    "job_metric_keys",
    "job_order",
    "job_owners",
    "job_profile",
    "job_results",
    "job_rows",
    "job_samples",
    "job_series",
    "job_series_csv",
    "job_series_keys",
    "jobs_ended",
    "jobs_open",
    "jobs_queued",
    "jobs_read",
    "model_zip",
    "prediction_csv",
    "prediction_get",
    "prediction_has_own",
    "prediction_list",
    "prediction_output_get",
    "prediction_own_open",
    "program_check_get",
    "program_check_last",
    "program_diff",
    "program_files",
    "program_zip",
    "queue_position",
    "weights_open",
    "weights_path",
]


def job_get(*, user: User, job_id: str, role: Role = Role.VIEWER) -> Job:
    """One job by id, in the trash or not. Raises `NotFound`, as for one that is being deleted for good, `Forbidden`."""
    job = Job.objects.select_related("project", "owner", "dataset", "parent").filter(pk=job_id).first()
    if job is not None and job.deleted_at != PURGE_BEGUN:
        try:
            require(user, job.project, role)
            return job
        except NotFound:
            pass
    raise NotFound("There is no such job.", hint="The page Jobs and `dlh jobs` show those that you can see.")


def job_profile(job: Job) -> DatasetProfile:
    """Profile of the content its program was made for: the dataset may be read anew since. Raises `Conflict`."""
    made_for = content_profile(job.dataset_sha256) if job.dataset_sha256 else None
    return made_for or dataset_profile(job.dataset)


def job_events(job: Job) -> QuerySet[JobEvent]:
    """History, oldest first, with the people in it."""
    return JobEvent.objects.filter(job=job).select_related("actor").order_by("id")


def job_attempts(job: Job) -> QuerySet[JobAttempt]:
    """Starts of the job, newest first."""
    return JobAttempt.objects.filter(job=job).order_by("-number")


def job_checkpoints(job: Job, *, removed: bool = False) -> QuerySet[Checkpoint]:
    """Checkpoints that are kept (or, with `removed`, all), newest step first."""
    rows = Checkpoint.objects.filter(job=job).order_by("-step", "-token")
    return rows if removed else rows.filter(removed_at=None)


def queue_position(job: Job) -> int | None:
    """Its place in the queue, from 1; None where it does not wait. Until the policy has told, by the plain order."""
    if job.state != JobState.QUEUED or job.queued_at is None:
        return None
    if job.queue_position is not None:
        return job.queue_position
    same = Q(priority=job.priority)
    before = Q(priority__gt=job.priority) | same & Q(rank__lt=job.rank)
    before |= same & Q(rank=job.rank, queued_at__lt=job.queued_at)
    return Job.objects.filter(before, state=JobState.QUEUED, deleted_at=None).count() + 1


def jobs_queued_count() -> int:
    """Jobs that wait for devices, of all projects."""
    return Job.objects.filter(state=JobState.QUEUED, deleted_at=None).count()


def jobs_by_state() -> dict[str, int]:
    """How many jobs of all projects are in each state, without those in the trash."""
    counts = Job.objects.filter(deleted_at=None).order_by().values_list("state").annotate(count=Count("pk"))
    return {state.value: 0 for state in JobState} | dict(counts)


def oldest_queued_s() -> float:
    """How long the first job of the queue waits, by when it was queued; 0: none waits."""
    queued = Job.objects.filter(state=JobState.QUEUED, deleted_at=None)
    since = queued.aggregate(since=Min("queued_at"))["since"]
    return (timezone.now() - since).total_seconds() if since else 0.0


def promises_at_risk_count() -> int:
    """Jobs on their way whose promised finish the scheduler warns of."""
    return Job.objects.filter(deleted_at=None).exclude(state__in=TERMINAL).exclude(warning="").count()


def prediction_get(*, user: User, job: Job, prediction_id: str) -> Prediction:
    """One prediction of a job. Raises `NotFound`."""
    require(user, job.project, Role.VIEWER)
    prediction = Prediction.objects.select_related("job", "owner").filter(pk=prediction_id, job=job).first()
    if prediction is None:
        raise NotFound("There is no such prediction.", hint="The job's page shows those that are kept.")
    return prediction


def prediction_list(*, user: User, job: Job) -> QuerySet[Prediction]:
    """Predictions made with a job, newest first. Raises `NotFound`."""
    require(user, job.project, Role.VIEWER)
    return Prediction.objects.filter(job=job).select_related("owner").order_by("-created_at", "pk")


def program_check_get(job: Job, check_id: str) -> dict[str, Any] | None:
    """A node's answer to `program_check`: check_id, ok, problem, parameters, output_shape, notes, program_sha256 (of
    the program that was tried, empty where that is not known); None until then."""
    event = JobEvent.objects.filter(job=job, kind="program", data__check_id=check_id).first()
    return dict(event.data) if event else None


def program_check_last(job: Job) -> tuple[dict[str, Any], datetime] | None:
    """The newest answer to `program_check`, and since when it is there."""
    event = JobEvent.objects.filter(job=job, kind="program", data__has_key="check_id").order_by("-pk").first()
    return (dict(event.data), event.at) if event else None
