"""Predictions that nobody wants any more go, with their files; those that a node still works on stay."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from harness.errors import Conflict, Forbidden, NotFound
from harness.jobs import past_predictions
from harness.jobs.control.retention import retention
from harness.jobs.models import Job, Prediction
from harness.jobs.past_predictions import prediction_delete, predictions_forget

pytestmark = pytest.mark.django_db
Made = tuple[Prediction, Path]


@pytest.fixture
def made(job: Job, people: SimpleNamespace) -> Callable[..., Made]:
    """A prediction of a member, answered so many days ago, and its folder."""

    def make(days: float = 0.0, state: str = "done") -> Made:
        ended = None if state == "waiting" else timezone.now() - timedelta(days=days)
        row = Prediction.objects.create(job=job, owner=people.mate, state=state, finished_at=ended)
        folder = settings.STORE.job(job.pk).prediction(row.pk)
        folder.mkdir(parents=True)
        (folder / "input.csv").write_text("a\n1\n")
        return row, folder

    return make


@pytest.mark.parametrize("who", ["mate", "owner", "admin"])
def test_who_made_it_the_jobs_owner_and_admins_delete_it_with_its_files(
    made: Callable[..., Made], people: SimpleNamespace, who: str, django_capture_on_commit_callbacks: Any
) -> None:
    (gone, folder), (kept, other) = made(), made()
    with django_capture_on_commit_callbacks(execute=True):
        prediction_delete(user=getattr(people, who), prediction=gone)
    assert not folder.exists() and other.is_dir()
    assert Prediction.objects.get() == kept
    prediction_delete(user=people.owner, prediction=gone)  # somebody else was faster: it is gone, as was asked


def test_others_do_not_delete_it(made: Callable[..., Made], people: SimpleNamespace) -> None:
    row, folder = made()
    Prediction.objects.update(owner=people.owner)
    row.refresh_from_db()
    for who, error in ((people.mate, Forbidden), (people.viewer, Forbidden), (people.outsider, NotFound)):
        with pytest.raises(error):
            prediction_delete(user=who, prediction=row)
    assert Prediction.objects.exists() and folder.is_dir()


def test_one_that_a_node_works_on_stays_until_it_is_answered(
    made: Callable[..., Made], people: SimpleNamespace
) -> None:
    row, folder = made(state="waiting")
    with pytest.raises(Conflict, match="still works"):
        prediction_delete(user=people.mate, prediction=row)
    assert Prediction.objects.exists() and folder.is_dir()


def test_they_stay_as_long_as_the_job_unless_an_admin_has_set_how_long(
    made: Callable[..., Made],
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    tasks_sent: Any,
    django_capture_on_commit_callbacks: Any,
) -> None:
    monkeypatch.setattr(past_predictions, "BATCH", 2)
    old, young, waiting = [made(days=31) for _ in range(5)], made(days=29), made(state="waiting")
    assert predictions_forget() == 0
    settings.PREDICTION_DAYS = 30
    with django_capture_on_commit_callbacks(execute=True):
        retention()
    assert set(Prediction.objects.values_list("pk", flat=True)) == {young[0].pk, waiting[0].pk}
    assert not any(folder.exists() for _, folder in old) and young[1].is_dir() and waiting[1].is_dir()
