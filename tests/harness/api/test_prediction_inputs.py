"""Files to predict for, as the API takes them."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import openpyxl
import pytest
from django.conf import settings
from django.test import Client

from harness.jobs.models import Checkpoint, Job
from tests.harness.api.conftest import API

pytestmark = pytest.mark.django_db


def workbook() -> BytesIO:
    book = openpyxl.Workbook()
    for row in (["length", "kind"], [1.5, "rose"]):
        book.active.append(row)
    book.save(target := BytesIO())
    target.seek(0)
    return target


@pytest.mark.parametrize("name", ["rows.xlsx", "Rows of May.XLSX"])
def test_a_spreadsheet_is_taken_as_it_is_and_a_node_is_asked_for_it(
    name: str, caller: Client, job: Job, node_make: Any, tasks_sent: Any, django_capture_on_commit_callbacks: Any
) -> None:
    node_make()
    Checkpoint.objects.create(job=job, name="step-00000010", step=10, epoch=1)
    sheet = workbook()
    sheet.name, body = name, sheet.getvalue()
    with django_capture_on_commit_callbacks(execute=True):
        answer = caller.post(f"{API}/jobs/{job.pk}/predictions", {"input": sheet, "checkpoint": "step-00000010"})
    assert answer.status_code == 201
    made = answer.json()
    assert (made["state"], made["input_name"]) == ("waiting", name)
    assert (settings.STORE.job(job.pk).prediction(made["id"]) / "input.xlsx").read_bytes() == body
    (request,) = [args[0] for task, args, _ in tasks_sent if task == "node.predict"]
    assert request["prediction_id"] == made["id"]


def test_an_older_spreadsheet_is_refused_with_what_to_do(caller: Client, job: Job) -> None:
    old = BytesIO(b"\xd0\xcf\x11\xe0")
    old.name = "rows.xls"
    answer = caller.post(f"{API}/jobs/{job.pk}/predictions", {"input": old})
    assert answer.status_code == 422 and "Save it as .xlsx" in answer.json()["error"]["hint"]


@pytest.mark.parametrize(("value", "told"), [("NaN", "nan"), ("-Infinity", "-inf"), ("1e999", "inf")])
def test_a_record_that_pandas_left_a_gap_in_is_told_its_place(value: str, told: str, caller: Client, job: Job) -> None:
    body = f'{{"records": [{{"length": 1.5}}, {{"length": {value}}}]}}'
    answer = caller.post(f"{API}/jobs/{job.pk}/predictions", body, "application/json")
    error = answer.json()["error"]
    assert (answer.status_code, error["field"]) == (422, "records.1.length")
    assert error["message"] == f"records.1.length: must be a finite number, not {told}"
    assert "null" in error["hint"]


def test_a_list_in_a_record_holds_finite_numbers_too(caller: Client, job: Job) -> None:
    answer = caller.post(f"{API}/jobs/{job.pk}/predictions", '{"records": [{"x": [NaN]}]}', "application/json")
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "records.0.x")


def test_a_part_of_a_value_that_is_not_finite_is_told_by_record_and_column(caller: Client, job: Job) -> None:
    body = '{"records": [{"x": {"a": 1}, "y": 2.5}, {"x": {"a": NaN}}]}'
    error = caller.post(f"{API}/jobs/{job.pk}/predictions", body, "application/json").json()["error"]
    assert (error["field"], error["message"]) == ("records.1.x", "records.1.x: holds a number that is not finite")
    assert "null" in error["hint"]


@pytest.mark.parametrize("body", ["[]", '[{"x": 1}]', "null", "3", '"x"'])
def test_a_body_that_is_no_object_is_told_so_and_no_field_is_blamed(body: str, caller: Client, job: Job) -> None:
    answer = caller.post(f"{API}/jobs/{job.pk}/predictions", body, "application/json")
    error = answer.json()["error"]
    assert (answer.status_code, error["field"]) == (422, None)
    assert error["message"] == "The body must be an object." and "{records:" in error["hint"]


def test_predictions_without_a_body_are_told_so_in_words(caller: Client, job: Job) -> None:
    headers = {"Content-Type": "application/json"}  # which the client of tests leaves out beside no body
    answer = caller.generic("POST", f"{API}/jobs/{job.pk}/predictions", headers=headers)
    error = answer.json()["error"]
    assert (answer.status_code, error["message"], error["field"]) == (422, "The request has no body.", None)
    assert "{records:" in error["hint"]


@pytest.mark.parametrize("body", [b"{", b'{"records": [{"x": "a\\u0000"}]}', b'{"records": [{"x": "\\ud800"}]}'])
def test_records_that_cannot_be_read_are_refused_as_every_body(body: bytes, caller: Client, job: Job) -> None:
    answer = caller.post(f"{API}/jobs/{job.pk}/predictions", body, "application/json")
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("The request's body cannot be read: ")


def test_an_unknown_name_beside_the_records_is_told_in_words(caller: Client, job: Job) -> None:
    answer = caller.post(f"{API}/jobs/{job.pk}/predictions", {"rows": [{"x": 1}]}, "application/json")
    assert answer.json()["error"]["message"] == "rows: is not known here"
