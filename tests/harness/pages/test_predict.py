"""Predictions on the pages: the form, what is typed into it, and the answer."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from codegen.profile.types import CLOCK_FULL, DECIMAL_COMMA, ColumnProfile, ColumnType, DataKind, DatasetProfile
from harness.jobs.models import Job, Prediction
from harness.pages.prediction_view import prediction_context, single_answer
from harness.pages.views import predict
from harness.pages.views.predict import input_fields


def test_one_row_is_read_as_an_answer_with_falling_shares() -> None:
    columns = ["row", "prediction", "confidence", "probability of a", "probability of b"]
    answer = single_answer(columns, [1, "b", 0.9, 0.1, 0.9])
    assert answer == {"prediction": "b", "ends": [], "shares": [("b", 0.9), ("a", 0.1)]}
    assert single_answer(["text"], ["x"]) is None


def test_a_prediction_stands_beside_its_probabilities_and_its_input() -> None:
    output = {
        "columns": ["row", "prediction", "confidence", "probability of a", "probability of b"],
        "rows": [[1, "b", 0.9, 0.1, 0.9], [2, "a", 0.75, 0.75, 0.25]],
        "inputs": {"columns": ["size", "note"], "rows": [["5.1", "small"], ["6"]]},
    }
    shown = prediction_context(output, "rows.csv")
    assert shown["groups"] == [("Answer", 3), ("Probability of", 2), ("Input", 2)]
    assert shown["heads"][3:] == [("a", True), ("b", True), ("size", True), ("note", False)]
    assert [text for text, _ in shown["rows"][0]] == ["1", "b", "90.0 %", "10.0 %", "90.0 %", "5.1", "small"]
    assert shown["rows"][1][-1] == ("–", False)  # noqa: RUF001
    assert shown["has_input"] and shown["single"] is None and shown["notes"] == []
    assert prediction_context({**output, "notes": ["'?' is none"]}, "rows.csv")["notes"] == ["'?' is none"]
    assert prediction_context({**output, "notes": "odd"}, "rows.csv")["notes"] == []
    many = {"columns": ["row", *(f"probability of {name}" for name in range(30))], "rows": [[1, *[0.0] * 30]]}
    assert prediction_context(many, "rows.csv")["classes_left_out"] == 10
    picture = {"columns": ["name", "prediction"], "rows": [["input.png", "cat"]], "inputs": "none"}
    assert prediction_context(picture, "mine.png")["rows"][0][0][0] == "mine.png"


def test_only_the_models_own_confidence_is_a_share_whatever_columns_of_the_data_are_called() -> None:
    inputs = {"columns": ["confidence", "probability of rain"], "rows": [[37.5, 80]]}
    classes = {"columns": ["row", "prediction", "confidence"], "rows": [[1, "a", 0.9]], "inputs": inputs}
    assert [text for text, _ in prediction_context(classes, "rows.csv")["rows"][0][2:]] == ["90.0 %", "37.5", "80"]
    number = {"columns": ["row", "prediction"], "rows": [[1, 42.5]]}
    assert prediction_context(number, "rows.csv", "confidence")["rows"][0][1][0] == "42.5"


def test_the_prediction_form_asks_for_every_column_that_the_model_takes() -> None:
    def column(name: str, kind: ColumnType, **more: Any) -> ColumnProfile:
        return ColumnProfile(name=name, type=kind, guessed_type=kind, reason="", missing=0, unique=9, **more)

    columns = (
        column("age", ColumnType.NUMERIC, mean=41.5, minimum=17.0, maximum=90.0),
        column("city", ColumnType.CATEGORY, top_values=(("Bern", 5), ("Lyon", 4))),
        column("when", ColumnType.DATE, examples=("2020-01-31 00:00:00", "2020-02-01 10:00:00")),
        column("note", ColumnType.TEXT, examples=("a long note",)),
    )
    profile = DatasetProfile(kind=DataKind.TABLE, rows=9, columns=columns)
    shape = {"numeric": ["age"], "categorical": ["city"], "dates": ["when"], "texts": ["note"]}
    fields = {field["name"]: field for field in input_fields(Job(resolved={"spec": {"shape": shape}}), profile)}
    typical = {name: field["typical"] for name, field in fields.items()}
    assert typical == {"age": "41.5", "city": "Bern", "when": "2020-01-31", "note": "a long note"}
    assert fields["city"]["choices"] == ["Bern", "Lyon"] and not fields["note"]["choices"]
    assert "2020-01-31" in fields["when"]["hint"]


def test_a_job_predicts_although_its_data_was_read_anew_since_and_cannot_be_used(
    world: SimpleNamespace, owner: Client
) -> None:
    job = world.jobs["succeeded"]
    problem = {"message": "No such target.", "hint": "Choose another."}
    type(job.dataset).objects.filter(pk=job.dataset_id).update(state="failed", profile=None, problem=problem)
    answer = owner.get(reverse("job_predict", args=[job.pk]))
    assert answer.status_code == 200 and "Pictures by file" in answer.content.decode()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Rows that a node was asked to predict for, from the form of a table of the columns below."""
    rows: list[dict[str, Any]] = []

    def column(name: str, spelling: str) -> ColumnProfile:
        kind = ColumnType.NUMERIC
        return ColumnProfile(
            name=name, type=kind, guessed_type=kind, reason="", missing=0, unique=9, mean=2.5, spelling=spelling
        )

    note = ColumnProfile(
        name="note", type=ColumnType.TEXT, guessed_type=ColumnType.TEXT, reason="", missing=0, unique=9,
        examples=("a <b> c",),
    )  # fmt: skip
    columns = (
        note,
        column("price", DECIMAL_COMMA),
        column("fee", f"{DECIMAL_COMMA}, €"),
        column("size", ""),
        column("took", CLOCK_FULL),
    )
    profile = DatasetProfile(kind=DataKind.TABLE, rows=9, columns=columns)

    def create(*, job: Job, data: bytes, **_: Any) -> Prediction:
        rows.extend(json.loads(data))
        return Prediction(id="noanswer0001", job=job)

    monkeypatch.setattr(predict, "job_profile", lambda job: profile)
    monkeypatch.setattr(predict, "prediction_create", create)
    return rows


def typed(world: SimpleNamespace, owner: Client, **fields: str) -> Any:
    """The answer to the form with these fields."""
    job = world.jobs["succeeded"]
    numeric = ["took"] if "took" in fields else ["price", "fee", "size"]
    job.resolved["spec"]["shape"] = {"texts": ["note"]} if "note" in fields else {"numeric": numeric}
    Job.objects.filter(pk=job.pk).update(resolved=job.resolved)
    posted = {f"field:{name}": text for name, text in fields.items()}
    return owner.post(reverse("job_predict", args=[job.pk]), posted)


@pytest.mark.parametrize(("text", "value"), [("3,5", 3.5), ("1.234,5", 1234.5), ("3.5", 3.5), ("", None)])
def test_a_number_is_typed_as_it_is_written_in_the_data(
    world: SimpleNamespace, owner: Client, asked: list[dict[str, Any]], text: str, value: float | None
) -> None:
    assert typed(world, owner, price=text, fee=text, size="7").status_code == 302
    assert asked == [{"price": value, "fee": value, "size": 7.0}]


def test_a_text_is_written_in_an_area_of_several_lines(
    world: SimpleNamespace, owner: Client, asked: list[dict[str, Any]]
) -> None:
    assert typed(world, owner, note=" one line\r\nand another ").status_code == 302
    assert asked == [{"note": "one line\nand another"}]
    page = owner.get(reverse("job_predict", args=[world.jobs["succeeded"].pk])).content.decode()
    assert re.search(r'<textarea[^>]* name="field:note"[^>]*>a &lt;b&gt; c</textarea>', page)


@pytest.mark.parametrize(("text", "value"), [("0:38:53", "0:38:53"), ("2333", 2333.0), ("", None)])
def test_a_duration_is_typed_as_it_is_written_in_the_data_or_in_seconds(
    world: SimpleNamespace, owner: Client, asked: list[dict[str, Any]], text: str, value: str | float | None
) -> None:
    assert typed(world, owner, took=text).status_code == 302
    assert asked == [{"took": value}]
    job = world.jobs["succeeded"]
    assert "like 0:38:53, or seconds" in owner.get(reverse("job_predict", args=[job.pk])).content.decode()


@pytest.mark.parametrize("text", ["3,5", "many", "nan", "inf", "1e999"])
def test_what_is_no_number_is_named_and_stays_in_its_field(
    world: SimpleNamespace, owner: Client, asked: list[dict[str, Any]], text: str
) -> None:
    answer = typed(world, owner, price="1", size=text)
    page = answer.content.decode()
    assert answer.status_code == 422 and not asked
    assert "Write it like 3.5." in page and f'value="{text}"' in page


def test_a_row_that_was_typed_is_called_so_and_not_by_its_file(world: SimpleNamespace, owner: Client) -> None:
    job, prediction = world.jobs["succeeded"], world.prediction
    Prediction.objects.filter(pk=prediction.pk).update(input_name="form.json", rows=1)
    for address in (reverse("prediction_page", args=[job.pk, prediction.pk]), reverse("job_predict", args=[job.pk])):
        page = owner.get(address).content.decode()
        assert "One row by form" in page and "form.json" not in page and "1 rows" not in page


@pytest.mark.parametrize(
    ("task", "checkpoint", "metrics", "told"),
    [
        ("tabular_regression", "", {"mae": 3.21987}, "rain (mm): about ± 3.22,"),
        ("tabular_regression", "", {"mae": "odd"}, ""),
        ("tabular_regression", "step-00000010", {"mae": 3.21987}, ""),  # its error was not measured
        ("tabular_classification", "", {"mae": 3.21987}, ""),
    ],
)
def test_a_predicted_number_has_the_name_of_its_target_and_how_far_it_may_be_off(
    world: SimpleNamespace, owner: Client, task: str, checkpoint: str, metrics: dict[str, Any], told: str
) -> None:
    job, prediction = world.jobs["succeeded"], world.prediction
    Job.objects.filter(pk=job.pk).update(task=task, resolved={"spec": {"shape": {"target": "rain (mm)"}}})
    Prediction.objects.filter(pk=prediction.pk).update(state="done", checkpoint=checkpoint, rows=1)
    paths = settings.STORE.job(job.pk)
    (paths.results / "results.json").write_text(json.dumps({"metrics": {"test": metrics}}))
    output = {"columns": ["row", "prediction"], "rows": [[1, 706.25]]}
    paths.prediction(prediction.pk).mkdir(parents=True, exist_ok=True)
    (paths.prediction(prediction.pk) / "output.json").write_text(json.dumps(output))
    page = owner.get(reverse("prediction_page", args=[job.pk, prediction.pk]))
    text = " ".join(page.content.decode().split())
    assert (told in text) if told else "±" not in text
    named = "rain (mm)" if task == "tabular_regression" else "prediction"
    assert page.context["heads"] == [("row", True), (named, True)]
    assert ("<h3>rain (mm)</h3>" in text) is (task == "tabular_regression")


@pytest.mark.parametrize(("said", "shown"), [("Of 19 rows & more 90 %.", True), ({"a": 1}, False), (None, False)])
def test_a_predicted_number_has_its_range_and_what_it_means_in_place_of_the_mean_error(
    world: SimpleNamespace, owner: Client, said: Any, shown: bool
) -> None:
    job, prediction = world.jobs["succeeded"], world.prediction
    Job.objects.filter(pk=job.pk).update(
        task="tabular_regression", resolved={"spec": {"shape": {"target": "rain (mm)"}}}
    )
    Prediction.objects.filter(pk=prediction.pk).update(state="done", checkpoint="", rows=1)
    paths = settings.STORE.job(job.pk)
    (paths.results / "results.json").write_text(json.dumps({"metrics": {"test": {"mae": 3.2}}}))
    columns = ["row", "prediction", "prediction_low", "prediction_high"]
    output = {"columns": columns, "rows": [[1, 706.25, 690.5, 722.0]], "ranges": said}
    paths.prediction(prediction.pk).mkdir(parents=True, exist_ok=True)
    (paths.prediction(prediction.pk) / "output.json").write_text(json.dumps(output))
    page = owner.get(reverse("prediction_page", args=[job.pk, prediction.pk]))
    text = " ".join(page.content.decode().split())
    assert page.context["heads"] == [("row", True), ("rain (mm)", True), ("low", True), ("high", True)]
    assert "690.5 to 722" in text
    assert ("Of 19 rows &amp; more 90 %." in text) is shown
    assert ("about ± 3.2" in text) is not shown


@pytest.mark.parametrize("ends", [["wide", 722.0], [None, None]])
def test_ends_that_are_no_numbers_are_not_read_as_a_range(ends: list[Any]) -> None:
    answer = single_answer(["row", "prediction", "prediction_low", "prediction_high"], [1, 706.25, *ends])
    assert answer is not None and len(answer["ends"]) < 2


def test_calls_to_copy_have_the_columns_of_the_job(
    world: SimpleNamespace, owner: Client, asked: list[dict[str, Any]]
) -> None:
    typed(world, owner, price="1", size="7")
    page = owner.get(reverse("job_predict", args=[world.jobs["succeeded"].pk]))
    row = {"price": 2.5, "fee": 2.5, "size": 2.5}
    assert [json.dumps(row) in call.text for call in page.context["calls"]] == [True, False, True]
    assert f"rows = {[row]!r}" in page.context["calls"][1].text
    for call in page.context["calls"]:
        assert f'data-copy="{call.id}"' in page.content.decode() and f'id="{call.id}"' in page.content.decode()


@pytest.mark.parametrize("state", ["succeeded", "failed"])
def test_each_form_of_a_prediction_names_the_weights_that_it_takes(
    world: SimpleNamespace, owner: Client, state: str
) -> None:
    job = world.jobs[state]
    point = job.checkpoints.filter(removed_at=None).first()
    page = owner.get(reverse("job_predict", args=[job.pk]), {"checkpoint": point.name}).content.decode()
    forms = [form for form in page.split("<form")[1:] if re.search("Predict (this row|the file)|Forecast from", form)]
    assert forms
    for form in forms:
        assert form.count('name="checkpoint"') == 1
        assert ("Final (best of the run)" in form) == (state == "succeeded")
        assert re.search(rf'<option\s+value="{re.escape(point.name)}"\s+selected\s*>', form)


def test_a_viewer_is_told_at_each_form_why_it_has_no_button(world: SimpleNamespace, client: Client) -> None:
    client.force_login(world.viewer)
    page = client.get(reverse("job_predict", args=[world.jobs["failed"].pk])).content.decode()
    forms = page.count('<section class="card" aria-labelledby="ft">') + page.count('aria-labelledby="bt"')
    assert forms == 2 and page.count("viewers cannot do it") == forms and "Predict this row" not in page
