"""Jobs by groups: how many, mean, spread and best, of all that the filter lets through; a group opens to its jobs."""

from __future__ import annotations

import csv
import html
import io
import re
from statistics import fmean, stdev
from types import SimpleNamespace
from urllib.parse import quote

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from harness.jobs.models import DeviceUse, Job
from tests.factory_runs import runs_make


@pytest.fixture
def runs(world: SimpleNamespace) -> list[Job]:
    return runs_make(world.jobs["succeeded"], 40, points=False)


def table(client: Client, query: str) -> dict[tuple[str, str], dict[str, str]]:
    """Lines of the CSV by group and metric."""
    answer = client.get(f"/jobs/groups.csv?q=run+0&{query}")
    text = b"".join(answer.streaming_content).decode() if answer.streaming else answer.content.decode()
    return {(row["group"], row["metric"]): row for row in csv.DictReader(io.StringIO(text))}


def test_a_group_has_n_mean_spread_and_best_of_all_its_jobs_whatever_page_they_are_on(
    runs: list[Job], owner: Client
) -> None:
    found = table(owner, "group=spec:training.seed")[("0", "accuracy")]
    mine = [job for job in runs if job.resolved["spec"]["training"]["seed"] == 0 and job.metric_name == "accuracy"]
    scores = [job.metric_best for job in mine if job.metric_best is not None]
    assert (int(found["jobs"]), int(found["n"])) == (len(mine), len(scores)) and len(mine) > len(scores)
    assert float(found["mean"]) == pytest.approx(fmean(scores)) and float(found["sd"]) == pytest.approx(stdev(scores))
    assert float(found["best"]) == max(scores)


def test_scores_of_different_metrics_are_never_put_together(runs: list[Job], owner: Client) -> None:
    found = table(owner, "group=dataset")
    name = runs[0].dataset.name
    rmse = [job.metric_best for job in runs if job.metric_name == "rmse"]
    assert set(found) == {(name, "accuracy"), (name, "rmse")}
    assert float(found[(name, "rmse")]["best"]) == min(rmse)
    assert set(table(owner, "group=dataset&of=run_s")) == {(name, "")}


def test_a_job_counts_in_the_group_of_each_of_its_tags(runs: list[Job], owner: Client) -> None:
    Job.objects.filter(pk=runs[0].pk).update(tags=[])
    found = table(owner, "group=tags&of=run_s")
    assert int(found[("sweep", "")]["jobs"]) == 39 and int(found[("no tag", "")]["jobs"]) == 1
    assert int(found[("seed:1", "")]["jobs"]) == 13


def test_what_was_never_told_or_is_not_finite_has_no_part_in_a_mean(runs: list[Job], owner: Client) -> None:
    found = table(owner, "group=state&of=metric:val/loss")
    assert (found[("Failed", "")]["jobs"], found[("Failed", "")]["n"], found[("Failed", "")]["mean"]) == ("4", "0", "")
    assert list(found)[-1][0] != "Succeeded" and float(found[("Succeeded", "")]["best"]) > 0
    assert table(owner, "group=state&of=run_s")[("Draft", "")]["n"] == "0"


def test_values_whose_sum_is_beyond_all_floats_take_no_table_away(runs: list[Job], owner: Client) -> None:
    Job.objects.filter(name__startswith="run", state="succeeded").update(last_values={"val/loss": 1.7e308})
    Job.objects.filter(pk=next(job for job in runs if job.state == "succeeded").pk).update(
        last_values={"val/loss": -1.7e308}
    )
    found = table(owner, "group=state&of=metric:val/loss")[("Succeeded", "")]
    assert 1e308 < float(found["mean"]) < 1.7e308 and float(found["best"]) == -1.7e308
    assert owner.get("/jobs/?group=state&of=metric:val/loss").status_code == 200


def test_a_group_opens_to_its_jobs_page_by_page(runs: list[Job], owner: Client) -> None:
    page = owner.get("/jobs/?q=run+0&group=spec:training.optimizer&of=run_s").content.decode()
    assert 'name="job"' not in page and "CSV of the groups" in page
    link = next(html.unescape(found) for found in re.findall(r'href="(\?[^"]*open=[^"]*)"', page) if "adamw" in found)
    opened = owner.get(f"/jobs/{link}").content.decode()
    mine = sum(job.resolved["spec"]["training"]["optimizer"] == "adamw" for job in runs)
    assert opened.count('name="job"') == mine == 20 and "Jobs of optimizer adamw" in opened
    everything = quote('[null, ""]')
    Job.objects.filter(name__startswith="run").update(tags=[])
    second = owner.get(f"/jobs/?q=run+0&group=tags&of=run_s&open={everything}&page=2").content.decode()
    assert second.count('name="job"') == 15 and "40 in all · page 2 of 2" in second


def test_any_number_of_groups_takes_the_same_queries(runs: list[Job], owner: Client) -> None:
    few_jobs = "/jobs/?q=run+00&group=spec:training.learning_rate"
    owner.get(few_jobs)
    with CaptureQueriesContext(connection) as few:
        owner.get(few_jobs)
    with CaptureQueriesContext(connection) as many:
        owner.get("/jobs/?q=run+0&group=spec:training.learning_rate")
    assert len(many) == len(few)


def test_a_group_is_found_by_what_people_call_it(runs: list[Job], owner: Client) -> None:
    for word, key in (("model", "family"), ("tag", "tags"), ("seed", "spec:training.seed"), ("mode", "spec:mode")):
        assert table(owner, f"group={word}&of=time") == table(owner, f"group={key}&of=run_s") != {}
    page = owner.get("/jobs/?q=run+0&group=seed&of=val/loss").content.decode()
    assert 'value="spec:training.seed" selected' in page and 'value="metric:val/loss" selected' in page


def test_an_unknown_group_or_figure_is_refused_in_words(world: SimpleNamespace, owner: Client) -> None:
    for query, words in (("group=password", "cannot be grouped"), ("group=dataset&of=notes", "no mean of")):
        answer = owner.get(f"/jobs/?{query}")
        assert answer.status_code == 422 and words in answer.content.decode()
        assert 'href="/jobs/"' in answer.content.decode().partition("<main")[2], "and the way back to the list"
    assert owner.get("/jobs/groups.csv").status_code == 404


def test_jobs_of_others_are_in_no_group(world: SimpleNamespace, runs: list[Job], client: Client) -> None:
    client.force_login(world.outsider)
    assert table(client, "group=owner") == {}


def use_of(job: Job, energy_j: float, basis: str) -> None:
    now = timezone.now()
    DeviceUse.objects.create(
        job=job, node_name="n1", device_kind="cpu", device_index=0, token=1, started_at=now, ended_at=now,
        energy_j=energy_j, energy_basis=basis,
    )  # fmt: skip


def test_the_energy_of_a_group_says_what_it_rests_on_and_no_other_figure_does(runs: list[Job], owner: Client) -> None:
    for number, basis in enumerate(["measured", "measured", "assumed"]):
        use_of(runs[number], 10.0 * (1 + number), basis)
    (found,) = table(owner, "group=dataset&of=energy_j").values()
    assert (found["n"], float(found["mean"]), found["basis"]) == ("3", 20.0, "measured, assumed")
    (found,) = table(owner, "group=dataset&of=run_s").values()
    assert found["basis"] == ""
    page = owner.get("/jobs/?q=run+0&group=dataset&of=energy_j").content.decode()
    assert '<td data-label="Basis">measured, assumed</td>' in page
    assert 'data-label="Basis"' not in owner.get("/jobs/?q=run+0&group=dataset&of=run_s").content.decode()
    (group,) = owner.get("/api/v1/job-groups?query=run+0&by=dataset&of=energy").json()["items"]
    assert group["basis"] == "measured, assumed"
