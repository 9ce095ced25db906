"""Two jobs that nobody named are made at the same moment: they are told apart all the same, on any database."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from harness.jobs import drafts
from harness.jobs.models import Job

pytestmark = pytest.mark.django_db(transaction=True)


def test_jobs_made_at_the_same_moment_get_different_numbers(
    job_make: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, named = threading.Barrier(2), drafts.job_name_made

    def slowly(name: str, job: Job) -> str:
        found = named(name, job)
        threading.Event().wait(0.3)
        return found

    monkeypatch.setattr(drafts, "job_name_made", slowly)
    names: list[Any] = []

    def make() -> None:
        try:
            begun.wait()
            names.append(job_make(model={"family": "mlp"}).name)
        finally:
            connection.close()

    threads = [threading.Thread(target=make) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names) == 2 and sorted(names)[1] == f"{sorted(names)[0]} (2)"
