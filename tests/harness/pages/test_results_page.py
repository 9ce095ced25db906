"""What the results of a job say: how rows were split, notes, ranges, charts of many lines, samples."""

from __future__ import annotations

import errno
import json
import re
from html import unescape
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from codegen.spec import Task
from harness.datasets.models import Dataset
from harness.jobs.models import Job
from harness.pages.prediction_view import prediction_context
from harness.pages.results_view import INTERVALS_DRAWN


@pytest.fixture
def owner(world: SimpleNamespace, client: Client) -> Client:
    client.force_login(world.owner)
    return client


def page_with(world: SimpleNamespace, owner: Client, **told: Any) -> str:
    """The page of a run whose results have no charts, but this."""
    job = world.jobs["succeeded"]
    path = settings.STORE.job(job.pk).root / "work" / "results" / "results.json"
    path.write_text(json.dumps({"charts": [], "metrics": {}, **told}))
    return owner.get(reverse("job_tab", args=[job.pk, "results"])).content.decode()


@pytest.mark.parametrize(("told", "shown"), [("All rows of one 'x' & more.", True), ({"a": 1}, False), ("", False)])
def test_results_tell_how_rows_were_split(world: SimpleNamespace, owner: Client, told: Any, shown: bool) -> None:
    page = page_with(world, owner, split=told)
    assert ("How pictures were split" in page) is shown
    assert ("All rows of one &#x27;x&#x27; &amp; more." in page) is shown


def test_results_that_a_disk_does_not_give_are_told_beside_the_other_tabs(
    world: SimpleNamespace, owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.store.read_beneath", Mock(side_effect=OSError(errno.EIO, "Input/output error")))
    answer = owner.get(reverse("job_tab", args=[world.jobs["succeeded"].pk, "results"]))
    page = answer.content.decode()
    assert answer.status_code == 200 and "could not be read: Input/output error" in page
    assert reverse("job_tab", args=[world.jobs["succeeded"].pk, "logs"]) in page


@pytest.mark.parametrize(("metric", "sort"), [("accuracy", "-test"), ("r2", "-test"), ("rmse", "test")])
def test_other_jobs_on_the_same_data_are_listed_with_the_best_first(
    world: SimpleNamespace, owner: Client, metric: str, sort: str
) -> None:
    job = world.jobs["succeeded"]
    Job.objects.filter(pk=job.pk).update(metric_name=metric)
    assert job.task == "image_classification"
    link = f'"/jobs/?dataset={job.dataset_id}&amp;task=image_classification&amp;metric={metric}&amp;sort={sort}"'
    assert link in page_with(world, owner)


def test_jobs_on_the_same_data_that_predict_or_measure_something_else_are_not_among_the_others(
    world: SimpleNamespace, owner: Client
) -> None:
    job, other = world.jobs["succeeded"], world.jobs["failed"]
    mine = {**job.resolved["spec"], "data": {**job.resolved["spec"]["data"], "target": "a & b"}}
    task = Task.TABULAR_REGRESSION
    Job.objects.filter(pk=job.pk).update(task=task, metric_name="rmse", resolved={**job.resolved, "spec": mine})

    def others(metric: str, target: str, task: str = task) -> str:
        spec = {**mine, "data": {**mine["data"], "target": target}}
        like = {"task": task, "dataset": job.dataset, "deleted_at": None}
        Job.objects.filter(pk=other.pk).update(metric_name=metric, resolved={**job.resolved, "spec": spec}, **like)
        link = re.search(r'href="([^"]+)"\s*>Others on this data', page_with(world, owner))
        assert link
        return owner.get(unescape(link[1])).content.decode()

    shown = others("rmse", "a & b")
    assert all(reverse("job_page", args=[one.pk]) in shown for one in (job, other))
    assert "Target" in shown and "a &amp; b" in shown
    for unlike in (("mae", "a & b"), ("rmse", "a"), ("rmse", "a & b", Task.FORECAST)):
        shown = others(*unlike)
        assert reverse("job_page", args=[job.pk]) in shown and reverse("job_page", args=[other.pk]) not in shown


@pytest.mark.parametrize(("notes", "shown"), [(["It is <sure>."], True), ([], False), ("odd", False), ([3], False)])
def test_results_tell_what_the_run_noted_of_its_model(
    world: SimpleNamespace, owner: Client, notes: Any, shown: bool
) -> None:
    page = page_with(world, owner, notes=notes)
    assert ("Notes on the model" in page) is shown
    assert ("It is &lt;sure&gt;." in page) is shown


@pytest.mark.parametrize(
    ("ranges", "shown"), [({"said": "90 % of <9> rows."}, True), ({"said": 3}, False), ("odd", False), ({}, False)]
)
def test_results_tell_of_the_ranges_of_predictions(
    world: SimpleNamespace, owner: Client, ranges: Any, shown: bool
) -> None:
    page = page_with(world, owner, ranges=ranges)
    assert ("Ranges of predictions" in page) is shown
    assert ("90\u00a0% of &lt;9&gt; rows." in page) is shown


def test_of_many_groups_the_first_are_drawn_and_all_are_in_the_table(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["succeeded"]
    path = settings.STORE.job(job.pk).root / "work" / "results" / "results.json"
    rows = [["city", f"c{at}", 0.5 + at / 100, 0.4, 0.7, 40] for at in range(INTERVALS_DRAWN + 3)]
    names = ["feature", "values", "accuracy", "low", "high", "rows"]
    charts = [
        {
            "id": "a",
            "title": "By group",
            "kind": "intervals",
            "columns": names,
            "rows": rows,
            "note": "N.",
            "overall": "x",
        },
        {"id": "b", "title": "No ends", "kind": "intervals", "columns": ["input", "value"], "rows": [["age", 1]]},
        {"id": "c", "title": "No value", "kind": "intervals", "columns": ["low", "high"], "rows": [[0, 1]]},
    ]
    path.write_text(json.dumps({"charts": charts, "metrics": {}}))
    answer = owner.get(reverse("job_tab", args=[job.pk, "results"]))
    many, *odd = answer.context["charts"]
    assert many["drawn"] and len(many["data"]["rows"]) == INTERVALS_DRAWN and len(many["rows"]) == len(rows)
    assert (
        many["note"] == f"N. Drawn are the first {INTERVALS_DRAWN} of {len(rows)}." and many["data"]["overall"] is None
    )
    assert [chart["drawn"] for chart in odd[:2]] == [False, False]


@pytest.mark.parametrize(("note", "shown"), [("No group has rows enough to tell.", False), ("", True)])
def test_a_chart_without_rows_says_that_nothing_is_there_unless_its_note_says_why(
    world: SimpleNamespace, owner: Client, note: str, shown: bool
) -> None:
    chart = {"id": "a", "title": "By group", "kind": "intervals", "columns": ["feature"], "rows": [], "note": note}
    page = page_with(world, owner, charts=[chart])
    assert note in page and ("Nothing to show." in page) is shown


def test_results_begin_with_links_to_their_parts_and_call_pictures_so(world: SimpleNamespace, owner: Client) -> None:
    page = owner.get(reverse("job_tab", args=[world.jobs["succeeded"].pk, "results"])).content.decode()
    links = re.findall('<a href="#([^"]+)">', page[page.index("Parts of the results") :].partition("</nav>")[0])
    assert len(links) > 3 and all(f'id="{link}"' in page for link in links)
    assert "test pictures" in page and "pictures/s" in page and "test rows" not in page


def test_the_worst_samples_are_written_so_that_they_can_be_found_in_the_data(
    world: SimpleNamespace, owner: Client
) -> None:
    job = world.jobs["succeeded"]
    path = settings.STORE.job(job.pk).root / "work" / "results" / "results.json"
    names = ["row", "name", "true", "predicted", "city"]
    rows = [[0, "row 1", 272712426.0, 1694233861.537123, "Bonn"], [1, "row 2", 1729454372.0, 90.25, None], [2, "row 3"]]
    charts = [{"id": "worst_samples", "title": "Worst", "kind": "samples", "columns": names, "rows": rows}]
    path.write_text(json.dumps({"charts": charts, "metrics": {}}))
    answer = owner.get(reverse("job_tab", args=[job.pk, "results"]))
    assert answer.context["sample_charts"][0]["rows"] == [
        ["row 1", "272,712,426", "1,694,233,861.54", "Bonn"],
        ["row 2", "1,729,454,372", "90.25", None],
        ["row 3", None, None, None],
    ]
    assert "1,729,454,372" in answer.content.decode()


@pytest.mark.parametrize("kind", ["tabular_regression", "image_classification"])
def test_rows_of_a_persons_own_program_that_lack_something_break_no_page(
    world: SimpleNamespace, owner: Client, kind: str
) -> None:
    Job.objects.filter(pk=world.jobs["succeeded"].pk).update(task=kind)
    worst = {"id": "worst_samples", "kind": "samples", "columns": ["error", "name"], "rows": [[2.5], [1e200, "row 7"]]}
    odd = {"id": "odd", "kind": "samples", "columns": ["row", "name"], "rows": [[True, "picture"], []]}
    page = page_with(
        world, owner, charts=[worst, odd], metrics={"test": {"rmse": 1e-200, "mae": 1.0, "r2": 0.5}}, rows={"test": 200}
    )
    assert "row 7" in page and "picture" in page and "out of the range" not in page


def test_a_long_text_of_a_sample_is_folded_and_a_short_one_stays(world: SimpleNamespace, owner: Client) -> None:
    long = "so <good> " * 300
    Job.objects.filter(pk=world.jobs["succeeded"].pk).update(task="tabular_classification")
    chart = {"id": "worst_samples", "title": "Worst", "kind": "samples", "columns": ["row", "name", "review"]}
    page = page_with(world, owner, charts=[chart | {"rows": [[0, "row 1", long], [1, "row 2", "short & good"]]}])
    assert page.count('<details class="fold">') == 1 and page.count("so &lt;good&gt; " * 300) == 1
    assert "short &amp; good" in page


def test_only_the_models_own_confidence_of_a_sample_is_a_share(world: SimpleNamespace, owner: Client) -> None:
    def shown(columns: list[str], row: list[Any]) -> str:
        chart = {"id": "worst_samples", "title": "Worst", "kind": "samples"}
        names = ["row", "name", "true", "predicted", *columns]
        return page_with(world, owner, charts=[{**chart, "columns": names, "rows": [[6, "row 7", *row]]}])

    number = shown(["error", "confidence"], [2.5, 3.0, 0.5, 37.5])
    assert "37.5" in number and "3750" not in number
    classes = shown(["confidence", "confidence"], ["a", "b", 0.905, 42.5])
    assert "90.5 %" in classes and "42.5" in classes and "4250" not in classes


def test_samples_show_plain_dates_without_a_time_of_day(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["succeeded"]
    profile = job.dataset.profile
    date = {**world.wine.profile["columns"][0], "name": "day", "type": "date"}
    Dataset.objects.filter(pk=job.dataset_id).update(profile={**profile, "columns": [date]})
    Job.objects.filter(pk=job.pk).update(task="tabular_classification")
    rows = [[0, "row 1", "2024-03-01 00:00:00"], [1, "row 2", "2024-03-02 14:05:00"], [2, "row 3"], [3]]
    chart = {"id": "worst_samples", "title": "Worst", "kind": "samples", "columns": ["row", "name", "day"]}
    page = page_with(world, owner, charts=[chart | {"rows": rows}])
    assert "2024-03-01" in page and "00:00:00" not in page and "2024-03-02 14:05:00" in page
    Job.objects.filter(pk=job.pk).update(task="forecast", resolved={"spec": {"data": {"time": "day"}}})
    columns = ["row", "name", "time", "steps ahead"]
    page = page_with(world, owner, charts=[chart | {"columns": columns, "rows": [row[:3] for row in rows]}])
    assert "2024-03-01" in page and "00:00:00" not in page and "2024-03-02 14:05:00" in page


def test_an_answer_without_its_only_cell_is_shown_as_one() -> None:
    shown = prediction_context({"columns": ["name"], "rows": [[]]}, "bird.png")
    assert [[text for text, _ in row] for row in shown["rows"]] == [["–"]]  # noqa: RUF001
