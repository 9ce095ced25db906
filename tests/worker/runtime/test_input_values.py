"""Objects, lists, amounts with a currency: rows to predict for mean what they mean in the data to train on."""

from __future__ import annotations

import json
import re
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codegen.profile import measures, nested, profile_dataset, types
from codegen.profile.types import TABLE_FILE, ColumnType, ProfileOptions
from codegen.profile.values import UNITS, NumberStyle, numbers
from worker.runtime import currencies, spelling, tables
from worker.runtime.onnx_export import table_rows
from worker.runtime.spelling import as_trained
from worker.runtime.tables import read_rows

KINDS = {ColumnType.NUMERIC: "numeric", ColumnType.DATE: "dates"}


def nested_rows() -> list[dict[str, Any]]:
    """Rows with objects, lists, mixed values, and names with spaces."""
    return [
        {
            " x ": index / 2,
            "shop": {"city": ("Rome", "Oslo")[index % 2], "at": {"lat": None if index == 3 else index * 1.5}},
            "open": (True, False, "soon")[index % 3],
            "tags": ["a"] * (index % 3),
            "size": [1] if index == 4 else index % 7,
            "a": {"b": {"c": {"d": {"e": {"f": 1}}}}},
            "label": "ab"[index % 2],
        }
        for index in range(60)
    ]


def as_input(kind: str, rows: list[dict[str, Any]], target: Path) -> Path:
    """The rows as a file of this kind."""
    path = target / f"input.{kind}"
    if kind == "parquet":
        plain = [{**row, "open": row["open"] is True, "size": 3} for row in rows]
        pq.write_table(pa.Table.from_pylist(plain), path)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows) if kind == "jsonl" else json.dumps(rows))
    return path


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_objects_mean_the_same_to_a_prediction_as_to_training(tmp_path: Path, kind: str) -> None:
    path = as_input(kind, nested_rows(), tmp_path)
    profile = profile_dataset(path, tmp_path / "packed", ProfileOptions(), lambda *_: None)
    packed = pq.read_table(tmp_path / "packed" / TABLE_FILE)
    columns = ["x", "shop.city", "shop.at.lat", "open", "size", "label"]
    assert packed.column_names == columns
    kinds = {column.name: KINDS[column.type] for column in profile.columns if column.type in KINDS}
    noted = {"numeric": [{"column": column, "kind": kind} for column, kind in kinds.items()]}
    for file in (path, *([as_input("json", nested_rows(), tmp_path)] if kind == "jsonl" else [])):
        read = as_trained(noted, read_rows(file))
        for name in columns:
            given = pa.float64() if name in kinds else pa.string()
            assert read[name].cast(given).to_pylist() == packed[name].cast(given).to_pylist(), (file.name, name)


def test_fields_of_dotted_names_stand_for_objects(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"shop.city": "Rome"}, {"shop": {"city": "Oslo"}}, {"shop": null}]')
    assert read_rows(tmp_path / "a.json")["shop.city"].to_pylist() == ["Rome", "Oslo", None]


def test_a_list_where_a_value_was_trained_on_counts_as_missing(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"size": [1, 2]}]')
    read = as_trained({"numeric": [{"column": "size", "kind": "numeric"}]}, read_rows(tmp_path / "a.json"))
    assert read["size"].to_pylist() == [None]


NESTED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=12,
)


@given(row=st.dictionaries(st.sampled_from("abc"), NESTED, max_size=3))
def test_objects_are_taken_apart_alike(row: dict[str, Any]) -> None:
    assert list(tables._flat(row)) == list(nested.flat(row))
    assert tables.NESTED_LEVELS == nested.NESTED_LEVELS


@pytest.mark.parametrize(
    ("spelled", "again", "expected"),
    [
        (["$1,234.50", "$7"], ["$1,250", "8", "-$2.5"], [1250, 8, -2.5]),
        (["EUR 1,50", "EUR 12"], ["1.250,75 EUR", "EUR 2", "3,5"], [1250.75, 2, 3.5]),
        (["12 %", "7.5%"], ["50 %", "0.5%", "7"], [50, 0.5, 7]),
        (["0:38:53", "1 day, 2:03:04"], ["38:53.5", "1:02:03", "90"], [2333.5, 3723, 90]),
        (["19:12", "08:05"], ["19:12", "0:38:53", "0:04.5"], [69120, 2333, 4.5]),
        (["4:35", "1:02:03,5"], ["19:12", "-0:05", "-1 days +23:59:55"], [1152, -5, -5]),
        (["694 mm", "38,5 cm"], ["3 mm", "1,5 m", "7"], [3, 1500, 7]),
        (["1.5 h", "2h"], ["45 min", "-36 s", "7 h", "1,200 s"], [0.75, -0.01, 7, 1200 / 3600]),
    ],
)
def test_amounts_mean_the_same_to_a_prediction_as_to_training(
    tmp_path: Path, spelled: list[str], again: list[str], expected: list[float]
) -> None:
    rows = [f"{spelled[i % 2]}\t{'ab'[i % 2]}" for i in range(60)]
    (tmp_path / "a.tsv").write_text("\n".join(["price\tlabel", *rows]))
    options = ProfileOptions(column_types={"price": ColumnType.NUMERIC})
    profile = profile_dataset(tmp_path / "a.tsv", tmp_path / "packed", options, lambda *_: None)
    column = profile.column("price")
    assert column
    noted = {"numeric": [{"column": "price", "kind": "numeric"}], "spelling": {"price": column.spelling}}
    packed = pq.read_table(tmp_path / "packed" / TABLE_FILE)["price"].cast(pa.float64())
    assert (
        as_trained(noted, read_rows(tmp_path / "a.tsv"))["price"].cast(pa.float64()).to_pylist() == packed.to_pylist()
    )
    assert as_trained(noted, pa.table({"price": again}))["price"].cast(pa.float64()).to_pylist() == expected


@pytest.mark.parametrize("unit", ["", "€"])
def test_thousands_of_the_training_data_are_thousands_in_a_file_that_may_have_decimal_commas(
    tmp_path: Path, unit: str
) -> None:
    rows = [f"{unit}{1000 + 7 * i:,}.5;{i % 4};{'ab'[i % 2]}" for i in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["price;z;label", *rows]), encoding="utf-8")
    profile = profile_dataset(tmp_path / "a.csv", tmp_path / "packed", ProfileOptions(), lambda *_: None)
    column = profile.column("price")
    assert column and column.spelling == ", ".join(filter(None, ["thousands", unit]))
    noted = {"numeric": [{"column": "price", "kind": "numeric"}], "spelling": {"price": column.spelling}}
    (tmp_path / "one.csv").write_text(f"price;z\n{unit}79,409;1\n", encoding="utf-8")
    assert as_trained(noted, read_rows(tmp_path / "one.csv"))["price"].to_pylist() == ["79409"]
    again, prefer_comma = table_rows.read_rows(tmp_path / "one.csv", noted)
    assert prefer_comma and table_rows.respelled(noted, again, prefer_comma)[0]["price"] == "79409"


TYPED = {
    "floats": pa.array([1.6, 2.0, None]),
    "narrow floats": pa.array([0.1, 2.0, None], pa.float32()),
    "decimals": pa.array([Decimal("1.50"), Decimal("2.00"), None]),
    "whole numbers": pa.array([2**53, 2**53 + 1, None]),
    "days": pa.array([date(1969, 7, 20), date(2020, 2, 29), None]),
    "moments": pa.array([datetime(1969, 7, 20, 20, 17), datetime(2020, 2, 29), None], pa.timestamp("ns")),
}


@pytest.mark.parametrize("kind", TYPED)
def test_typed_values_of_a_category_are_the_texts_that_training_had(tmp_path: Path, kind: str) -> None:
    values = TYPED[kind].take(pa.array([at % 3 for at in range(60)]))
    table = pa.table({"size": values, "x": [at % 7 for at in range(60)], "label": ["a", "b"] * 30})
    pq.write_table(table, tmp_path / "a.parquet")
    options = ProfileOptions(column_types={"size": ColumnType.CATEGORY})
    profile_dataset(tmp_path / "a.parquet", tmp_path / "packed", options, lambda *_: None)
    packed = pq.read_table(tmp_path / "packed" / TABLE_FILE)["size"]
    known = [value for value in packed.unique().to_pylist() if value is not None]
    noted = {"categorical": [{"column": "size", "values": known}]}
    assert len(known) == 2
    assert as_trained(noted, read_rows(tmp_path / "a.parquet"))["size"].to_pylist() == packed.to_pylist()


def test_a_number_that_is_no_category_of_training_stays_as_it_is_written(tmp_path: Path) -> None:
    noted = {"categorical": [{"column": "size", "values": ["2.0", "9007199254740992", "many"]}]}
    (tmp_path / "a.json").write_text('[{"size": 2}, {"size": 9007199254740993}, {"size": 5}, {"size": null}]')
    read = as_trained(noted, read_rows(tmp_path / "a.json"))
    assert read["size"].to_pylist() == ["2.0", "9007199254740993", "5", None]


def test_measures_are_those_of_the_profile() -> None:
    assert spelling.MEASURES == table_rows.MEASURES == measures.MEASURES


def test_a_measure_of_another_kind_is_no_number() -> None:
    noted = {"numeric": [{"column": "size", "kind": "numeric"}], "spelling": {"size": "mm"}, "missing": ["size"]}
    read = as_trained(noted, pa.table({"size": ["5 cm", "5 kg", "m5", None, "7 mm"]}))
    assert read["size"].to_pylist() == ["50", None, None, None, "7"]


@pytest.mark.parametrize(
    ("unit", "other"), [("$", "€5"), ("$", "USD 5"), ("USD", "$5"), ("US$", "$5"), ("kr", "5 SEK")]
)
def test_another_currency_or_maybe_another_is_no_number(unit: str, other: str) -> None:
    noted = {"numeric": [{"column": "price", "kind": "numeric"}], "spelling": {"price": unit}, "missing": ["price"]}
    told: list[str] = []
    read = as_trained(noted, pa.table({"price": [f"{unit}5", other]}), told.append)["price"].to_pylist()
    assert read == ["5", None]
    assert f"such as {other!r} in row 2" in told[0]
    assert table_rows.plain_numbers([other], unit, prefer_comma=False) == [other]


@pytest.mark.parametrize(
    ("unit", "written", "told"),
    [
        ("€", ["12 EUR", "€ 5", "EUR 1.250,50"], "2 amounts are"), ("EUR", ["12 €", "5 EUR", "EUR 5"], "1 amount is"),
        ("USD", ["12 US$", "US$5", "USD 7"], "2 amounts are"), ("US$", ["USD 12", "US$ 5", "7"], "1 amount is"),
    ],
)  # fmt: skip
def test_another_name_of_the_currency_is_read_and_told_once(unit: str, written: list[str], told: str) -> None:
    noted = {"numeric": [{"column": "price", "kind": "numeric"}], "spelling": {"price": unit}, "missing": ["price"]}
    heard: list[str] = []
    read = as_trained(noted, pa.table({"price": written}), heard.append)["price"].to_pylist()
    assert [float(value) for value in read] == [12, 5, {"EUR 1.250,50": 1250.5, "EUR 5": 5}.get(written[2], 7)]
    assert len(heard) == 1 and heard[0].startswith(f"Column 'price': {told} written with another name of {unit!r}")
    assert f"such as {written[0]!r} in row 1" in heard[0]
    assert table_rows.plain_numbers(written, unit, prefer_comma=False) == read


@pytest.mark.parametrize("price", ["EUR 5 USD", "5 JPY", "€5 EUR", "EUR", "5 kr", "EURO 5"])
def test_what_is_no_clear_amount_of_the_currency_is_no_number(price: str) -> None:
    noted = {"numeric": [{"column": "price", "kind": "numeric"}], "spelling": {"price": "€"}, "missing": ["price"]}
    assert as_trained(noted, pa.table({"price": [price, "5"]}), lambda _: None)["price"].to_pylist() == [None, "5"]
    assert table_rows.plain_numbers([price], "€", prefer_comma=False) == [price]


@pytest.mark.parametrize("unit", ["CHF", "%", "€"])
def test_a_sign_apart_from_its_number_is_read_alike_for_units_with_and_without_other_names(unit: str) -> None:
    noted = {"numeric": [{"column": "price", "kind": "numeric"}], "spelling": {"price": unit}, "missing": ["price"]}
    given = ["- 5", "+ 5", f"-{unit} 5", f"- 5 {unit}", f"{unit} -5", "-5", "5"]
    read = as_trained(noted, pa.table({"price": given}), lambda _: None)["price"].to_pylist()
    assert read == [None, None, "-5", None, "-5", "-5", "5"]
    plain = table_rows.plain_numbers(given, unit, prefer_comma=False)
    assert [text if table_rows.NUMBER.fullmatch(text) else None for text in plain] == read


def test_currencies_of_one_name_are_those_of_the_profile() -> None:
    names = [name for one in currencies.CURRENCIES for name in one]
    assert currencies.CURRENCIES == table_rows.CURRENCIES and len(names) == len(set(names))
    assert set(names) <= set(UNITS)


def test_two_figures_of_which_training_had_none_count_as_missing_where_values_were_missing_in_training() -> None:
    noted = {"numeric": [{"column": "took", "kind": "numeric"}], "spelling": {"took": "h:mm:ss"}, "missing": ["took"]}
    told: list[str] = []
    read = as_trained(noted, pa.table({"took": ["0:38:53", None, "1:15", "12"]}), told.append)
    assert read["took"].to_pylist() == ["2333", None, None, "12"]
    assert "such as '1:15' in row 3" in told[0]


CLOCKS = st.from_regex(r"\A(-?\d{1,3} days?,? )?[+-]?\d{1,3}:[0-5]\d(:[0-5]\d)?([.,]\d{1,3})?\Z")


@example(text="\u0660:00", style="h:mm")  # a digit, but of no number that can be read
@given(text=CLOCKS | st.text("0123456789:.,- days", max_size=12), style=st.sampled_from(types.CLOCKS))
def test_durations_mean_the_same_to_profile_prediction_and_exported_script(text: str, style: str) -> None:
    [packed] = numbers(pl.Series([text]), NumberStyle(style))
    noted = {"numeric": [{"column": "took", "kind": "numeric"}], "spelling": {"took": style}, "missing": ["took"]}
    [read] = as_trained(noted, pa.table({"took": [text]}), lambda _: None)["took"].to_pylist()
    if packed is None:
        return
    if style == types.CLOCK_FULL and not re.search(r":.*:|[.,]\d+$", text):
        assert read is None  # no column of this spelling has such a value, or it would have another
        return
    assert read is not None and float(read) == pytest.approx(packed, rel=1e-12)
    assert table_rows.number(text, "", style) == pytest.approx(packed, rel=1e-12)
