"""What is said of a wished finish: code asks for a state, people read a sentence; and rows from before it had one."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.utils import timezone

from harness.jobs.admission import is_being_measured, unpromised_start
from harness.jobs.models import Job
from harness.jobs.promises import AWAITS_ESTIMATE, PromiseState, promise_state, promise_told
from tests.harness.api.conftest import API, client_of, token_text

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent")]

migration = import_module("harness.jobs.migrations.0007_promise_state")
EDITOR = SimpleNamespace(connection=connection)
UNMEASURED = "Its time could not be measured, so its finish cannot be promised; it is tried as well as it goes."
BEFORE = {
    "not_wanted": {"wanted": False},
    "no_estimate": {
        "text": "Nobody has estimated how long it takes, so its finish cannot be promised; it is tried as well as it "
        "goes."
    },
    "to_be_measured": {
        "text": "Its program cannot be read without running it: as soon as a device is idle, a few of its steps are "
        "made there. Then its finish is promised, or you are told here why not."
    },
    "being_measured": {
        "text": "Its time is being measured: an idle device makes a few of its steps. Then its finish is promised, or "
        "you are told here why not."
    },
    "not_measured": {"text": f"{UNMEASURED} No such column."},
    "started_unmeasured": {
        "text": "It started before its time was measured. As soon as its own pace tells how long it takes, its finish "
        "is promised if it can be."
    },
    "not_promised": {"text": "Its deadline cannot be promised. Its devices are promised to other jobs."},
    "none": {},
}
"""State -> what an earlier release kept in its place."""


@pytest.fixture
def promise_of(job: Job) -> Any:
    """Move a job with this promise to the state of this release; gives its row."""

    def make(promise: dict[str, Any], *, promised: bool = False) -> Job:
        at = timezone.now() if promised else None
        Job.objects.filter(pk=job.pk).update(promise=promise, promised_at=at)
        migration.name_states(apps, EDITOR)
        return Job.objects.get(pk=job.pk)

    return make


@pytest.mark.parametrize("state", BEFORE)
def test_a_promise_of_an_earlier_release_gets_its_state_and_loses_it_again(promise_of: Any, state: str) -> None:
    row = promise_of(BEFORE[state])
    assert promise_state(row) == state
    migration.name_states(apps, EDITOR)
    assert Job.objects.get(pk=row.pk).promise == row.promise, "moved twice"
    migration.forget_states(apps, EDITOR)
    assert Job.objects.get(pk=row.pk).promise == BEFORE[state]


@pytest.mark.parametrize("state", ["not_wanted", *migration.SENTENCES])
def test_after_it_was_moved_an_old_promise_is_as_one_of_this_release(promise_of: Any, state: str) -> None:
    why = "No such column." if state == "not_measured" else ""
    assert promise_of(BEFORE[state]).promise == promise_told(PromiseState(state), why)


def test_a_finish_that_was_promised_before_is_promised_after(promise_of: Any) -> None:
    before = {"text": "It will be done by then.", "finish_at": "2026-01-01T00:00:00+00:00", "admitted_at": "x"}
    row = promise_of(before, promised=True)
    assert row.promise == before | {"state": "promised"}
    migration.forget_states(apps, EDITOR)
    assert Job.objects.get(pk=row.pk).promise == before


@pytest.mark.parametrize("state", PromiseState)
def test_a_state_does_not_hang_on_what_is_said(job: Job, state: PromiseState) -> None:
    job.promise = promise_told(state) | {"text": "In other words."}
    is_measured = state in {PromiseState.TO_BE_MEASURED, PromiseState.BEING_MEASURED}
    assert (promise_state(job), is_being_measured(job)) == (state, is_measured)
    assert bool(unpromised_start(job)) == (state in {*AWAITS_ESTIMATE, PromiseState.AFTER_RESERVED})


@pytest.mark.parametrize(
    ("promise", "shown"),
    [
        ({}, {"state": "none", "text": "", "finish_at": None, "admitted_at": None}),
        (promise_told(PromiseState.NOT_PROMISED, "No."), {"state": "not_promised", "text": "No."}),
    ],
)
def test_the_api_tells_state_and_words(job: Job, promise: dict[str, Any], shown: dict[str, Any]) -> None:
    Job.objects.filter(pk=job.pk).update(promise=promise)
    told = client_of(token_text(job.owner, "read")).get(f"{API}/jobs/{job.pk}").json()["promise"]
    assert told == {"finish_at": None, "admitted_at": None, **shown}
