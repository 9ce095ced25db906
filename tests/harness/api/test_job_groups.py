"""Jobs by groups: mean, spread and best of a figure, of all that the filters or a view let through."""

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


@pytest.fixture
def jobs(job_make: Any) -> dict[str, Job]:
    """Three jobs of one family, two of which differ in the seed alone."""
    found = {}
    for name, seed, best, run_s in (("a", 1, 0.8, 10.0), ("b", 2, 0.9, 20.0), ("c", 2, None, 0.0)):
        job = found[name] = job_make(name=name, training={"seed": seed})
        Job.objects.filter(pk=job.pk).update(
            state="succeeded", metric_name="accuracy", metric_best=best, run_s=run_s, tags=[name]
        )
    return found


def test_groups_have_mean_spread_and_best(owner: Any, jobs: dict[str, Job]) -> None:
    body = owner.get(f"{API}/job-groups?by=model&of=best").json()
    assert (body["by"], body["of"], body["total"]) == ("family", "metric_best", 1)
    group = body["items"][0]
    assert (group["value"], group["metric"], group["jobs"], group["n"]) == (jobs["a"].family, "accuracy", 3, 2)
    assert group["mean"] == pytest.approx(0.85) and group["sd"] == pytest.approx(0.0707, rel=1e-3)
    assert group["best"] == 0.9 and group["best_job"] == {"id": jobs["b"].pk, "name": "b"}
    seeds = owner.get(f"{API}/job-groups?by=seed&of=time&page_size=1&page=2").json()
    assert (seeds["total"], seeds["pages"]) == (2, 2) and seeds["items"][0]["value"] == 2
    assert seeds["items"][0]["sd"] is None and seeds["items"][0]["metric"] == ""


def test_mean_and_best_are_of_jobs_that_succeeded_alone(owner: Any, jobs: dict[str, Job]) -> None:
    for name, state in (("c", "failed"), ("b", "cancelled")):
        Job.objects.filter(pk=jobs[name].pk).update(state=state, run_s=0.5, metric_best=0.99)
    for figure, best in (("time", 10.0), ("best", 0.8)):
        group = owner.get(f"{API}/job-groups?by=model&of={figure}").json()["items"][0]
        assert (group["jobs"], group["n"], group["mean"], group["best"]) == (3, 1, best, best)
        assert group["best_job"]["name"] == "a", "what ended before it had trained is no example"


def test_groups_are_of_any_field_of_the_spec(owner: Any, jobs: dict[str, Job]) -> None:
    body = owner.get(f"{API}/job-groups?by=spec:model.family").json()
    family = jobs["a"].resolved["spec"]["model"]["family"]
    assert (body["by"], [item["value"] for item in body["items"]]) == ("spec:model.family", [family])
    features = owner.get(f"{API}/job-groups?by=spec:data.features").json()["items"]
    assert [item["value"] for item in features] == [jobs["a"].resolved["spec"]["data"]["features"]]


def test_groups_are_those_of_the_filters_and_of_a_view(owner: Any, jobs: dict[str, Job]) -> None:
    view = {"name": "x", "query": "tag=a&group=tags&of=run_s"}
    owner.post(f"{API}/job-views", view, content_type="application/json")
    told = owner.get(f"{API}/job-groups?view=x").json()
    assert (told["by"], told["of"]) == ("tags", "run_s") and [item["value"] for item in told["items"]] == ["a"]
    assert [item["value"] for item in owner.get(f"{API}/job-groups?by=tag&query=b").json()["items"]] == ["b"]
    assert owner.get(f"{API}/job-groups").json()["by"] == "family"


def test_jobs_and_groups_are_of_one_metric_and_target(owner: Any, jobs: dict[str, Job]) -> None:
    target = jobs["a"].resolved["spec"]["data"]["target"]
    Job.objects.filter(pk=jobs["b"].pk).update(metric_name="macro_f1")
    other = {**jobs["c"].resolved["spec"], "data": {**jobs["c"].resolved["spec"]["data"], "target": "other & one"}}
    Job.objects.filter(pk=jobs["c"].pk).update(resolved={**jobs["c"].resolved, "spec": other})
    for query, names in (
        ({"metric": "accuracy"}, {"a", "c"}),
        ({"metric": "accuracy", "target": target}, {"a"}),
        ({"metric": "", "target": "other & one"}, {"c"}),
        ({"metric": "rmse"}, set()),
    ):
        assert {item["name"] for item in owner.get(f"{API}/jobs", query).json()["items"]} == names, query
        groups = owner.get(f"{API}/job-groups", {"by": "tag", **query}).json()["items"]
        assert {item["value"] for item in groups} == names, query


def test_a_metric_asked_for_goes_before_that_of_a_view(owner: Any, jobs: dict[str, Job]) -> None:
    Job.objects.filter(pk=jobs["b"].pk).update(metric_name="macro_f1")
    owner.post(f"{API}/job-views", {"name": "x", "query": "metric=macro_f1"}, content_type="application/json")
    for query, names in (({}, {"b"}), ({"metric": "accuracy"}, {"a", "c"}), ({"metric": ""}, {"a", "b", "c"})):
        items = owner.get(f"{API}/jobs", {"view": "x", **query}).json()["items"]
        assert {item["name"] for item in items} == names, query


def test_what_nothing_can_be_grouped_by_is_refused_with_what_can(owner: Any, jobs: dict[str, Job]) -> None:
    for wrong, words in (("by=password", "family"), ("by=family&of=notes", "run_s"), ("by=schedule", "spec:")):
        answer = owner.get(f"{API}/job-groups?{wrong}")
        assert answer.status_code == 422 and words in answer.json()["error"]["hint"], wrong


def test_jobs_of_others_are_in_no_group(people: SimpleNamespace, jobs: dict[str, Job]) -> None:
    assert client_of(token_text(people.outsider, "write")).get(f"{API}/job-groups").json()["items"] == []
