"""Lists of jobs with columns, and as saved views show them; what is asked for beside a view goes before it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.jobs.models import Job
from tests.harness.api.conftest import API, client_of, token_text

pytestmark = [pytest.mark.usefixtures("tasks_sent"), pytest.mark.django_db]


@pytest.fixture
def owner(people: SimpleNamespace) -> Any:
    return client_of(token_text(people.owner, "write"))


def asked(client: Any, query: str) -> list[str]:
    return [job["name"] for job in client.get(f"{API}/jobs?{query}").json()["items"]]


def test_a_list_gives_the_columns_that_are_asked_for(owner: Any, job_make: Any) -> None:
    job = job_make(name="a")
    Job.objects.filter(pk=job.pk).update(last_values={"val/loss": 0.5})
    items = owner.get(f"{API}/jobs?column=metric:val/loss&column=created_at&column=tags").json()["items"]
    assert list(items[0]["columns"]) == ["metric:val/loss", "created_at", "tags"]
    assert items[0]["columns"]["metric:val/loss"] == 0.5
    assert items[0]["columns"]["created_at"] == items[0]["created_at"] and items[0]["last_values"] == {"val/loss": 0.5}
    assert owner.get(f"{API}/jobs").json()["items"][0]["columns"] == {}
    for wrong in ("column=password", "sort=password", "sort=metric:5", "view=none"):
        assert owner.get(f"{API}/jobs?{wrong}").status_code in {404, 422}, wrong


def test_a_view_filters_sorts_and_names_columns_unless_something_else_is_asked_for(owner: Any, job_make: Any) -> None:
    for name, tags, best in (("a", ["x"], 0.1), ("b", ["x"], 0.9), ("c", [], 0.5)):
        Job.objects.filter(pk=job_make(name=name).pk).update(tags=tags, metric_best=best)
    made = owner.post(
        f"{API}/job-views", {"name": "x", "query": "tag=x&sort=-metric&column=owner"}, content_type="application/json"
    ).json()
    assert made["columns"] == ["owner"] and made["project"] is None and made["is_default"] is False
    assert asked(owner, "view=x") == asked(owner, f"view={made['id']}") == ["b", "a"]
    assert asked(owner, "view=x&sort=name") == ["a", "b"] and asked(owner, "view=x&metric_min=0.5") == ["b"]
    assert owner.get(f"{API}/jobs?view=x").json()["items"][0]["columns"] == {"owner": "owner"}


def test_a_view_is_shared_made_the_default_and_deleted(owner: Any, people: SimpleNamespace) -> None:
    made = owner.post(f"{API}/job-views", {"name": "x"}, content_type="application/json").json()
    address = f"{API}/job-views/{made['id']}"
    shared = owner.patch(address, {"project": people.project.slug, "name": "y"}, content_type="application/json").json()
    assert (shared["project"], shared["name"]) == (people.project.slug, "y")
    viewer = client_of(token_text(people.viewer, "write"))
    assert viewer.put(f"{address}/default").status_code == 200
    assert [view["is_default"] for view in viewer.get(f"{API}/job-views").json()["items"]] == [True]
    assert [view["is_default"] for view in owner.get(f"{API}/job-views").json()["items"]] == [False]
    assert viewer.delete(f"{address}/default").status_code == 200
    assert [view["is_default"] for view in viewer.get(f"{API}/job-views").json()["items"]] == [False]
    assert owner.delete(address).status_code == 200 and owner.get(f"{API}/job-views").json()["items"] == []


def test_a_change_of_which_a_part_is_refused_changes_nothing(people: SimpleNamespace) -> None:
    viewer = client_of(token_text(people.viewer, "write"))
    made = viewer.post(f"{API}/job-views", {"name": "x"}, content_type="application/json").json()
    for project, status in (("nosuch", 404), (people.project.slug, 403)):
        change = {"name": "y", "project": project}
        address = f"{API}/job-views/{made['id']}"
        assert viewer.patch(address, change, content_type="application/json").status_code == status
    assert [view["name"] for view in viewer.get(f"{API}/job-views").json()["items"]] == ["x"]
