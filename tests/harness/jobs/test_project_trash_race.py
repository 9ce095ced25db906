"""A job is submitted and its project deleted at the same moment: whoever is second is refused, on any database."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection, transaction

from harness.accounts.models import Project
from harness.errors import Conflict, HarnessError, NotFound
from harness.jobs.models import Job
from harness.jobs.project_trash import project_delete
from harness.jobs.services import draft_queue

pytestmark = pytest.mark.django_db(transaction=True)
HELD_S = 0.5
"""For so long the first one keeps its transaction open once it has done its part."""


def one_within_the_other(first: Callable[[], Any], second: Callable[[], Any]) -> list[HarnessError]:
    """What the second one, begun while the first one's transaction is open, is refused with."""
    done, refused = threading.Event(), list[HarnessError]()

    def run_first() -> None:
        try:
            with transaction.atomic():
                first()
                done.set()
                threading.Event().wait(HELD_S)
        finally:
            done.set()
            connection.close()

    def run_second() -> None:
        done.wait()
        try:
            with transaction.atomic():
                second()
        except HarnessError as error:
            refused.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for run in (run_first, run_second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return refused


def test_whoever_is_second_is_refused(people: SimpleNamespace, job: Job, tasks_sent: list[Any]) -> None:
    def delete() -> None:
        project_delete(user=people.owner, project=Project.objects.get(pk=people.project.pk), name="Birds")

    def submit() -> None:
        draft_queue(user=people.owner, job=Job.objects.get(pk=job.pk), promise={"promise": {}})

    (refused,) = one_within_the_other(delete, submit)
    job.refresh_from_db()
    assert isinstance(refused, NotFound) and job.state == "draft"
    Project.objects.update(deleted_at=None)
    (refused,) = one_within_the_other(submit, delete)
    job.refresh_from_db()
    assert isinstance(refused, Conflict) and job.state == "queued" and job.pk in refused.message
    assert Project.objects.get(pk=people.project.pk).deleted_at is None
