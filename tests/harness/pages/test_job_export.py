"""The export of jobs reads them once, whatever their number, and sends them as they are read."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from harness.jobs import finding
from harness.jobs.finding import JobFilters, jobs_read
from harness.jobs.models import Job
from harness.responses import json_chunks

pytestmark = pytest.mark.django_db


@pytest.fixture
def many(people: SimpleNamespace, job_make: Callable[..., Any]) -> list[Job]:
    """More than are read at once."""
    first = job_make()
    fields = {"project": first.project, "owner": first.owner, "dataset": first.dataset}
    rest = [Job(name=f"job {number}", tags=["a", "b"], **fields) for number in range(6)]
    return [first, *Job.objects.bulk_create(rest)]


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_all_jobs_come_once_some_at_a_time(
    many: list[Job], people: SimpleNamespace, client: Client, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "READ_AT_ONCE", 2)
    client.force_login(people.owner)
    with CaptureQueriesContext(connection) as asked:
        answer = client.get(f"/jobs/export.{kind}?sort=created&column=spec:training.epochs")
        assert answer.streaming
        body = b"".join(answer).decode()
    of_jobs = [query["sql"] for query in asked if 'FROM "jobs_job"' in query["sql"]]
    assert len(of_jobs) == 1 + -(-len(many) // 2)
    found = json.loads(body)["items"] if kind == "json" else list(csv.DictReader(body.splitlines()))
    assert [row["id"] for row in found] == [job.pk for job in many]


def test_what_changes_while_an_export_is_read_moves_no_job(
    many: list[Job], people: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a statement stay open meanwhile, whose snapshot would be of before."""
    monkeypatch.setattr(finding, "READ_AT_ONCE", 2)
    read = jobs_read(user=people.owner, filters=JobFilters(states=("draft",)), sort="name")
    by_name = sorted(many, key=lambda job: job.name)
    found = [next(read), next(read)]
    Job.objects.filter(pk=by_name[3].pk).update(name="aaa", state="queued")
    Job.objects.filter(pk=by_name[4].pk).update(deleted_at=timezone.now())
    Job.objects.create(name="job 9", project=many[0].project, owner=many[0].owner, dataset=many[0].dataset)
    found += read
    assert [job.pk for job in found] == [job.pk for number, job in enumerate(by_name) if number != 4]
    assert found[3].name == "aaa"


def test_a_list_of_any_length_is_sent_in_parts() -> None:
    for count in (0, 1, 100, 101, 250):
        chunks = list(json_chunks({"number": number} for number in range(count)))
        assert json.loads(b"".join(chunks)) == {"items": [{"number": number} for number in range(count)]}
        assert len(chunks) == -(-count // 100) + 1
