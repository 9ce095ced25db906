"""Dates in rows to predict for mean what they mean in the data to train on."""

from __future__ import annotations

import json
import math
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from codegen.profile import profile_dataset
from codegen.profile.types import TABLE_FILE, ColumnType, ProfileOptions
from worker.runtime.onnx_export import predict_table
from worker.runtime.spelling import as_trained, unread_value
from worker.runtime.tables import InputError, read_rows


def dated(*values: str, trained: str = "") -> pa.Table:
    """A table of one column of dates, as a prediction takes it."""
    noted = {"numeric": [{"column": "when", "kind": "dates"}], "spelling": {"when": trained}}
    return as_trained(noted, pa.table({"when": list(values)}))


@pytest.mark.parametrize("trained", ["", "%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y"])
def test_dates_of_several_spellings_are_read_where_each_leaves_no_doubt(trained: str) -> None:
    mixed = ("2024-01-20", "21.01.2024", "", "2024-01-22 13:30", "23.01.24", "24/01/2024", "25 Jan 2024")
    moments = dated(*mixed, trained=trained)["when"].to_pylist()
    assert [moment and moment.day for moment in moments] == [20, 21, None, 22, 23, 24, 25]
    assert {(moment.year, moment.month) for moment in moments if moment} == {(2024, 1)}
    assert moments[3] == datetime(2024, 1, 22, 13, 30)


def test_a_date_among_those_of_other_spellings_is_read_as_in_training_or_refused_in_doubt() -> None:
    mixed = ("2024-01-20", "03/04/2024", "20.01.2024")
    assert dated(*mixed, trained="%m/%d/%Y")["when"].to_pylist()[1] == datetime(2024, 3, 4)
    assert dated(*mixed, "25/04/2024")["when"].to_pylist()[1] == datetime(2024, 4, 3)
    for doubtful in (mixed, (*mixed, "25/04/2024", "26/04/2024", "04/25/2024")):
        with pytest.raises(InputError, match=r"Row 2: column 'when': '03/04/2024' may be 04 March 2024 or 03 April"):
            dated(*doubtful)


def test_a_date_that_can_be_read_in_two_ways_is_refused_unless_another_row_decides() -> None:
    with pytest.raises(InputError, match=r"Row 2: column 'when': '03/04/2020' may be 04 March 2020 or 03 April 2020"):
        dated("05/05/2020", "03/04/2020")
    assert dated("03/04/2020", "25/04/2020")["when"].to_pylist() == [datetime(2020, 4, 3), datetime(2020, 4, 25)]


def test_what_is_no_date_among_dates_is_named_with_its_row() -> None:
    with pytest.raises(InputError, match=r"Row 3: column 'when': 'soon' is not a date that can be read"):
        dated("31.01.2020", "", "soon", "01.02.2020")


def test_what_is_no_date_at_all_is_left_to_the_program() -> None:
    assert dated("soon", "later")["when"].to_pylist() == ["soon", "later"]


def test_a_date_in_doubt_is_read_as_in_training() -> None:
    noted = {"numeric": [{"column": "when", "kind": "dates"}], "spelling": {"when": "%d/%m/%Y"}}
    read = as_trained(noted, pa.table({"when": ["03/04/2020", None]}))
    assert read["when"].to_pylist() == [datetime(2020, 4, 3), None]
    other = as_trained(noted, pa.table({"when": ["12/31/2020"]}))
    assert other["when"].to_pylist() == [datetime(2020, 12, 31)]


@pytest.mark.parametrize("trained", ["%d.%m.%y", "%d.%m.%Y"])
def test_years_of_two_digits_are_never_those_of_antiquity(trained: str) -> None:
    noted = {"numeric": [{"column": "when", "kind": "dates"}], "spelling": {"when": trained}}
    read = as_trained(noted, pa.table({"when": ["31.12.07", "31.12.69"]}))
    assert read["when"].to_pylist() == [datetime(2007, 12, 31), datetime(1969, 12, 31)]


def test_moments_of_a_zone_are_those_of_utc_as_in_training(tmp_path: Path) -> None:
    moments = pa.array([datetime(2020, 1, 1, 12), datetime(2020, 7, 1, 12)] * 20, pa.timestamp("us", "Europe/Berlin"))
    table = pa.table({"when": moments, "x": [float(row) for row in range(40)], "label": ["a", "b"] * 20})
    pq.write_table(table, tmp_path / "a.parquet")
    profile_dataset(tmp_path / "a.parquet", tmp_path / "packed", ProfileOptions(), lambda *_: None)
    packed = pq.read_table(tmp_path / "packed" / TABLE_FILE)["when"].to_pylist()
    noted = {"numeric": [{"column": "when", "kind": "dates"}]}
    read = as_trained(noted, read_rows(tmp_path / "a.parquet"))["when"]
    assert read.cast(pa.timestamp("us"), safe=False).to_pylist() == packed
    texts = pa.table({"when": [f"{moment:%Y-%m-%dT%H:%M:%S}Z" for moment in packed]})
    assert as_trained(noted, texts)["when"].cast(pa.timestamp("us"), safe=False).to_pylist() == packed


@pytest.mark.parametrize("number", [1577836800, 1577836800000, 1577836800.5])
def test_a_number_where_a_date_is_wanted_is_no_date_in_json_either(tmp_path: Path, number: float) -> None:
    noted = {"numeric": [{"column": "when", "kind": "dates"}]}
    (tmp_path / "input.json").write_text(json.dumps([{"when": number}, {"when": None}]))
    said, _ = unread_value(noted, as_trained(noted, read_rows(tmp_path / "input.json"))) or ("", "")
    assert "is not a date" in said


@pytest.mark.parametrize("day", ["31.04.2020", "30.02.2020", "29.02.2019"])
def test_a_day_that_its_month_lacks_is_no_date_as_in_training(tmp_path: Path, day: str) -> None:
    rows = [f"{1 + at % 28:02d}.01.2020;{at % 7};{'ab'[at % 2]}" for at in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["when;x;label", *rows, f"{day};1;a"]))
    profile = profile_dataset(tmp_path / "a.csv", tmp_path / "packed", ProfileOptions(), lambda *_: None)
    column = profile.column("when")
    assert column and (column.type, column.missing) == (ColumnType.DATE, 1)
    noted = {"numeric": [{"column": "when", "kind": "dates"}], "spelling": {"when": column.spelling}}
    with pytest.raises(InputError, match=f"Row 2: column 'when': '{day}' is not a date"):
        as_trained(noted, pa.table({"when": ["01.04.2020", day]}))
    said, _ = unread_value(noted, as_trained(noted, pa.table({"when": [day]}))) or ("", "")
    assert f"'{day}' is not a date" in said


@pytest.mark.parametrize("unit", ["s", "ms", "us", "day", "zone"])
def test_moments_of_no_year_of_four_digits_are_missing_as_in_training(tmp_path: Path, unit: str) -> None:
    moments = pa.array([datetime(1, 1, 1), datetime(1969, 7, 20), datetime(2020, 2, 29), None] * 15, pa.timestamp("us"))
    kinds = {"day": pa.date32(), "zone": pa.timestamp("ms", "UTC")}
    typed = moments.cast(kinds.get(unit) or pa.timestamp(unit)) if unit != "zone" else moments.cast(pa.timestamp("ms"))
    typed = typed.cast(kinds["zone"]) if unit == "zone" else typed
    table = pa.table({"when": typed, "x": [at % 7 for at in range(60)], "label": ["a", "b"] * 30})
    pq.write_table(table, tmp_path / "a.parquet")
    options = ProfileOptions(column_types={"when": ColumnType.DATE})
    profile = profile_dataset(tmp_path / "a.parquet", tmp_path / "packed", options, lambda *_: None)
    column = profile.column("when")
    packed = pq.read_table(tmp_path / "packed" / TABLE_FILE)["when"].to_pylist()
    assert column and column.missing == 30 and packed[:4] == [None, datetime(1969, 7, 20), datetime(2020, 2, 29), None]
    noted = {"numeric": [{"column": "when", "kind": "dates"}], "spelling": {"when": column.spelling}}
    read = as_trained(noted, read_rows(tmp_path / "a.parquet"))["when"]
    assert read.cast(pa.timestamp("us")).to_pylist() == packed
    texts = pa.table({"when": ["0001-01-01T00:00:00", "2020-02-29T00:00:00"]})
    assert as_trained(noted, texts)["when"].to_pylist() == [None, datetime(2020, 2, 29)]


@pytest.mark.parametrize(("unit", "far"), [("s", 1 << 61), ("ms", (1 << 63) - 1), ("ms", -(1 << 62))])
def test_moments_that_are_too_far_off_for_microseconds_are_missing(tmp_path: Path, unit: str, far: int) -> None:
    kind = pa.timestamp(unit)
    if unit == "s":  # Parquet has no seconds; a program may give them
        noted = {"numeric": [{"column": "when", "kind": "dates"}]}
        assert as_trained(noted, pa.table({"when": pa.array([far, 0], kind)}))["when"].null_count == 1
        return
    table = pa.table({"when": pa.array([far, 0, 86_400_000] * 20, kind), "x": [1, 2, 3] * 20, "y": ["a", "b"] * 30})
    pq.write_table(table, tmp_path / "a.parquet")
    profile_dataset(tmp_path / "a.parquet", tmp_path / "packed", ProfileOptions(), lambda *_: None)
    packed = pq.read_table(tmp_path / "packed" / TABLE_FILE)["when"].to_pylist()
    assert packed[:3] == [None, datetime(1970, 1, 1), datetime(1970, 1, 2)]


MIXED = {
    "2024-01-20": datetime(2024, 1, 20),
    "2024-01-20T10:30:00.5": datetime(2024, 1, 20, 10, 30, 0, 500_000),
    "2024-01-20 10:30:00.123456789": datetime(2024, 1, 20, 10, 30, 0, 123_456),
    "2024-01-20T10:30:00+02:00": datetime(2024, 1, 20, 8, 30),
    "2024-01-20T10:30:00+02": datetime(2024, 1, 20, 8, 30),
    "2024-01-20 10:30:00.5 +0200": datetime(2024, 1, 20, 8, 30, 0, 500_000),
    "2024-01-20 10:30Z": datetime(2024, 1, 20, 10, 30),
    "2024-01-20T10:30 z": datetime(2024, 1, 20, 10, 30),
    "2024-01-20 10:30+02:00": datetime(2024, 1, 20, 8, 30),
    "20 Jan 2024": datetime(2024, 1, 20),
    "20.01.24 09:15": datetime(2024, 1, 20, 9, 15),
    "31.12.0007": None,
}


@pytest.mark.parametrize("other", MIXED)
def test_a_date_in_another_format_than_those_of_its_column_means_the_same_in_training(
    tmp_path: Path, other: str
) -> None:
    days = [f"{1 + at % 28:02}.{1 + at % 12:02}.2023" for at in range(59)]
    lines = [f"{day},{at * 7 % 30},{'ab'[at % 2]}" for at, day in enumerate([*days, other])]
    (tmp_path / "a.csv").write_text("\n".join(["when,x,label", *lines, ""]))
    profile = profile_dataset(tmp_path / "a.csv", tmp_path / "packed", ProfileOptions(), lambda *_: None)
    column = profile.column("when")
    assert column is not None and (column.type, column.spelling) == (ColumnType.DATE, "%d.%m.%Y")
    packed = pq.read_table(tmp_path / "packed" / TABLE_FILE)["when"].to_pylist()
    assert packed[-1] == MIXED[other] and packed[:-1] == [datetime.strptime(day, "%d.%m.%Y") for day in days]
    noted = {"numeric": [{"column": "when", "kind": "dates"}], "spelling": {"when": "%d.%m.%Y"}}
    assert as_trained(noted, read_rows(tmp_path / "a.csv"))["when"].to_pylist() == packed
    days_of = [predict_table.date_number(text, "days", "%d.%m.%Y") for text in (other, days[0])]
    known = [moment and (moment - datetime(1970, 1, 1)).total_seconds() / 86_400 for moment in (packed[-1], packed[0])]
    assert [None if math.isnan(number) else number for number in days_of] == known


@pytest.mark.parametrize("zone", ["+02", " +0200", "+02:00", " Z"])
@pytest.mark.parametrize("clock", ["10:30", "10:30:00", "10:30:00.5"])
def test_a_column_of_moments_with_a_zone_is_read_as_in_training(tmp_path: Path, clock: str, zone: str) -> None:
    texts = [f"2024-{1 + at % 12:02}-{1 + at % 28:02} {clock}{zone}" for at in range(60)]
    lines = [f"{text},{at * 7 % 30},{'ab'[at % 3 // 2]}" for at, text in enumerate(texts)]
    (tmp_path / "a.csv").write_text("\n".join(["when,x,label", *lines, ""]))
    profile = profile_dataset(tmp_path / "a.csv", tmp_path / "packed", ProfileOptions(), lambda *_: None)
    column = profile.column("when")
    assert column is not None and (column.type, column.missing) == (ColumnType.DATE, 0)
    packed = pq.read_table(tmp_path / "packed" / TABLE_FILE)["when"].to_pylist()
    assert packed[0].hour == (10 if "Z" in zone else 8)
    assert dated(*texts, trained=column.spelling)["when"].cast(pa.timestamp("us"), safe=False).to_pylist() == packed
    days = (packed[0] - datetime(1970, 1, 1)).total_seconds() / 86_400
    assert predict_table.date_number(texts[0], "days", column.spelling) == days


def test_a_date_in_doubt_is_missing_in_training_and_refused_in_rows_to_predict_for(tmp_path: Path) -> None:
    days = [f"{1 + at % 28:02}.{1 + at % 12:02}.2023" for at in range(59)]
    lines = [f"{day},{at * 7 % 30},{'ab'[at % 2]}" for at, day in enumerate([*days, "03/04/2020"])]
    (tmp_path / "a.csv").write_text("\n".join(["when,x,label", *lines, ""]))
    profile = profile_dataset(tmp_path / "a.csv", tmp_path / "packed", ProfileOptions(), lambda *_: None)
    assert pq.read_table(tmp_path / "packed" / TABLE_FILE)["when"].to_pylist()[-1] is None
    told = next(finding for finding in profile.warnings if finding.code == "mixed_types")
    assert "1 value of 'when' is not a date in the format of the others, nor in another that leaves" in told.message
    with pytest.raises(InputError, match=r"Row 60: column 'when': '03/04/2020' may be 04 March 2020 or 03 April 2020"):
        dated(*days, "03/04/2020", trained="%d.%m.%Y")
    with pytest.raises(ValueError, match=r"'03/04/2020' may be 04 March 2020 or 03 April 2020; write it like 2020-01-"):
        predict_table.date_number("03/04/2020", "days", "%d.%m.%Y")
