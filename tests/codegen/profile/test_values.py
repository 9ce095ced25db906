"""How the values of a column are read: numbers, dates, codes, classes, what counts as missing, and what is told."""

from __future__ import annotations

import io
from datetime import datetime
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from codegen.profile.survey import ColumnSurvey
from codegen.profile.types import ColumnType, Severity
from tests.codegen.profile.uploads import Lab, as_csv, finding
from worker.runtime.spelling import as_trained


def test_a_type_that_a_person_set_wins(lab: Lab) -> None:
    profile = lab.profile("a.csv", as_csv(), column_types={"age": ColumnType.CATEGORY, "city": ColumnType.TEXT})
    age = profile.column("age")
    assert age and (age.type, age.guessed_type) == (ColumnType.CATEGORY, ColumnType.NUMERIC)
    assert lab.table().schema.field("age").type == pa.string()


def test_words_set_to_numeric_are_told_as_unusable(lab: Lab) -> None:
    profile = lab.profile("a.csv", as_csv(), column_types={"city": ColumnType.NUMERIC})
    assert "Of its 200 values none" in finding(profile, "all_missing", "city").message


def test_missing_markers_are_null_in_the_packed_table(lab: Lab) -> None:
    marks = ("", " ", "?", "NA", "null", "NaN", "N/A", "-")
    body = "x,city,label\n" + "".join(
        f"{marks[i % 8] if i % 2 else i},{marks[i % 8]},{'ab'[i % 2]}\n" for i in range(80)
    )
    profile = lab.profile("a.csv", body)
    x, city = profile.column("x"), profile.column("city")
    assert x and city and (x.type, x.missing, city.missing) == (ColumnType.NUMERIC, 40, 80)
    missing = finding(profile, "missing_values", "x")
    assert missing.rows == (2, 4, 6, 8, 10) and "median of the training rows" in missing.meaning


def test_missing_values_of_a_category_are_told_to_be_one_of_their_own(lab: Lab) -> None:
    body = "city,x,label\n" + "".join(f"{'pqr?'[i % 4]},{i},{'ab'[i % 2]}\n" for i in range(80))
    profile = lab.profile("a.csv", body)
    assert "a category of their own" in finding(profile, "missing_values", "city").meaning


def test_figures_of_a_numeric_column_are_right(lab: Lab) -> None:
    values = np.random.default_rng(0).normal(1e6, 3, 5000).round(4)
    profile = lab.profile("a.csv", "x,label\n" + "".join(f"{value},{'ab'[i % 2]}\n" for i, value in enumerate(values)))
    column = profile.column("x")
    assert column and column.mean == pytest.approx(values.mean(), rel=1e-12)
    assert column.std == pytest.approx(values.std(), rel=1e-6)
    assert (column.minimum, column.maximum) == (values.min(), values.max())
    assert column.quantiles == pytest.approx(np.quantile(values, (0.05, 0.25, 0.5, 0.75, 0.95)))
    assert sum(column.histogram_counts) == 5000 and len(column.histogram_edges) == len(column.histogram_counts) + 1
    assert column.unique == len(np.unique(values)) and column.unique_is_exact


def test_dates_of_a_parquet_file_that_are_set_to_numeric_are_told_as_unusable(lab: Lab) -> None:
    days = [datetime(2020, 1, 1 + at % 28) for at in range(60)]
    target = io.BytesIO()
    pq.write_table(pa.table({"when": days, "x": list(range(60)), "label": ["a", "b"] * 30}), target)
    profile = lab.profile("a.parquet", target.getvalue(), column_types={"when": ColumnType.NUMERIC})
    assert "Of its 60 values none" in finding(profile, "all_missing", "when").message
    assert lab.table()["when"].null_count == 60


def test_infinite_values_become_null_and_are_named(lab: Lab) -> None:
    body = "x,label\n" + "".join(
        f"{'inf' if i == 4 else '1e999' if i == 9 else i / 7},{'ab'[i % 2]}\n" for i in range(60)
    )
    profile = lab.profile("a.csv", body)
    assert finding(profile, "infinite_values", "x").rows == (5, 10)
    assert lab.table()["x"].null_count == 2


def test_values_near_the_largest_float_do_not_break_the_figures(lab: Lab) -> None:
    body = "x,label\n" + "".join(f"{'-' if i % 2 else ''}1.{i}e308,{'ab'[i % 2]}\n" for i in range(60))
    column = lab.profile("a.csv", body).column("x")
    assert column and column.type is ColumnType.NUMERIC and column.std is None


def test_a_decimal_comma_is_read_where_semicolons_separate(lab: Lab) -> None:
    body = "x;y2;label\n" + "".join(f"{i},{i % 10};{i};{'ab'[i % 2]}\n" for i in range(60))
    profile = lab.profile("a.csv", body)
    assert lab.table()["x"].to_pylist()[:3] == [0.0, 1.1, 2.2]
    assert finding(profile, "number_style", "x")


def test_thousands_marks_are_read(lab: Lab) -> None:
    body = "price,z,label\n" + "".join(f'"{1000 + i * 37:,}",{i % 4},{"ab"[i % 2]}\n' for i in range(60))
    lab.profile("a.csv", body)
    assert lab.table()["price"].to_pylist()[:2] == [1000, 1037]


def test_a_nought_before_a_comma_is_no_thousand(lab: Lab) -> None:
    body = "price,z,label\n" + "".join(f'"{i % 9},{i:03d}",{i % 4},{"ab"[i % 2]}\n' for i in range(60))
    profile = lab.profile("a.csv", body)
    assert lab.table()["price"].to_pylist()[8:11] == [8.008, 0.009, 1.01]
    assert "60 numbers of 'price' are written with decimal comma" in finding(profile, "number_style", "price").message


@pytest.mark.parametrize(
    ("spelled", "expected"),
    [
        (["1,5", "12,25", "1.250,75", "1,250"], [1.5, 12.25, 1250.75, 1.25]),
        (["1,5", "1.250", "-0.5", "1.250.000"], [1.5, 1250.0, -0.5, 1250000.0]),
        (["1,500", "12,250", "1,250.75", "7"], [1500.0, 12250.0, 1250.75, 7.0]),
        (["1,500", "2,250", "3,750", "4,125"], [1500.0, 2250.0, 3750.0, 4125.0]),
    ],
    ids=["decimal comma", "points as thousands", "thousands", "in doubt"],
)
@pytest.mark.parametrize("delimiter", [",", "\t", "|"])
def test_what_a_comma_means_is_told_by_the_values_of_its_column(
    lab: Lab, delimiter: str, spelled: list[str], expected: list[float]
) -> None:
    rows = [f'"{spelled[i % 4]}"{delimiter}{i % 4}{delimiter}{"ab"[i % 2]}' for i in range(60)]
    profile = lab.profile("a.csv", "\n".join([delimiter.join(("price", "z", "label")), *rows]))
    column = profile.column("price")
    assert lab.table()["price"].to_pylist()[:4] == expected
    assert column and (column.minimum, column.maximum) == (min(expected), max(expected))
    assert column.spelling == ("decimal comma" if expected[0] == 1.5 else "thousands")


@pytest.mark.parametrize(
    ("spelled", "odd", "expected"),
    [
        (["0.512", "1.234", "12.5"], "2,5", [0.512, 1.234, 12.5, 2.5]),
        (["1,234", "999.50", "12.25"], "12,34", [1234.0, 999.5, 12.25, 12.34]),
        (["1,234", "999.50", "12.25"], "7", [1234.0, 999.5, 12.25, 7.0]),
    ],
    ids=["three decimals", "thousands", "no decimal comma"],
)
@pytest.mark.parametrize("delimiter", [",", ";"])
def test_one_decimal_comma_does_not_change_what_points_and_commas_of_all_others_mean(
    lab: Lab, delimiter: str, spelled: list[str], odd: str, expected: list[float]
) -> None:
    texts = [*spelled * 20, odd]
    rows = [f'"{text}"{delimiter}{at % 4}{delimiter}{"ab"[at % 2]}' for at, text in enumerate(texts)]
    profile = lab.profile("a.csv", "\n".join([delimiter.join(("price", "z", "label")), *rows]))
    column = profile.column("price")
    packed = lab.table()["price"].to_pylist()
    assert [*packed[:3], packed[-1]] == expected
    assert column and (column.minimum, column.maximum) == (min(expected), max(expected))
    assert column.spelling == "thousands"
    if "," in odd:
        assert "1 number of 'price' is written with a decimal comma" in finding(profile, "number_style").message
    noted = {"numeric": [{"column": "price", "kind": "numeric"}], "spelling": {"price": column.spelling}}
    read = as_trained(noted, pa.table({"price": texts}))["price"]
    assert read.cast(pa.float64()).to_pylist() == packed


def test_versions_are_no_dates(lab: Lab) -> None:
    versions = ["1.2.3", "1.2.4", "2.10.14", "3.11.4"]
    body = "version,x,label\n" + "".join(f"{versions[i % 4]},{i % 7},{'ab'[i % 2]}\n" for i in range(60))
    column = lab.profile("a.csv", body).column("version")
    assert column and (column.type, column.unique) == (ColumnType.CATEGORY, 4)
    noted = {"numeric": [{"column": "when", "kind": "dates"}], "spelling": {"when": "%d.%m.%y"}}
    read = as_trained(noted, pa.table({"when": ["1.2.03", "01.02.03"]}))["when"].to_pylist()
    assert read == [datetime(2003, 2, 1)] * 2
    assert as_trained(noted, pa.table({"when": ["1.2.3"]}))["when"].to_pylist() == ["1.2.3"]


def test_dates_are_read_though_the_first_batch_has_none() -> None:
    survey = ColumnSurvey("when", decimal_comma=False)
    survey.add(pl.Series([None] * 50 + ["not yet"] * 3))
    survey.add(pl.Series([f"2020-01-{1 + at % 28:02d}" for at in range(500)]))
    survey.settle(comma_elsewhere=False)
    assert survey.date_format == ("%Y-%m-%d", 500)


@pytest.mark.parametrize("clock", ["", " 13:05", " 13:05:59"])
def test_dates_that_may_be_read_in_two_ways_are_told(lab: Lab, clock: str) -> None:
    body = "when,x,label\n" + "".join(
        f"{1 + i % 12:02d}/{1 + i % 11:02d}/2020{clock},{i},{'ab'[i % 2]}\n" for i in range(60)
    )
    found = finding(lab.profile("a.csv", body), "date_order", "when")
    assert "read with the day first" in found.message
    sure = body + f"12/31/2020{clock},1,a\n"
    profile = lab.profile("b.csv", sure)
    assert "date_order" not in {found.code for found in profile.warnings}
    column = profile.column("when")
    assert column and column.type is ColumnType.DATE and column.spelling.startswith("%m/%d/%Y")


def test_points_are_decimal_where_no_comma_is(lab: Lab) -> None:
    lab.profile("a.csv", "x;y2;label\n" + "".join(f"{i}.{100 + i};{i};{'ab'[i % 2]}\n" for i in range(60)))
    assert lab.table()["x"].to_pylist()[:3] == [0.1, 1.101, 2.102]


@pytest.mark.parametrize(
    ("other", "expected", "read"),
    [("{i},5", [1234.0, 12.0, 12345.0], "as thousands"), ("{i}", [1.234, 12.0, 12.345], "with three decimals")],
    ids=["decimal commas elsewhere", "none anywhere"],
)
def test_points_that_may_be_thousands_are_told_and_read_as_the_other_columns_say(
    lab: Lab, other: str, expected: list[float], read: str
) -> None:
    spelled = ["1.234", "12", "12.345"]
    rows = [f"{spelled[i % 3]};{other.format(i=i)};{'ab'[i % 2]}" for i in range(60)]
    profile = lab.profile("a.csv", "\n".join(["price;z;label", *rows]))
    column = profile.column("price")
    assert lab.table()["price"].to_pylist()[:3] == expected
    assert column and (column.minimum, column.maximum) == (min(expected), max(expected))
    assert read in finding(profile, "points_in_doubt", "price").message


@pytest.mark.parametrize("sure", ["0.5", "12.25", "1234", "1.2345"])
def test_a_value_that_can_be_no_thousand_leaves_no_doubt_what_points_are(lab: Lab, sure: str) -> None:
    rows = [f"{'1.234' if i % 3 else sure};{i},5;{'ab'[i % 2]}" for i in range(60)]
    profile = lab.profile("a.csv", "\n".join(["price;z;label", *rows]))
    assert lab.table()["price"].to_pylist()[:2] == [float(sure), 1.234]
    assert "points_in_doubt" not in {found.code for found in profile.warnings}


@pytest.mark.parametrize("beside", ["2,500", "12", "1234"])
def test_commas_that_may_be_decimal_are_told(lab: Lab, beside: str) -> None:
    rows = [f"{'1,234' if i % 3 else beside}\t{i}\t{'ab'[i % 2]}" for i in range(60)]
    profile = lab.profile("a.tsv", "\n".join(["price\tz\tlabel", *rows]))
    assert lab.table()["price"].to_pylist()[:2] == [float(beside.replace(",", "")), 1234.0]
    found = finding(profile, "points_in_doubt", "price")
    assert "like 1,234 may be thousands or have three decimals" in found.message
    assert found.severity is Severity.WARNING


@pytest.mark.parametrize(("price", "other"), [("0.5", "1"), ("1,234.5", "1"), ("1,234,567", "1"), ("1,500", "1.5")])
def test_a_value_that_can_be_no_decimal_comma_leaves_no_doubt_what_commas_are(lab: Lab, price: str, other: str) -> None:
    rows = [f"{'1,234' if i % 3 else price}\t{other}\t{i % 5}\t{'ab'[i % 2]}" for i in range(60)]
    profile = lab.profile("a.tsv", "\n".join(["price\tz\tx\tlabel", *rows]))
    assert lab.table()["price"].to_pylist()[:2] == [float(price.replace(",", "")), 1234.0]
    assert "points_in_doubt" not in {found.code for found in profile.warnings}


def test_points_between_commas_are_no_matter_of_doubt(lab: Lab) -> None:
    rows = [f"{'1.234' if i % 2 else '7,5'};{i % 9};{'ab'[i % 2]}" for i in range(60)]
    profile = lab.profile("a.csv", "\n".join(["price;z;label", *rows]))
    assert lab.table()["price"].to_pylist()[:2] == [7.5, 1234.0]
    assert "points_in_doubt" not in {found.code for found in profile.warnings}


def test_what_a_point_means_is_not_told_by_the_batch_it_comes_in() -> None:
    survey = ColumnSurvey("price", decimal_comma=True)
    for batch in (["1.234", "2.500"], ["1,5", "2,25"]):
        survey.add(pl.Series(batch))
    survey.settle(comma_elsewhere=False)
    assert (survey.numbers.count, survey.numbers.minimum, survey.numbers.maximum) == (4, 1.5, 2500.0)


def test_words_beside_decimal_commas_are_named_and_count_as_missing(lab: Lab) -> None:
    body = "x\tlabel\n" + "".join(f"{'unknown' if i == 7 else f'{i},5'}\t{'ab'[i % 2]}\n" for i in range(60))
    profile = lab.profile("a.tsv", body)
    assert "'unknown' in row 8" in finding(profile, "mixed_types", "x").message
    assert lab.table()["x"].null_count == 1


@pytest.mark.parametrize("spelling", ["1 {:03d},50", "\u2212{}.5", "$1 {:03d}", "CHF"])
def test_numbers_that_were_read_as_words_are_told(lab: Lab, spelling: str) -> None:
    body = "rate\tz\tlabel\n" + "".join(f"{spelling.format(i % 40)}\t{i % 4}\t{'ab'[i % 2]}\n" for i in range(60))
    codes = {found.code for found in lab.profile("a.tsv", body).warnings if found.column == "rate"}
    assert ("numbers_as_words" in codes) == ("{" in spelling)


def test_words_that_count_as_missing_are_named(lab: Lab) -> None:
    body = "country,x,label\n" + "".join(
        f"{('NA', 'DE', '')[i % 3]},{i * 0.3},{('None', 'mild', 'ill')[i % 3]}\n" for i in range(60)
    )
    profile = lab.profile("a.csv", body)
    assert "'NA' (20)" in finding(profile, "missing_markers", "country").message
    found = finding(profile, "missing_markers", "label")
    assert "'None' (20)" in found.message and found.severity is Severity.WARNING


def test_whole_numbers_too_large_to_be_exact_are_told(lab: Lab) -> None:
    body = "key,x,label\n" + "".join(f"{2**60 + i},{i * 0.3},{'ab'[i % 2]}\n" for i in range(60))
    assert "60 whole numbers" in finding(lab.profile("a.csv", body), "inexact_numbers", "key").message
    profile = lab.profile("a.csv", body, column_types={"key": ColumnType.CATEGORY})
    assert not [found for found in profile.warnings if found.code == "inexact_numbers"]
    assert lab.table()["key"][1].as_py() == str(2**60 + 1)


KEYS = {
    "uint64": (pa.uint64(), 2**63),
    "int64": (pa.int64(), 2**60),
    "decimal of 18 digits": (pa.decimal128(18, 0), 10**17 + 1),
    "decimal of 38 digits": (pa.decimal128(38, 0), 10**20 + 1),
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_in_parquet_too_large_to_be_exact_are_told_and_kept_whole_as_categories(lab: Lab, kind: str) -> None:
    arrow, first = KEYS[kind]
    keys = [first + i // 2 for i in range(60)]
    target = io.BytesIO()
    values = pa.array([Decimal(key) for key in keys] if pa.types.is_decimal(arrow) else keys, arrow)
    pq.write_table(pa.table({"key": values, "x": [i * 0.3 for i in range(60)], "label": ["a", "b"] * 30}), target)
    assert "60 whole numbers" in finding(lab.profile("a.parquet", target.getvalue()), "inexact_numbers", "key").message
    profile = lab.profile("a.parquet", target.getvalue(), column_types={"key": ColumnType.CATEGORY})
    assert not [found for found in profile.warnings if found.code == "inexact_numbers"]
    assert lab.table()["key"].to_pylist() == [str(key) for key in keys]


def test_small_numbers_of_wide_types_stay_whole_numbers(lab: Lab) -> None:
    target = io.BytesIO()
    numbers = [None, *(i % 7 for i in range(59))]
    columns = {"u": pa.array(numbers, pa.uint64())}
    for digits in (18, 38):
        exact = [None if number is None else Decimal(number) for number in numbers]
        columns[f"d{digits}"] = pa.array(exact, pa.decimal128(digits, 0))
    pq.write_table(pa.table({**columns, "label": ["a", "b"] * 30}), target)
    profile = lab.profile("a.parquet", target.getvalue())
    assert not [found for found in profile.warnings if found.code == "inexact_numbers"]
    for name in columns:
        assert lab.table()[name].type == pa.int64() and lab.table()[name][:3].to_pylist() == [None, 0, 1]


def test_classes_in_two_spellings_are_told(lab: Lab) -> None:
    body = "x,z,label\n" + "".join(f"{i * 0.3},{i % 4},{('Yes', 'yes', 'no')[i % 3]}\n" for i in range(60))
    assert "'Yes', 'yes'" in finding(lab.profile("a.csv", body), "similar_class_names").message


def test_categories_in_two_spellings_are_told_of_inputs_and_of_a_target_once(lab: Lab) -> None:
    words = ("Yes", "no", "yes", "NO", "maybe")
    body = "news,city,label\n" + "".join(
        f"{words[i % 5]},{('Rome', 'Oslo')[i % 2]},{words[i % 3]}\n" for i in range(60)
    )
    profile = lab.profile("a.csv", body)
    assert "'NO', 'no', 'Yes', 'yes'" in finding(profile, "similar_categories", "news").message
    assert [found.column for found in profile.warnings if found.code == "similar_categories"] == ["news"]
    assert "'Yes', 'yes'" in finding(profile, "similar_class_names").message


def test_spellings_are_quoted_in_part_where_they_are_long(lab: Lab) -> None:
    tail = "x" * 100
    body = "news,city,label\n" + "".join(
        f"{('Rome', 'rome')[i % 2]}{tail},{i % 4},{('Yes', 'yes')[i % 2]}{tail}\n" for i in range(60)
    )
    profile = lab.profile("a.csv", body, column_types={"news": ColumnType.CATEGORY, "label": ColumnType.CATEGORY})
    told = finding(profile, "similar_categories", "news")
    assert f"'Rome{'x' * 76}…', 'rome{'x' * 76}…'." in told.message
    assert told.meaning.startswith("They count as different values, each with fewer rows to learn it from.")
    assert f"'Yes{'x' * 77}…', 'yes{'x' * 77}…'." in finding(profile, "similar_class_names").message


def test_codes_with_leading_zeros_stay_text(lab: Lab) -> None:
    body = "zip,z,label\n" + "".join(f"{(i % 9) * 1111:05d},{i % 4},{'ab'[i % 2]}\n" for i in range(60))
    profile = lab.profile("a.csv", body)
    column = profile.column("zip")
    assert column and column.type is ColumnType.CATEGORY
    assert lab.table()["zip"][1].as_py() == "01111"


@pytest.mark.parametrize(
    "pattern", ["%Y-%m-%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S"]
)
def test_dates_are_read(lab: Lab, pattern: str) -> None:
    days = [datetime(2020, 1 + i % 12, 1 + i % 28, 4, 5, 6) for i in range(60)]
    body = "when,z,label\n" + "".join(f"{day:{pattern}},{i % 5},{'ab'[i % 2]}\n" for i, day in enumerate(days))
    profile = lab.profile("a.csv", body)
    column = profile.column("when")
    assert column and column.type is ColumnType.DATE
    assert [value.date() for value in lab.table()["when"].to_pylist()] == [day.date() for day in days]
