"""Predictions that nobody wants any more go with their files: deleted by people, or by their age."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from harness.accounts.access import require
from harness.accounts.models import Role, User
from harness.bucket.due import unit_due
from harness.errors import Conflict, Forbidden
from harness.jobs.models import Prediction
from harness.jobs.sizes import job_size_due
from worker.trees import tree_remove

BATCH = 200
_WAITING = "waiting"


def prediction_delete(*, user: User, prediction: Prediction) -> None:
    """Delete a prediction with its input and its answer. Cannot be undone.

    Raises `NotFound`, `Forbidden`, `Conflict` (a node still works on it: it would leave its answer behind).
    """
    job = prediction.job
    role = require(user, job.project, Role.MEMBER)
    if user.pk not in {prediction.owner_id, job.owner_id} and role != Role.ADMIN:
        told = "Only who made a prediction, the job's owner or an admin of the project deletes it."
        raise Forbidden(told, hint="Ask one of them.")
    if not _remove(prediction.pk) and Prediction.objects.filter(pk=prediction.pk).exists():
        raise Conflict("A node still works on this prediction.", hint="Wait for its answer.")


def predictions_forget() -> int:
    """Delete those that were answered more than `PREDICTION_DAYS` ago, where an admin set that; how many."""
    if not settings.PREDICTION_DAYS:
        return 0
    limit = timezone.now() - timedelta(days=settings.PREDICTION_DAYS)
    old = Prediction.objects.filter(finished_at__lt=limit).exclude(state=_WAITING)
    count = 0
    while keys := list(old.values_list("pk", flat=True)[:BATCH]):
        count += sum(map(_remove, keys))
    return count


def _remove(prediction_id: str) -> bool:
    """The row now, the files once that is certain; False for one that waits, or is gone."""
    with transaction.atomic():
        rows = Prediction.objects.select_for_update().filter(pk=prediction_id).exclude(state=_WAITING)
        prediction = rows.first()
        if prediction is None:
            return False
        folder = settings.STORE.job(prediction.job_id).prediction(prediction.pk)
        transaction.on_commit(partial(tree_remove, folder))
        transaction.on_commit(partial(unit_due, f"jobs/{prediction.job_id}"))  # or its copy would stay for ever
        job_size_due(prediction.job_id)
        prediction.delete()
    return True
