"""Points as files."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from harness.calibration import exchange
from harness.calibration.exchange import points_export, points_fitted, points_import, points_of, points_read, row_of
from harness.calibration.models import CalibrationPointRow
from harness.errors import Forbidden, Invalid
from harness.measuring.fitting import model_fit
from scheduler.estimation.calibration import to_csv, to_json
from tests.scheduler.made_workloads import points

FOUR = points(4)


@pytest.fixture
def measured(people: SimpleNamespace) -> SimpleNamespace:
    CalibrationPointRow.objects.bulk_create(row_of(point) for point in FOUR)
    return people


@pytest.mark.parametrize("form", ["csv", "json"])
def test_an_export_comes_back_as_it_was(measured: SimpleNamespace, form: str) -> None:
    text = points_export(form=form)
    CalibrationPointRow.objects.all().delete()
    assert points_import(user=measured.admin, text=text) == {"added": 4, "known": 0}
    assert [point.to_dict() for point in points_read(points_of())] == [point.to_dict() for point in FOUR]
    assert all(row.imported for row in points_of())


def test_an_import_replaces_nothing_that_was_measured_here(measured: SimpleNamespace) -> None:
    assert points_import(user=measured.admin, text=to_json(points(6))) == {"added": 2, "known": 4}
    assert CalibrationPointRow.objects.filter(imported=False).count() == 4


def test_only_admins_import(measured: SimpleNamespace) -> None:
    with pytest.raises(Forbidden):
        points_import(user=measured.owner, text=to_json(FOUR))


def test_there_are_two_forms_only(measured: SimpleNamespace) -> None:
    with pytest.raises(Invalid):
        points_export(form="xml")


def damaged(**changes: Any) -> str:
    """The CSV of all four with some cells of the third row changed."""
    rows = list(csv.DictReader(io.StringIO(to_csv(FOUR))))
    rows[2] |= changes
    out = io.StringIO()
    writer = csv.DictWriter(out, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


@pytest.mark.parametrize(
    "changes",
    [
        {"step_s": "nan"},
        {"step_s": "-0.1"},
        {"step_s": ""},
        {"peak_bytes": "inf"},
        {"power_w": "nan"},
        {"power_w": "250000"},
        {"batch_size": "many"},
        {"workload": "{}"},
        {"workload": "not json"},
        {"kind": "abacus"},
        {"model_name": "x" * 121},
    ],
)
def test_a_wrong_row_is_named_and_nothing_is_taken(people: SimpleNamespace, changes: dict[str, str]) -> None:
    with pytest.raises(Invalid, match="row 3"):
        points_import(user=people.admin, text=damaged(**changes))
    assert not CalibrationPointRow.objects.exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"step_s": "nan"}, "step_s is nan; it must be a number above 0"),
        ({"step_s": "0.1;soon"}, "step_s is 'soon'; it must be a number"),
        ({"peak_bytes": "inf"}, "peak_bytes is inf; it must be a number"),
        ({"power_w": "much"}, "power_w is 'much'; it must be a number"),
        ({"batch_size": "many"}, "batch_size is 'many'; it must be a number"),
        ({"batch_size": "2.5"}, "batch_size is 2.5; it must be a whole number"),
        ({"workload": "not json"}, "workload is not JSON"),
        ({"params": "{"}, "params is not JSON"),
        ({"kind": "abacus"}, "there is no kind of device 'abacus'; use cpu or cuda"),
    ],
)
def test_the_field_of_a_wrong_row_is_named_with_what_to_do(
    people: SimpleNamespace, changes: dict[str, str], words: str
) -> None:
    with pytest.raises(Invalid) as refused:
        points_import(user=people.admin, text=damaged(**changes))
    assert f"row 3: {words}" in refused.value.message
    assert refused.value.hint == "Correct or remove the row; nothing of the file was taken."


@pytest.mark.parametrize("name", ["kind", "step_s", "workload"])
def test_a_field_that_a_point_lacks_is_named(people: SimpleNamespace, name: str) -> None:
    body = json.loads(to_json(FOUR))
    del body["points"][2][name]
    with pytest.raises(Invalid) as refused:
        points_import(user=people.admin, text=json.dumps(body))
    assert f"row 3: the field {name} is missing." in refused.value.message and "or remove" in refused.value.hint


def test_a_field_that_no_point_has_and_a_point_that_is_none_are_named(people: SimpleNamespace) -> None:
    body = json.loads(to_json(FOUR))
    body["points"][1] |= {"colour": "red"}
    with pytest.raises(Invalid, match="row 2: there is no field colour"):
        points_import(user=people.admin, text=json.dumps(body))
    body["points"][0] = 1
    with pytest.raises(Invalid, match="row 1: it must be an object with the fields of a point"):
        points_import(user=people.admin, text=json.dumps(body))


def test_a_file_is_not_told_to_lose_a_row_where_no_row_is_at_fault(people: SimpleNamespace) -> None:
    with pytest.raises(Invalid) as refused:
        points_import(user=people.admin, text=to_csv(FOUR).replace("step_s", "row step_s", 1))
    assert "columns are missing: step_s" in refused.value.message and "an export wrote" in refused.value.hint
    with pytest.raises(Invalid) as refused:
        points_import(user=people.admin, text='"the row one" two\n')
    assert "not CSV" in refused.value.message and "an export wrote" in refused.value.hint
    with pytest.raises(Invalid) as refused:
        points_import(user=people.admin, text=damaged(step_s="nan"))
    assert refused.value.hint.startswith("Correct or remove the row")


def test_a_byte_order_mark_of_a_spreadsheet_is_no_part_of_the_first_column(people: SimpleNamespace) -> None:
    for number, text in enumerate((to_csv(FOUR), to_json(points(6)))):
        assert points_import(user=people.admin, text=f"\ufeff{text}")["added"] == (4, 2)[number]


def test_more_points_than_a_fit_can_look_at_are_not_taken(
    measured: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "POINTS_MOST", 5)
    with pytest.raises(Invalid, match="6 points of cpu Test core"):
        points_import(user=measured.admin, text=to_json(points(6)))
    assert CalibrationPointRow.objects.count() == 4
    assert points_import(user=measured.admin, text=to_json(points(5))) == {"added": 1, "known": 4}


def test_where_more_points_are_kept_a_fit_takes_some_of_each_family_and_an_export_comes_back(
    measured: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for family, count in (("late", 4), ("rare", 2)):
        new = [
            replace(point, family=family, point_id=f"{family}-{number}") for number, point in enumerate(FOUR[:count])
        ]
        CalibrationPointRow.objects.bulk_create(row_of(point) for point in new)
    monkeypatch.setattr(exchange, "POINTS_MOST", 5)
    text = points_export(form="json")
    assert points_import(user=measured.admin, text=text) == {"added": 0, "known": 10}
    other = [replace(point, model_name="Another core") for point in FOUR]
    assert points_import(user=measured.admin, text=to_json([*points_read(points_of()), *other]))["added"] == 4
    taken = points_fitted(kind=FOUR[0].kind, model_name=FOUR[0].model_name)
    assert sorted(point.family for point in taken) == ["late", "late", "made", "made", "rare"]
    row = model_fit(FOUR[0].kind, FOUR[0].model_name)
    assert row is not None and row.n_points == 5


@pytest.mark.parametrize(
    "changes",
    [
        {"model_name": 7},
        {"kind": 5},
        {"point_id": 12},
        {"family": ["cnn"]},
        {"family": "half a letter \ud800"},
        {"point_id": "NUL \0"},
        {"params": {"width": math.nan}},
        {"params": {"name": "\0"}},
        {"params": {"much": 10**40}},
    ],
)
def test_a_row_that_no_database_keeps_is_named_and_nothing_is_taken(
    people: SimpleNamespace, changes: dict[str, Any]
) -> None:
    body = json.loads(to_json(FOUR))
    body["points"][2] |= changes
    with pytest.raises(Invalid, match="row 3"):
        points_import(user=people.admin, text=json.dumps(body))
    assert not CalibrationPointRow.objects.exists()


@pytest.mark.parametrize(
    "text", ["", "hello", "{}", "[1]", '{"version": 99, "points": []}', '{"version": 1, "points": []}']
)
def test_what_is_no_dataset_is_refused(people: SimpleNamespace, text: str) -> None:
    with pytest.raises(Invalid):
        points_import(user=people.admin, text=text)


def test_what_is_imported_is_fitted(
    people: SimpleNamespace, tasks_sent: list[Any], django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        points_import(user=people.admin, text=to_json(FOUR))
    assert ("control.calibration_fit", ["cpu", "Test core"], "control") in tasks_sent


def test_export_can_be_narrowed_to_a_kind(measured: SimpleNamespace) -> None:
    assert len(json.loads(points_export(form="json", kind="cpu"))["points"]) == 4
    assert json.loads(points_export(form="json", kind="cuda"))["points"] == []


def test_a_kind_of_device_that_is_none_gives_no_empty_file(measured: SimpleNamespace) -> None:
    with pytest.raises(Invalid, match="no kind of device 'gpu'") as refused:
        points_export(form="csv", kind="gpu")
    assert refused.value.field == "kind" and "cpu or cuda" in refused.value.hint
