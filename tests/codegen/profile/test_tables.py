"""Good tables in every dress: formats, encodings, types, figures."""

from __future__ import annotations

import gzip
import io
import json
from datetime import datetime
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from codegen.profile import read_rows
from codegen.profile.leaks import leak_suspects
from codegen.profile.types import PROFILE_FILE, TABLE_FILE, ColumnProfile, ColumnType, DatasetProfile, Severity
from tests.codegen.profile.uploads import Lab, finding

NAMES = ("id", "age", "city", "born", "notes", "same", "income")


def people(rows: int = 200) -> list[tuple[object, ...]]:
    rng = np.random.default_rng(3)
    return [
        (
            1000 + row,
            int(rng.integers(18, 90)),
            ("Köln", "Paris", "Łódź")[row % 3],
            f"19{50 + row % 40}-0{1 + row % 9}-1{row % 9}",
            f'a longer note, number {row}, with words and "quotes"',
            "x",
            (">50K", "<=50K")[int(rng.random() < 0.7)],
        )
        for row in range(rows)
    ]


def as_csv(delimiter: str = ",", newline: str = "\n") -> str:
    def cell(value: object) -> str:
        text = str(value)
        return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in (delimiter, '"', "\n")) else text

    lines = [delimiter.join(NAMES), *(delimiter.join(cell(value) for value in row) for row in people())]
    return newline.join(lines) + newline


def as_json() -> str:
    return "\n".join(json.dumps(dict(zip(NAMES, row, strict=True)), ensure_ascii=False) for row in people())


def as_parquet() -> bytes:
    target = io.BytesIO()
    columns = dict(zip(NAMES, map(list, zip(*people(), strict=True)), strict=True))
    columns["born"] = [datetime.fromisoformat(str(text)) for text in columns["born"]]
    pq.write_table(pa.table(columns), target)
    return target.getvalue()


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("a.csv", as_csv().encode()),
        ("a.csv", as_csv(newline="\r\n").encode()),
        ("a.csv", b"\xef\xbb\xbf" + as_csv().encode()),
        ("a.csv", as_csv().encode("utf-16")),
        ("a.csv", as_csv(newline="\r").encode()),
        ("a.tsv", as_csv("\t").encode()),
        ("a.csv", as_csv(";").encode()),
        ("a.txt", as_csv("|").encode()),
        ("a.csv.gz", gzip.compress(as_csv().encode(), mtime=0)),
        ("a.jsonl", as_json().encode()),
        ("a.jsonl.gz", gzip.compress(as_json().encode(), mtime=0)),
        ("a.parquet", as_parquet()),
        ("a.parquet.gz", gzip.compress(as_parquet(), mtime=0)),
    ],
)
def test_every_format_gives_the_same_table(lab: Lab, name: str, body: bytes) -> None:
    profile = lab.profile(name, body)
    assert [(column.name, column.type.value) for column in profile.columns] == [
        ("id", "identifier"),
        ("age", "numeric"),
        ("city", "category"),
        ("born", "date"),
        ("notes", "text"),
        ("same", "constant"),
        ("income", "category"),
    ]
    assert (profile.target, profile.task, profile.rows) == ("income", "tabular_classification", 200)
    assert "how long it is" in finding(profile, "text_column", "notes").meaning  # data.py reads no more of a text
    table = lab.table()
    rows = people()
    assert table["city"].to_pylist() == [row[2] for row in rows]
    assert table["age"].to_pylist() == [row[1] for row in rows]
    assert table["notes"].to_pylist() == [row[4] for row in rows]
    assert table["born"].to_pylist()[0] == datetime(1950, 1, 10)
    assert table.schema.field("age").type == pa.int64()


def test_the_profile_on_disk_is_the_one_returned(lab: Lab) -> None:
    profile = lab.profile("a.csv", as_csv())
    assert DatasetProfile.from_dict(json.loads((lab.out / PROFILE_FILE).read_text())) == profile
    assert profile.packed_bytes == (lab.out / TABLE_FILE).stat().st_size
    assert lab.progress[0] == 0 and lab.progress[-1] == 1 and lab.progress == sorted(lab.progress)


@pytest.mark.parametrize(("encoding", "letter"), [("latin-1", "é"), ("cp1252", "€")])
def test_an_encoding_that_is_no_utf8_is_guessed_and_told(lab: Lab, encoding: str, letter: str) -> None:
    body = "x,city,label\n" + "".join(f"{i % 8},caf{letter},{'ab'[i % 2]}\n{i},b,a\n" for i in range(40))
    profile = lab.profile("a.csv", body.encode(encoding))
    assert lab.table()["city"][0].as_py() == f"caf{letter}"
    assert encoding in finding(profile, "encoding_guessed").message


def test_an_encoding_that_shows_only_late_in_the_file_is_found(lab: Lab) -> None:
    plain = "".join(f"{i % 8},{i % 31},{'ab'[i % 2]}\n" for i in range(60_000))
    body = f"x,z,label\n{plain}1,2,é\n".encode("latin-1")
    profile = lab.profile("a.csv", body)
    found = finding(profile, "encoding_guessed")
    assert found.rows == (60_002,)
    assert profile.rows == 60_001 and dict(profile.classes)["é"] == 1


def test_a_table_without_header_gets_names(lab: Lab) -> None:
    profile = lab.profile("a.csv", "".join(f"{i % 7},{i / 3:.3f},{'ab'[i % 2]}\n" for i in range(60)))
    assert [column.name for column in profile.columns] == ["column_1", "column_2", "column_3"]
    assert profile.rows == 60
    assert finding(profile, "no_header")


def test_numbers_can_be_names_of_columns(lab: Lab) -> None:
    profile = lab.profile("a.csv", "country,2019,2020\n" + "".join(f"c{i % 9},{i},{i * 2}\n" for i in range(60)))
    assert [column.name for column in profile.columns] == ["country", "2019", "2020"]


def test_the_header_can_be_set(lab: Lab) -> None:
    body = "1,2,3\n" + "".join(f"{i % 7},{i},{i % 2}\n" for i in range(60))
    assert [column.name for column in lab.profile("a.csv", body, header=True).columns] == ["1", "2", "3"]


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


def test_broken_letters_in_json_are_replaced(lab: Lab) -> None:
    rows = (f'{{"x": {row}, "t\\udc00": "a\\ud800", "label": "l"}}' for row in range(30))
    lab.profile("a.jsonl", "\n".join(rows))
    assert lab.table()["t?"].to_pylist()[0] == "a?"


def test_a_header_longer_than_the_sample_is_read(lab: Lab) -> None:
    names = [f"a_long_column_name_{'x' * 60}_{number}" for number in range(4000)]
    rows = "".join(",".join(str((row * 7 + at) % 10) for at in range(4000)) + "\n" for row in range(12))
    assert [column.name for column in lab.profile("a.csv", ",".join(names) + "\n" + rows).columns] == names


def test_an_encoding_may_be_corrected_twice(lab: Lab) -> None:
    plain = b"".join(b"%d,%d,a\n" % (i % 8, i % 31) for i in range(600_000))
    profile = lab.profile("a.csv", b"x,z,label\n" + plain + b"1,2,\x80\n" + plain + b"1,2,\x81\n")
    assert profile.rows == 1_200_002 and "latin-1" in profile.source_format


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
    column = profile.column("price")
    assert column and column.type is not ColumnType.NUMERIC
    assert "'0,000'" in finding(profile, "numbers_as_words", "price").message


@pytest.mark.parametrize("spelling", ["{}.5%", "${}", "{},25 €", "1 {:03d},50", "\u2212{}.5", "CHF"])
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


def test_one_of_a_thing_is_told_in_the_singular(lab: Lab) -> None:
    rows = [f"{i * 0.3},{i % 7},{'ab'[i % 2]}" for i in range(60)]
    body = "x,z,label\n" + "\n".join([*rows[:59], f"inf,{'word'},b", rows[3], "1,2"]) + "\n"
    profile = lab.profile("a.csv", body)
    said = {found.code: found.message for found in profile.warnings}
    assert said["duplicate_rows"].startswith("1 row repeats an earlier row")
    assert said["ragged_rows"].startswith("1 line does not have the 3 fields")
    assert "1 infinite or too large value." in said["infinite_values"]
    assert "1 value is a word:" in said["mixed_types"]
    assert "in 1 of 61 rows" in said["missing_values"]


def test_one_column_left_out_of_parquet_is_told_in_the_singular(lab: Lab) -> None:
    target = io.BytesIO()
    pq.write_table(pa.table({"x": [1.5, 2.5] * 30, "parts": [[1], [2]] * 30, "label": ["a", "b"] * 30}), target)
    profile = lab.profile("a.parquet", target.getvalue())
    assert finding(profile, "unsupported_columns").message.startswith("1 column was left out: 'parts'")


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


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_wide_text_without_a_mark_is_read(lab: Lab, encoding: str) -> None:
    body = "x,größe,label\n" + "".join(f"{i * 0.3},{i % 4},{'ab'[i % 2]}\n" for i in range(60))
    profile = lab.profile("a.csv", body.encode(encoding))
    assert [column.name for column in profile.columns] == ["x", "größe", "label"]
    assert encoding in profile.source_format


def test_a_very_long_field_does_not_hide_the_delimiter(lab: Lab) -> None:
    body = "x,note,label\n" + "".join(
        f"{i * 0.3},{'w' * (200_000 if i == 3 else 3)},{'ab'[i % 2]}\n" for i in range(60)
    )
    assert len(lab.profile("a.csv", body).columns) == 3


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


def test_a_copy_of_the_target_is_a_leak(lab: Lab) -> None:
    rng = np.random.default_rng(1)
    body = "x,code,target\n" + "".join(
        f"{rng.normal():.4f},{('p', 'q', 'r')[kind]},{('a', 'b', 'c')[kind]}\n" for kind in rng.integers(0, 3, 300)
    )
    found = finding(lab.profile("a.csv", body), "leak_suspect")
    assert (found.column, found.severity) == ("code", Severity.DANGER)


def test_a_feature_that_makes_a_numeric_target_is_a_leak(lab: Lab) -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=400)
    body = "noise,price_pred,price\n" + "".join(
        f"{rng.normal():.4f},{value * 2 + rng.normal() * 1e-3:.5f},{value:.5f}\n" for value in values
    )
    found = finding(lab.profile("a.csv", body), "leak_suspect")
    assert found.column == "price_pred" and "name" in found.message


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("problem", False), ("improbable", False), ("copyright", False), ("construed", False), ("underscores_x", False),
        ("prob", True), ("prob_1", True), ("y_pred", True), ("Churn Score", True), ("churnScore", True),
        ("predictions", True), ("probability", True), ("true_label", True), ("SCORE", True),
    ],
)  # fmt: skip
def test_a_name_is_suspicious_by_whole_words(name: str, named: bool) -> None:
    sample = pl.DataFrame(
        {name: [f"{row % 4}" for row in range(400)], "goal": ["ab"[row % 4 > 2] for row in range(400)]}
    )
    kind = ColumnType.CATEGORY
    column = ColumnProfile(name=name, type=kind, guessed_type=kind, reason="", missing=0, unique=4)
    (leak,) = leak_suspects(sample, [column], "goal", regression=False)
    assert leak.named is named


def test_honest_features_are_no_leaks(lab: Lab) -> None:
    from sklearn.datasets import load_wine

    wine = load_wine()
    rows = [",".join(map(str, (*row, kind))) for row, kind in zip(wine.data, wine.target, strict=True)]
    profile = lab.profile("wine.csv", "\n".join([",".join([*wine.feature_names, "target"]), *rows]))
    assert (profile.target, profile.task) == ("target", "tabular_classification")
    assert not [entry for entry in profile.warnings if entry.code == "leak_suspect"]


def test_repeated_rows_are_counted_and_named_whatever_their_id(lab: Lab) -> None:
    lines = [f"{i},{i % 50 * 0.37:.2f},{'ab'[i % 2]}" for i in range(50)] + ["50,0.00,a", "51,0.37,b"]
    profile = lab.profile("a.csv", "id,x,label\n" + "\n".join(lines))
    assert profile.duplicate_rows == 2
    assert finding(profile, "duplicate_rows").rows == (51, 52)


def test_an_uneven_target_is_told(lab: Lab) -> None:
    body = "x,label\n" + "".join(f"{i % 17},{'b' if i % 100 == 3 else 'a'}\n" for i in range(1000))
    found = finding(lab.profile("a.csv", body), "imbalanced_target")
    assert "99.0%" in found.message


def test_a_given_split_column_is_kept(lab: Lab) -> None:
    parts = ("Training", "valid", "TEST")
    body = "x,label,__split__\n" + "".join(f"{i % 17},{'ab'[i % 2]},{parts[i % 3]}\n" for i in range(90))
    profile = lab.profile("a.csv", body)
    assert dict(profile.given_split) == {"train": 30, "val": 30, "test": 30}
    assert [column.name for column in profile.columns] == ["x", "label"]
    assert lab.table()["__split__"].to_pylist()[:3] == ["train", "val", "test"]


def test_profiling_again_replaces_the_first(lab: Lab) -> None:
    lab.profile("a.csv", as_csv())
    lab.profile("a.csv", as_csv(), target="city")
    assert json.loads((lab.out / PROFILE_FILE).read_text())["target"] == "city"
    assert sorted(path.name for path in lab.out.iterdir()) == [PROFILE_FILE, TABLE_FILE]


def test_what_a_killed_reading_left_is_removed(lab: Lab) -> None:
    (lab.out / ".profile-dead" / "made").mkdir(parents=True)
    lab.profile("a.csv", as_csv())
    assert sorted(path.name for path in lab.out.iterdir()) == [PROFILE_FILE, TABLE_FILE]


def test_rows_are_read_back_by_offset(lab: Lab) -> None:
    body = "x,when,label\n" + "".join(
        f"{'' if i == 250_001 else i / 4},2020-01-02,{'ab'[i % 2]}\n" for i in range(250_010)
    )
    lab.profile("a.csv", body)
    assert pq.ParquetFile(lab.out / TABLE_FILE).num_row_groups > 1
    columns, rows = read_rows(lab.out, 250_000, 3)
    assert columns == ["x", "when", "label"]
    assert rows == [
        [62500.0, "2020-01-02", "a"],
        [None, "2020-01-02", "b"],
        [62500.5, "2020-01-02", "a"],
    ]
    assert read_rows(lab.out, 99_999, 2)[1] == [[24999.75, "2020-01-02", "b"], [25000.0, "2020-01-02", "a"]]
    assert read_rows(lab.out, 10**9, 5)[1] == []
