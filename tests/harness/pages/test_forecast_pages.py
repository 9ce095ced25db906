"""Forecasts on the pages: fields of the form, one click to the next values, the answer as a picture, the back-test."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from codegen.profile.time_series import TimeSeries
from codegen.profile.types import ColumnProfile, ColumnType, DataKind, DatasetProfile
from harness.datasets.models import Dataset
from harness.jobs.models import Job, Prediction
from harness.jobs.predictions import FROM_END
from harness.pages.prediction_view import forecast_chart
from harness.pages.spec_fields import spec_groups
from harness.pages.views import predict

SHAPE = {"target": "sold", "numeric": ["sold: last value"], "categorical": []}
COLUMNS = ["shop", "day", "steps ahead", "forecast", "low", "high"]
BACK_TEST = {
    "id": "back_test", "title": "Back-test", "kind": "back_test", "note": "",
    "columns": ["series", "time", "true", "forecast", "low", "high", "steps ahead"],
    "rows": [["north", "2021-01-01 00:00:00", 1.0, 1.1, 0.5, 1.5, 1], ["south", "2021-01-01 00:00:00", 2, 2, 1, 3, 1]],
}  # fmt: skip


def column(name: str, kind: ColumnType) -> ColumnProfile:
    return ColumnProfile(name=name, type=kind, guessed_type=kind, reason="", missing=0, unique=9)


def profile(*columns: ColumnProfile, by: str = "") -> DatasetProfile:
    series = TimeSeries(time="day", by=by, step_s=86400.0, mean_step_s=86400.0, rows=90)
    return DatasetProfile(kind=DataKind.TABLE, rows=90, columns=columns, series=(series,))


def forecast_fields(found: DatasetProfile) -> dict[str, list[str]]:
    """Fields of forecasts in the form, and what each lets choose from."""
    names = ("data.time", "data.series", "data.horizon", "data.history")
    fields = [field for group in spec_groups(found) for field in group.fields if field.path in names]
    return {field.path: [value for value, _ in field.choices] for field in fields}


def test_the_form_has_fields_of_forecasts_where_the_data_has_dates() -> None:
    day, sold, shop = (
        column("day", ColumnType.DATE), column("sold", ColumnType.NUMERIC), column("shop", ColumnType.CATEGORY)
    )  # fmt: skip
    whole_profile = profile(day, sold, shop, by="shop")
    whole = forecast_fields(whole_profile)
    assert whole == {"data.time": ["day"], "data.series": ["shop"], "data.horizon": [], "data.history": []}
    twice = replace(whole_profile, series=(*whole_profile.series, replace(whole_profile.series[0], time="week")))
    assert forecast_fields(twice)["data.series"] == ["shop"], "two columns of dates tell the same series apart"
    assert "data.series" not in forecast_fields(profile(day, sold))
    assert forecast_fields(profile(sold, shop)) == {}
    for found, offered in ((profile(day, sold), True), (profile(sold, shop), False)):
        (task,) = [field for group in spec_groups(found) for field in group.fields if field.path == "task"]
        assert (("forecast", "Table: forecast a number") in task.choices) is offered


def test_columns_that_may_be_known_ahead_can_be_ticked() -> None:
    day, sold, shop, price = (
        column("day", ColumnType.DATE), column("sold", ColumnType.NUMERIC), column("shop", ColumnType.CATEGORY),
        column("price", ColumnType.NUMERIC),
    )  # fmt: skip
    found = replace(profile(day, sold, shop, price, by="shop"), target="sold")
    (field,) = [field for group in spec_groups(found) for field in group.fields if field.path == "data.known"]
    told = "the guessed target, too: another one may be chosen"
    assert (field.kind, field.columns) == ("columns", (("sold", "numeric"), ("price", "numeric"))), told
    alone = replace(profile(day, sold), target="sold")
    assert not [field for group in spec_groups(alone) for field in group.fields if field.path == "data.known"]


@pytest.fixture
def forecast(world: SimpleNamespace) -> Job:
    job: Job = world.jobs["succeeded"]
    Job.objects.filter(pk=job.pk).update(task="forecast", resolved={"spec": {"shape": SHAPE}})
    return job


def test_one_click_asks_for_the_next_values(forecast: Job, owner: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def create(**given: Any) -> Prediction:
        asked.append(given)
        return Prediction(id="noanswer0001", job=given["job"])

    monkeypatch.setattr(predict, "prediction_create", create)
    page = owner.get(reverse("job_predict", args=[forecast.pk])).content.decode()
    assert "Forecast from the end of the data" in page and "From newer rows" in page and 'id="ft"' not in page
    assert f"client.predict(&quot;{forecast.pk}&quot;)" in page and "from_end" in page
    answer = owner.post(reverse("job_predict", args=[forecast.pk]), {"from_end": "1", "checkpoint": ""})
    assert answer.status_code == 302
    assert [(given["input_name"], given["data"]) for given in asked] == [(FROM_END, b"")]


def test_rows_of_the_moments_to_come_are_asked_for_where_columns_are_known_ahead(forecast: Job, owner: Client) -> None:
    address = reverse("job_predict", args=[forecast.pk])
    assert "rows of the moments to come" not in owner.get(address).content.decode()
    resolved = {"spec": {"shape": SHAPE, "data": {"known": ["price", "offer"]}}}
    Job.objects.filter(pk=forecast.pk).update(resolved=resolved)
    page = " ".join(owner.get(address).content.decode().split())
    assert "rows of the moments to come with price, offer and an empty target" in page
    assert "rows of the moments to come need only price, offer and" in page


def test_the_answer_is_drawn_behind_the_values_that_it_goes_on_from(
    forecast: Job, world: SimpleNamespace, owner: Client
) -> None:
    Prediction.objects.filter(pk=world.prediction.pk).update(state="done", checkpoint="", rows=2, input_name=FROM_END)
    folder = settings.STORE.job(forecast.pk).prediction(world.prediction.pk)
    folder.mkdir(parents=True, exist_ok=True)
    rows = [["north", "2021-01-03", 1, 5.5, 4.0, 7.0], ["south", "2021-01-03", 1, 9.0, 8.0, 10.0]]
    history = {"columns": ["shop", "day", "sold"], "rows": [["north", "2021-01-02", 5.0], ["south", "2021-01-02", 9.5]]}
    (folder / "output.json").write_text(json.dumps({"columns": COLUMNS, "rows": rows, "history": history}))
    page = owner.get(reverse("prediction_page", args=[forecast.pk, world.prediction.pk]))
    text = page.content.decode()
    assert 'data-mount="chart"' in text and 'data-chart-mode="south"' in text and "end of the data" in text
    drawn = page.context["chart"]["data"]
    assert drawn["columns"] == ["series", "time", "true", "forecast", "low", "high"]
    assert drawn["rows"][0] == ["north", "2021-01-02", 5.0, None, None, None]
    assert drawn["rows"][2] == ["north", "2021-01-03", None, 5.5, 4.0, 7.0]


@pytest.mark.parametrize("history", [None, "odd", {"rows": 3}, {"rows": [["2021-01-02"], 5]}])
def test_a_program_may_write_anything_in_the_place_of_a_history(history: Any) -> None:
    rows: list[list[Any]] = [["2021-01-03", 1, 5.5]]
    output = {"columns": ["day", "steps ahead", "forecast"], "rows": rows, "history": history}
    chart = forecast_chart(output, output["columns"], rows)
    assert chart is None or chart["data"]["rows"] == []


def test_the_picture_says_of_how_many_series_it_shows_the_first() -> None:
    rows: list[list[Any]] = [[name, "2021-01-03", 1, 5.5, 4.0, 7.0] for name in ("north", "south", "west")]
    ends = [["north", "2021-01-02", 5.0], ["south", "2021-01-02", 9.5]]
    chart = forecast_chart({"history": {"rows": ends}}, COLUMNS, rows)
    assert chart and chart["note"] == "Drawn are the first 2 of 3 series; the table has all."
    whole = forecast_chart({"history": {"rows": ends}}, COLUMNS, rows[:2])
    assert whole and whole["note"] == ""


def test_a_table_that_is_forecast_unasked_looks_like_one_on_every_page(world: SimpleNamespace, owner: Client) -> None:
    day, sold = column("day", ColumnType.DATE), column("sold", ColumnType.NUMERIC)
    found = replace(profile(day, sold), target="sold", task="tabular_regression", task_reason="a number")
    Dataset.objects.filter(pk=world.wine.pk).update(profile=found.to_dict())
    for name in ("dataset_page", "job_new_spec"):
        page = owner.get(reverse(name, args=[world.wine.pk])).content.decode()
        assert "Table: forecast a number" in page and "there is nothing else to learn from" in page, name
    text = owner.get(f"/api/v1/spec/template?dataset={world.wine.pk}").content.decode()
    assert "task: forecast" in text, "what the template fixes is what auto is"
    listed = owner.get("/api/v1/datasets").json()["items"]
    assert {item["task"] for item in listed if item["id"] == world.wine.pk} == {"forecast"}
    assert owner.get(f"/api/v1/datasets/{world.wine.pk}").json()["task"] == "forecast"


@pytest.mark.parametrize("body", [{}, {"from_end": True, "records": [{"day": "2021-01-03"}]}])
def test_rows_or_the_end_of_the_data_are_asked_for_in_plain_words(
    forecast: Job, owner: Client, body: dict[str, Any]
) -> None:
    answer = owner.post(f"/api/v1/jobs/{forecast.pk}/predictions", json.dumps(body), "application/json")
    error = answer.json()["error"]
    assert (answer.status_code, error["message"]) == (422, "records: give one record at least, or from_end, not both")
    assert "{from_end: true}" in error["hint"]


def test_results_draw_the_back_test_and_let_choose_the_series(forecast: Job, owner: Client) -> None:
    paths = settings.STORE.job(forecast.pk)
    (paths.results / "results.json").write_text(json.dumps({"task": "forecast", "charts": [BACK_TEST]}))
    page = owner.get(reverse("job_tab", args=[forecast.pk, "results"]))
    assert page.status_code == 200
    (chart,) = [chart for chart in page.context["charts"] if chart["id"] == "back_test"]
    assert chart["drawn"] and chart["modes"] == ["north", "south"] and chart["wide"]
    assert 'data-chart-mode="north"' in page.content.decode()
