"""The comparison of jobs: what it draws them by, and what it does with those that told nothing, or cannot be seen."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from harness.jobs.comparing import COMPARE_MAX
from harness.jobs.models import DeviceUse, Job, MetricPoint
from tests.factory_runs import runs_make


@pytest.fixture
def runs(world: SimpleNamespace) -> list[Job]:
    return runs_make(world.jobs["succeeded"], 20, points=False)


def address(jobs: list[Any], more: str = "") -> str:
    return "/jobs/compare/?" + "&".join(f"job={job.pk}" for job in jobs) + more


def drawn(client: Client, jobs: list[Any]) -> dict[str, dict[str, Any]]:
    """Fields by key, as the charts get them."""
    page = client.get(address(jobs)).content.decode()
    found = re.search(r'<script id="compare-data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found
    return {field["key"]: field for field in json.loads(found[1])["fields"]}


def test_jobs_are_drawn_by_the_fields_in_which_they_differ_and_by_every_figure_they_told(
    runs: list[Job], owner: Client
) -> None:
    fields = drawn(owner, runs[:4])
    settings = [key for key, field in fields.items() if not field["is_figure"]]
    assert settings == ["training.learning_rate", "training.seed"]
    assert fields["training.learning_rate"]["values"] == [0.0001, 0.0001, 0.0001, 0.0003]
    assert (
        fields["best:accuracy"]["better"] == 1 and fields["last:val/loss"]["better"] == fields["run_s"]["better"] == -1
    )
    assert fields["last:val/loss"]["label"] == "Newest loss (validation)"


def test_metrics_of_other_names_are_never_drawn_on_one_axis(runs: list[Job], owner: Client) -> None:
    fields = drawn(owner, [runs[8], runs[9]])
    assert fields["best:accuracy"]["values"] == [runs[8].metric_best, None]
    assert fields["best:rmse"]["values"] == [None, runs[9].metric_best] and fields["best:rmse"]["better"] == -1
    assert fields["task"]["values"] == ["Pictures: predict a class", "Table: predict a number"]


def test_scores_on_other_rows_are_drawn_but_none_of_them_is_the_best(runs: list[Job], owner: Client) -> None:
    assert not drawn(owner, runs[:2])["best:accuracy"]["apart"]
    Job.objects.filter(pk=runs[1].pk).update(dataset_sha256="f" * 64)
    fields = drawn(owner, runs[:2])
    assert fields["best:accuracy"]["apart"] and fields["last:val/loss"]["apart"] and not fields["run_s"]["apart"]
    page = owner.get(address(runs[:2])).content.decode()
    assert "None is marked as the best" in page and "they differ in dataset." in page and ">best<" not in page


def test_a_value_that_is_not_finite_or_was_never_told_is_none(runs: list[Job], owner: Client) -> None:
    Job.objects.filter(pk=runs[0].pk).update(last_values={"val/loss": None, "val/odd": "text", "rank0/idle_share": 0.5})
    fields = drawn(owner, [runs[0], runs[1], runs[4], runs[6]])
    assert fields["last:val/loss"]["values"][::2] == [None, None]
    assert fields["best:accuracy"]["values"][2:] == [None, None]
    assert "last:val/odd" not in fields and not any("rank" in key for key in fields)


def test_a_field_with_words_among_its_numbers_is_a_category(runs: list[Job], owner: Client) -> None:
    spec = runs[1].resolved | {"spec": runs[1].resolved["spec"] | {"training": {"learning_rate": "auto", "ema": True}}}
    Job.objects.filter(pk=runs[1].pk).update(resolved=spec)
    fields = drawn(owner, runs[:2])
    rate = fields["training.learning_rate"]
    assert not rate["is_number"] and rate["values"] == ["0.0001", "auto"]
    assert fields["training.ema"]["values"][1] == "yes"


def test_any_number_of_jobs_takes_the_same_queries(runs: list[Job], owner: Client) -> None:
    owner.get(address(runs[:2]))
    with CaptureQueriesContext(connection) as few:
        owner.get(address(runs[:2]))
    with CaptureQueriesContext(connection) as many:
        owner.get(address(runs))
    assert len(many) == len(few)


def test_jobs_that_cannot_be_seen_are_left_out_and_that_is_said(
    world: SimpleNamespace, runs: list[Job], owner: Client, client: Client
) -> None:
    gone = SimpleNamespace(pk="nosuchjob000")
    page = owner.get(address([*runs[:2], gone])).content.decode()
    assert "1 of the jobs in this address is gone or not visible" in page and "run 001" in page
    client.force_login(world.outsider)
    assert client.get(address(runs[:2])).status_code == 404


def test_of_more_jobs_than_can_be_compared_an_address_shows_the_first(world: SimpleNamespace, owner: Client) -> None:
    jobs = runs_make(world.jobs["succeeded"], COMPARE_MAX + 3, points=False)
    page = " ".join(owner.get(address(jobs)).content.decode().split())
    assert page.count("data-run=") == COMPARE_MAX and "3 more were selected than can be compared at once" in page


def test_fields_that_are_alike_are_there_but_shown_only_when_asked_for(runs: list[Job], owner: Client) -> None:
    flat = re.sub(r"\s+", " ", owner.get(address(runs[:4])).content.decode())
    assert '<tr data-alike hidden> <th scope="row"><code>training.epochs' in flat
    assert '<tr > <th scope="row"><code>training.learning_rate' in flat
    assert "data-alike hidden" not in owner.get(address(runs[:4], "&fields=all")).content.decode()


def test_a_dataset_that_a_spec_leaves_open_is_that_of_its_job(world: SimpleNamespace) -> None:
    from harness.pages.compare_fields import compare_specs

    job = world.jobs["succeeded"]
    job.resolved = {"spec": {**job.resolved["spec"], "data": {**job.resolved["spec"]["data"], "dataset": "auto"}}}
    assert [spec["data"]["dataset"] for spec in compare_specs([job])] == [job.dataset.name]


def test_many_jobs_ask_for_fewer_points_of_each_curve(runs: list[Job], owner: Client) -> None:
    job = runs[0]
    MetricPoint.objects.bulk_create(
        MetricPoint(job=job, key="train/loss", step=step, epoch=1, time_s=step, value=step) for step in range(1000)
    )
    body = owner.get(f"/jobs/{job.pk}/curves/?points=400").json()
    assert len(body["curves"]["train/loss"]["step"]) <= 400 and body["curves"]["train/loss"]["reduced"]
    assert "samples" not in body and body["start_s"] == 0
    assert len(owner.get(f"/jobs/{job.pk}/curves/?points=0").json()["curves"]["train/loss"]["step"]) <= 100
    assert len(owner.get(f"/jobs/{job.pk}/curves/?points=1e9").json()["curves"]["train/loss"]["step"]) == 1000


def lines_of(client: Client, address: str) -> list[dict[str, Any]]:
    page = client.get(address).content.decode()
    found = re.search(r'<script id="compare-data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found
    return list(json.loads(found[1])["lines"])


def test_seeds_are_drawn_as_one_line_where_the_address_says_so(world: SimpleNamespace, owner: Client) -> None:
    runs = runs_make(world.jobs["succeeded"], 4)
    plain = owner.get(address(runs)).content.decode()
    assert "3 of these jobs differ only in the seed." in plain and "Draw their mean" in plain
    assert [line["jobs"] for line in lines_of(owner, address(runs))] == [[job.pk] for job in runs]
    mean, alone = lines_of(owner, address(runs, "&seeds=mean"))
    assert mean["name"] == "run 000 and 2 other seeds" and mean["jobs"] == [job.pk for job in runs[:3]]
    assert (alone["jobs"], alone["hue"]) == ([runs[3].pk], 3), "a job keeps its colour"
    curves = owner.get(f"{mean['curves']}?points=100").json()["curves"]
    assert len(curves["train/loss"]["low"]) == len(curves["train/loss"]["value"]) == 30
    text = b"".join(owner.get(f"{mean['csv']}?keys=val/loss").streaming_content).decode()
    assert text.count("\n") == 7 and "val/loss,5," in text


def test_nobody_sees_the_seeds_of_others(world: SimpleNamespace, client: Client) -> None:
    runs = runs_make(world.jobs["succeeded"], 3)
    client.force_login(world.outsider)
    ids = ",".join(job.pk for job in runs)
    for suffix in ("/curves/", ".csv"):
        assert client.get(f"/jobs/compare/seeds/{ids}{suffix}").status_code == 404


def test_the_energy_that_jobs_are_drawn_by_says_what_it_rests_on(runs: list[Job], owner: Client) -> None:
    now = timezone.now()
    for job, basis in zip(runs[:2], ("measured", "assumed"), strict=True):
        DeviceUse.objects.create(
            job=job, node_name="n1", device_kind="cpu", device_index=0, token=1, started_at=now, ended_at=now,
            energy_j=5.0, energy_basis=basis,
        )  # fmt: skip
    assert drawn(owner, runs[:2])["energy_j"]["label"] == "Energy (J), assumed or measured"
    assert drawn(owner, [runs[0], runs[2]])["energy_j"]["label"] == "Energy (J), measured"
