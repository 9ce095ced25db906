"""The script beside model.onnx encodes every kind of column as data.py does, from a CSV's texts."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import sys
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from tests.codegen.data_tables import REVIEWS_SHAPE, TABULAR, load_table, make_reviews, make_table
from worker.cells import cell
from worker.runtime import seen
from worker.runtime.onnx_export import predict_table, table_rows
from worker.runtime.onnx_export.scripts import _plain_rows, scripts_for
from worker.runtime.onnx_export.table_rows import NUMBER
from worker.runtime.spelling import as_trained
from worker.runtime.tables import DECIMAL_COMMA, read_rows

AGE = {"column": "age", "kind": "numeric", "feature": "age", "scaling": "quartiles", "median": 1.0, "scale": 2.0}
SCRIPTS = {"predict_onnx.py", "answers.py", "table_rows.py", "row_text.py", "unseen.py"}


@pytest.mark.parametrize("rows", [400, 3000])  # by quartiles, by ranks
def test_all_kinds_of_columns_are_encoded_as_in_training(rows: int, tmp_path) -> None:
    table = make_table(rows)
    dataset = load_table(tmp_path, table)
    sample = table.slice(40, 64)  # with a missing age and a missing city
    tensors = [tensor.numpy() for tensor in TABULAR.transform(dataset.preprocess, sample)]
    assert {entry["kind"] for entry in dataset.preprocess["numeric"]} >= {"numeric", "dates"}
    made = predict_table.encode(dataset.preprocess, _plain_rows(sample))
    for one, other in zip(made, tensors, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    assert set(scripts_for(dataset.preprocess, sample, tensors)) == SCRIPTS
    assert not scripts_for(dataset.preprocess, sample, [tensors[0] + 1, tensors[1]])


def test_words_are_read_by_the_script_as_in_training(tmp_path) -> None:
    reviews = make_reviews()
    foreign = [f"{text} 好吃👍" if text and "lovely" in text else text for text in reviews["review"].to_pylist()]
    reviews = reviews.set_column(0, "review", pa.array(foreign, pa.string()))
    dataset = load_table(tmp_path, reviews, **REVIEWS_SHAPE)
    odd = ["AWFUL3, awful3 and Lovely4!", "İ ΟΔΟΣ", "no word that is known", None, "lovely3 " * 2500 + "awful5"]
    odd += ["很好,吃好。吃", "👍👍lovely3好", "ไม่ ΟΔΟΣ吃"]
    texts = reviews["review"].to_pylist()[:60] + odd
    sample = pa.table({"review": pa.array(texts, pa.string()), "day": np.linspace(-1, 1, len(texts))})
    tensors = [tensor.numpy() for tensor in TABULAR.transform(dataset.preprocess, sample)]
    made = predict_table.encode(dataset.preprocess, _plain_rows(sample))
    assert made[0].shape[1] == 13  # a number, two lengths, one indicator, eight topics, a score
    np.testing.assert_allclose(made[0], tensors[0], rtol=1e-5, atol=1e-5)


def test_words_of_models_without_scores_are_read_as_before() -> None:
    learned = {"words": ["a", "b"], "weights": [1.0, 1.0], "topics": 1, "directions": "ADwAQA=="}  # 1 and 2
    found = predict_table.encode_words(learned, ["A", "b b", "c", ""])
    np.testing.assert_allclose(found.pop("topic 1"), [1, 2, 0, np.nan])
    assert not found


@pytest.mark.parametrize(("missing", "numbers"), [({}, [2, 0, 0]), ({"missing": False}, [2, 0, 0]),
                                                  ({"missing": True}, [2, 0, 3])])  # fmt: skip
@pytest.mark.parametrize(("known", "text"), [(["a", "b"], "b"), (["true", "false"], "FALSE")])
def test_a_missing_category_has_the_number_that_it_had_in_training(known, text, missing, numbers) -> None:
    entry = {"column": "city", "values": known, **missing}
    assert predict_table.encode_category(entry, [text, "other", ""]).tolist() == numbers


@pytest.mark.parametrize(
    ("text", "spelled", "written"),
    [
        ("1,234.5", "", "1234.5"), ("1234.5", "", "1234.5"), ("1.234,5", "decimal comma", "1234.5"),
        ("2,5", "decimal comma", "2.5"),
        ("79,409", "thousands", "79409"), ("€ 1,250", "thousands, €", "1250"), ("12,5", "thousands", "12.5"),
        ("€ 12", "€", "12"), ("3,5 €", "decimal comma, €", "3.5"), ("-7e2", "", "-7e2"),
        ("3 mm", "mm", "3"), ("38,5 cm", "decimal comma, mm", "385.0"), ("5mm", "m", "0.005"), ("45 min", "h", "0.75"),
        ("7", "kg", "7"), ("1,250 g", "kg", "1.25"), ("mm", "mm", "mm"),
    ],
)  # fmt: skip
def test_numbers_are_read_as_they_were_written_in_training(text: str, spelled: str, written: str) -> None:
    assert table_rows.plain_numbers([text], spelled, prefer_comma=False) == [written]


@pytest.mark.parametrize(
    ("text", "spelled", "seconds"),
    [
        ("19:12", "h:mm", 69120.0), ("19:12", "m:ss", 1152.0), ("1 day, 2:03:04", "h:mm", 93784.0),
        ("-1 days +23:59:55", "h:mm", -5.0), ("-0:04,5", "h:mm:ss", -4.5), ("90", "m:ss", 90.0),
    ],
)  # fmt: skip
def test_durations_are_read_as_they_were_written_in_training(text: str, spelled: str, seconds: float) -> None:
    noted = {"numeric": [{"column": "x", "kind": "numeric"}], "spelling": {"x": spelled}, "missing": ["x"]}
    (row,) = table_rows.respelled(noted, [{"x": text}], prefer_comma=True)
    assert table_rows.number(row["x"], "", spelled) == seconds


@pytest.mark.parametrize("prefer_comma", [False, True])
@pytest.mark.parametrize("trained", ["", "decimal comma", "decimal comma, €", "thousands", "thousands, €"])
def test_commas_and_points_mean_what_they_mean_to_the_portal(trained: str, prefer_comma: bool) -> None:
    spellings = ["1,5", "1,250", "1,250.5", "1.234", "12,5", "0.125", "1.234.567", "12.5", "1.234,5", "-7", "x", "3 €"]
    noted = {"numeric": [{"column": "x", "kind": "numeric"}], "spelling": {"x": trained}}
    mark = {DECIMAL_COMMA: b"1" if prefer_comma else b"0"}
    for texts in [*combinations(spellings, 2), *combinations(spellings, 4)]:
        table = pa.table({"x": list(texts)}).replace_schema_metadata(mark)
        expected = as_trained(noted, table)["x"].to_pylist()
        assert table_rows.plain_numbers(list(texts), trained, prefer_comma) == expected, texts


def test_nul_in_rows_of_json_is_the_sign_for_a_lost_letter_as_in_training(tmp_path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps([{"n\0": "a\0b", "x": 1}, {"x": 2}]))
    rows, _ = table_rows.read_rows(tmp_path / "rows.json", {})
    assert rows == [{"n\ufffd": "a\ufffdb", "x": "1"}, {"n\ufffd": "", "x": "2"}]
    assert read_rows(tmp_path / "rows.json")["n\ufffd"].to_pylist() == ["a\ufffdb", None]


def test_a_field_that_a_row_of_json_lacks_is_missing_whichever_row_it_is(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text('[{"b": true}, {"age": 3}]')
    rows, _ = table_rows.read_rows(tmp_path / "rows.json", {})
    assert rows == [{"b": "true", "age": ""}, {"b": "", "age": "3"}]
    assert predict_table.encode({"numeric": [AGE], "categorical": []}, rows)[0].shape == (2, 1)


@pytest.mark.parametrize("values", [[2], [2.0], [1.5, 3], [3, None], [2, "2.0"], ["3", 1.5], [7], [True]])
def test_numbers_of_json_are_the_categories_that_they_are_to_the_portal(tmp_path: Path, values: list[object]) -> None:
    noted = {"numeric": [], "categorical": [{"column": "c", "values": ["2.0", "3", "1.5", "3.0"]}]}
    (tmp_path / "rows.json").write_text(json.dumps([{"c": value} for value in values]))
    rows, _ = table_rows.read_rows(tmp_path / "rows.json", noted)
    expected = as_trained(noted, read_rows(tmp_path / "rows.json"))["c"].cast(pa.string())
    known = [text if text in noted["categorical"][0]["values"] else None for text in expected.to_pylist()]
    assert [row["c"] if row["c"] in ("2.0", "3", "1.5", "3.0") else None for row in rows] == known


@pytest.mark.parametrize("text", ["0001-01-01", "0001-01-01T00:00:00+02:00", "31.12.0007"])
def test_a_year_of_fewer_digits_than_four_counts_as_missing(text: str) -> None:
    for feature in ("days", "year", "month", "weekday", "hour"):
        assert np.isnan(predict_table.date_number(text, feature, "%d.%m.%Y"))
    assert predict_table.date_number("1000-01-01", "year", "") == 1000


TABLES = {
    "latin": "Größe;Ort\n1,5;Köln\n2;Ulm\n".encode("latin-1"),
    "windows": "Größe,Preis €\n1.5,3\n".encode("cp1252"),
    "excel": "Größe\tOrt\r\n1,5\tKöln\r\n".encode("utf-16"),
    "semicolons": b"\xef\xbb\xbf" + b"a;b\n\n1,5;2,5\n3;\n",
    "quoted": b'a,b\n"1,5","x;y;z"\n',
    "alone": b"a\n1\n2\n",
    "index": b",a,b\n0,1,2\n1,3,4\n",
    "repeats": b"a,a,y\n1,2,3\n",
    "wide": "a,b\n1,2\n3,4\n".encode("utf-16-le"),
    "long": b"a,b\n" + b"x" * 200_000 + b",2\n",
}


@pytest.mark.parametrize("name", TABLES)
def test_a_file_is_read_as_the_portal_reads_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "rows.csv").write_bytes(TABLES[name])
    table = read_rows(tmp_path / "rows.csv")
    rows, prefer_comma = table_rows.read_rows(tmp_path / "rows.csv", {})
    assert rows == table.to_pylist()
    assert prefer_comma is ((table.schema.metadata or {}).get(DECIMAL_COMMA) == b"1")


def test_words_count_as_missing_where_they_do_to_the_portal(capsys: pytest.CaptureFixture[str]) -> None:
    noted = {
        "numeric": [{"column": "rain", "kind": "numeric"}, {"column": "day", "kind": "dates"}],
        "missing": ["rain", "day"],
    }
    rows = [{"rain": "706 mm", "day": "never"}, {"rain": "7", "day": "2020-01-31"}, {"rain": "wet", "day": ""}]
    read = table_rows.respelled(noted, rows)
    assert [row["rain"] for row in read] == ["", "7", ""] and [row["day"] for row in read] == ["", "2020-01-31", ""]
    told: list[str] = []
    as_trained(noted, pa.Table.from_pylist(rows), told.append)
    expected = [re.sub("it counts|they count", "counted", line) for line in told]
    assert len(told) == 2 and capsys.readouterr().err.splitlines() == expected
    assert table_rows.respelled({**noted, "missing": []}, rows) == rows


def test_values_that_training_has_not_seen_are_told_as_predict_tells_them(capsys: pytest.CaptureFixture[str]) -> None:
    noted = {
        "numeric": [{**AGE, "low": 1.0, "high": 90.0}, {**AGE, "feature": "age: missing", "scaling": "missing"}],
        "categorical": [
            {"column": "sign", "values": ["in", "out"], "missing": True},
            {"column": "open", "values": ["True", "False"], "missing": False},
            *({"column": f"c{at}", "values": ["a"], "missing": False} for at in range(9)),
        ],
    }
    rows = [
        {"age": age, "sign": sign, "open": is_open, **{f"c{at}": "b" for at in range(9)}}
        for age, sign, is_open in (("7", "in", "TRUE"), ("", "neon", "false"), ("1,234", "", ""), ("0.5", "neon", "no"))
    ]
    told: list[str] = []
    table = as_trained(
        noted, pa.Table.from_pylist([{k: v or None for k, v in row.items()} for row in rows]), told.append
    )
    seen.unseen_tell(noted, table, told.append)
    predict_table.unseen_tell(noted, table_rows.respelled(noted, rows), lambda row: f"row {row + 1:,}")
    assert capsys.readouterr().err.splitlines() == told and len(told) == 7
    assert told[0].startswith("Column 'age': 2 values lie outside of 1 to 90") and "1,234 in row 3" in told[0]
    assert "'neon' in row 2" in told[1] and "'no' in row 4" in told[2] and "6 other columns" in told[6]


def test_what_cannot_be_read_is_told_with_row_and_column() -> None:
    preprocess = {"numeric": [AGE], "categorical": []}
    with pytest.raises(ValueError, match="row 2: column 'age': 'old' is not a number"):
        predict_table.encode(preprocess, [{"age": "3"}, {"age": "old"}])
    with pytest.raises(ValueError, match="the rows lack: age"):
        predict_table.encode(preprocess, [{"size": "3"}])
    with pytest.raises(ValueError, match="row 1: column 'age': '38:53' may be hours or minutes; write it like 0:38:53"):
        predict_table.encode({**preprocess, "spelling": {"age": "h:mm:ss"}}, [{"age": "38:53"}])
    day = {**AGE, "kind": "dates", "feature": "age: days"}
    with pytest.raises(ValueError, match="not a date; write it like 2020-01-31"):
        predict_table.encode({"numeric": [day], "categorical": []}, [{"age": "31/13/2020"}])


def files_write(folder: Path) -> None:
    """What the script reads beside the model."""
    for name, body in (("onnx", {"inputs": []}), ("preprocess", {"numeric": [AGE], "categorical": []})):
        (folder / f"{name}.json").write_text(json.dumps(body | {"classes": []}))


def test_rows_are_numbered_through_all_chunks(tmp_path, monkeypatch) -> None:
    files_write(tmp_path)
    session = SimpleNamespace(run=lambda *_: [np.zeros(predict_table.CHUNK)])
    fake = SimpleNamespace(InferenceSession=lambda *_, **__: session)
    monkeypatch.setitem(sys.modules, "onnxruntime", fake)
    rows = [{"age": "3"}] * predict_table.CHUNK + [{"age": "old"}]
    with pytest.raises(ValueError, match=f"row {len(rows)}: column 'age'"):
        predict_table.predict(rows, tmp_path)


@pytest.mark.parametrize(
    ("name", "body", "told"),
    [
        ("rows.csv", "age\nold\n", "rows.csv: row 1: column 'age': 'old' is not a number"),
        ("rows.csv", "age,b\n1,5,2\n", "rows.csv: row 1: 3 values where the first line names 2 columns"),
        ("rows.csv", "age,b\n1\n", "rows.csv: row 1: 1 value where the first line names 2 columns"),
        ("rows.csv", "size\n3\n", "rows.csv: the rows lack: age"),
        ("rows.csv", "Ages\n3\n", "rows.csv: the rows lack: age. For 'age', did you mean 'Ages'?"),
        ("rows.json", '{"age": 3}', "rows.json: no list of objects, one per row"),
        ("rows.json", "age", "rows.json: Expecting value: line 1 column 1 (char 0)"),
    ],
)
def test_bad_input_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, body: str, told: str
) -> None:
    files_write(tmp_path)
    script = shutil.copy(predict_table.__file__, tmp_path)
    monkeypatch.setitem(sys.modules, "onnxruntime", SimpleNamespace(InferenceSession=lambda *_, **__: None))
    (tmp_path / name).write_text(body)
    asked = ["--input", str(tmp_path / name), "--output", str(tmp_path / "out.csv")]
    monkeypatch.setattr(sys, "argv", ["predict_onnx.py", *asked])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(script, run_name="__main__")
    assert ended.value.code == told


def test_columns_that_are_asked_for_are_few_and_each_once() -> None:
    lacking = [f"pixel_{number}" for number in range(30)]
    asked = predict_table.alike(lacking, ["pixel_a", "pixel_b", "label"])
    assert asked.count("did you mean") == 2 and asked.count("'pixel_a'") == 1
    assert predict_table.alike([f"pixel_{number}" for number in range(784)], [f"pixel{n}" for n in range(784)]) == ""


@pytest.mark.timeout(60)
def test_a_number_of_thousands_of_figures_with_a_letter_behind_it_is_told_at_once() -> None:
    """Each figure was tried as the last one before a point: the time grew with the square, 17 s for 20,000."""
    figures = "-" + "1" * 100_000
    assert [bool(NUMBER.fullmatch(f"{figures}{end}")) for end in ("", "x", ".", ".5", "e5")] == [1, 0, 1, 1, 1]
    assert [cell(f"{figures}{end}")[0] for end in ("", "x", ".5")] == ["-", "'", "-"]
