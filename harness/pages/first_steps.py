"""What somebody who has no model yet does next, from bringing data to using the first results."""

from __future__ import annotations

from dataclasses import dataclass

from django.urls import reverse

from harness.accounts.models import User
from harness.datasets.models import Dataset, DatasetState
from harness.datasets.selectors import dataset_list
from harness.jobs.models import Job
from harness.jobs.selectors import JobFilters, job_rows
from worker.states import HAS_ATTEMPT, JobState

STEPS = (
    "Bring data, or take a sample",
    "Say what to learn, and choose a model",
    "Submit it, and watch it train",
    "See how good it is, and predict",
)
_WAITING = HAS_ATTEMPT - {JobState.CANCELLING} | {JobState.QUEUED, JobState.PAUSED}


@dataclass(frozen=True, kw_only=True)
class FirstSteps:
    """The way to the first model."""

    steps: tuple[tuple[str, bool], ...]
    """Words, and whether it is done."""
    words: str
    """On the button that goes on; empty while there is no data."""
    address: str
    aside: tuple[str, str] | None = None
    """Words and address of a smaller link: to the newest data, where these cannot be trained on."""


def first_steps(user: User) -> FirstSteps | None:
    """How far a person is; None once a job they see has succeeded."""
    if job_rows(user=user, filters=JobFilters(states=(JobState.SUCCEEDED,))).exists():
        return None
    newest = dataset_list(user=user).first()
    job = job_rows(user=user).first()
    if job is not None:
        return _made(2 if job.state == JobState.DRAFT else 3, *_after_job(job))
    if newest is None:
        return _made(0, "", "")
    usable = dataset_list(user=user).filter(state=DatasetState.READY).first()
    if usable is None or usable == newest:
        return _made(1, *_after_data(newest))
    return _made(1, *_after_data(usable), aside=_after_data(newest))


def _made(done: int, words: str, address: str, *, aside: tuple[str, str] | None = None) -> FirstSteps:
    steps = tuple((step, place < done) for place, step in enumerate(STEPS))
    return FirstSteps(steps=steps, words=words, address=address, aside=aside)


def _after_data(dataset: Dataset) -> tuple[str, str]:
    if dataset.state == DatasetState.READY:
        return f"Train a model on {dataset.name}", reverse("job_new_spec", args=[dataset.pk])
    page = reverse("dataset_page", args=[dataset.pk])
    if dataset.state == DatasetState.FAILED:
        return f"See why {dataset.name} cannot be used", page
    return f"See how {dataset.name} is being read", page


def _after_job(job: Job) -> tuple[str, str]:
    if job.state == JobState.DRAFT:
        return f"Go on with {job.name}", reverse("job_tab", args=[job.pk, "cost"])
    page = reverse("job_tab", args=[job.pk, "live"])
    return (f"Watch {job.name}" if job.state in _WAITING else f"See what became of {job.name}"), page
