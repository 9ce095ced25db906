"""What a prediction reads of a file is what the profile packs of the same file to train on."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tracemalloc
import zipfile
from datetime import datetime
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from codegen.profile import profile_dataset
from codegen.profile.types import TABLE_FILE, ColumnType, ProfileOptions
from codegen.profile.values import MISSING as PROFILE_MISSING
from worker.runtime.spelling import as_trained
from worker.runtime.tables import MISSING, InputError, read_rows

NAMES = ("x", "price", "when", "city", "city", " note ", "label")
KINDS = {ColumnType.NUMERIC: "numeric", ColumnType.DATE: "dates"}
ROWS = [
    (
        index * 1.75 - 20,
        1000 + 37 * index,
        datetime(2020, 1 + index % 12, 1 + index % 28),
        ("Köln", " Lyon ", "n/a", "Bern")[index % 4],
        ("north", "-", "south")[index % 3],
        f'a note of several words, number {index}, with "quotes"\nand a second line; indeed | so\tit is',
        "ab"[index % 2],
    )
    for index in range(60)
]


def number(value: float, style: str) -> str:
    """A number as people spell it."""
    if style == "comma":
        return f"{value:,.2f}".translate(str.maketrans(",.", ".,"))
    return f"{value:,.2f}" if style == "thousands" else f"{value:+.2f}"


def delimited(delimiter: str, style: str, date: str, newline: str = "\n") -> str:
    """The rows as CSV."""
    target = io.StringIO()
    writer = csv.writer(target, delimiter=delimiter, lineterminator=newline)
    writer.writerow(NAMES)
    for x, price, when, *rest in ROWS:
        writer.writerow([number(x, style), number(price, style), f"{when:{date}}", *rest])
    return target.getvalue()


def json_lines() -> str:
    """The rows as JSON lines."""
    names = ("x", "price", "when", "city", "city_2", "note", "label")
    return "\n".join(
        json.dumps(dict(zip(names, [*row[:2], f"{row[2]:%d.%m.%Y}", *row[3:]], strict=True))) for row in ROWS
    )


def parquet() -> bytes:
    """The rows as Parquet, numbers and dates typed."""
    names = ("x", "price", "when", "city", "city_2", "note", "label")
    target = io.BytesIO()
    pq.write_table(pa.table(dict(zip(names, map(list, zip(*ROWS, strict=True)), strict=True))), target)
    return target.getvalue()


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("input.csv", delimited(",", "plain", "%Y-%m-%d").encode()),
        ("input.csv", b"\xef\xbb\xbf" + delimited(",", "thousands", "%d %b %Y", "\r\n").encode()),
        ("input.csv", delimited(";", "comma", "%d.%m.%Y").encode("cp1252")),
        ("input.csv", delimited(";", "plain", "%m/%d/%Y").encode("latin-1")),
        ("input.tsv", delimited("\t", "thousands", "%d/%m/%Y").encode("utf-16")),
        ("input.tsv", delimited("\t", "comma", "%d.%m.%Y").encode("utf-16-le")),
        ("input.csv", delimited(",", "comma", "%d-%m-%Y").encode("utf-16-be")),
        ("input.csv", delimited("|", "plain", "%Y-%m-%dT%H:%M:%SZ").encode()),
        ("input.jsonl", json_lines().encode()),
        ("input.parquet", parquet()),
    ],
)
def test_a_file_means_the_same_to_a_prediction_as_to_training(tmp_path: Path, name: str, body: bytes) -> None:
    (tmp_path / name).write_bytes(body)
    profile = profile_dataset(tmp_path / name, tmp_path / "packed", ProfileOptions(), lambda *_: None)
    packed = pq.read_table(tmp_path / "packed" / TABLE_FILE)
    kinds = {column.name: KINDS[column.type] for column in profile.columns if column.type in KINDS}
    assert kinds == {"x": "numeric", "price": "numeric", "when": "dates"}
    noted = [{"column": column, "kind": kind} for column, kind in kinds.items()]
    spelling = {column.name: column.spelling for column in profile.columns if column.spelling}
    read = as_trained({"numeric": noted, "spelling": spelling}, read_rows(tmp_path / name))
    assert read.column_names == packed.column_names == ["x", "price", "when", "city", "city_2", "note", "label"]
    for column, field in zip(packed.columns, packed.schema, strict=True):
        kind = pa.float64() if kinds.get(field.name) == "numeric" else field.type
        assert read[field.name].cast(kind).to_pylist() == column.cast(kind).to_pylist(), field.name


@pytest.mark.parametrize("given", ["text,x\n{},1\nshort,2\n", 'text\tx\n"{}\n"\t1\nshort\t2\n'])
@pytest.mark.parametrize("letters", [200_000, 3_000_000])
def test_a_text_may_be_very_long(tmp_path: Path, given: str, letters: int) -> None:
    csv.field_size_limit(131_072)  # as a new process has it
    (tmp_path / "rows.csv").write_text(given.format("word " * (letters // 5)))
    assert read_rows(tmp_path / "rows.csv")["x"].to_pylist() == ["1", "2"]


def test_missing_values_are_marked_as_in_the_profile() -> None:
    assert set(MISSING) == set(PROFILE_MISSING)


@pytest.mark.parametrize("vocabulary", [["True", "False"], ["true", "false"], ["FALSE", "TRUE"]])
def test_truth_values_are_spelled_as_in_training_whatever_the_format(tmp_path: Path, vocabulary: list[str]) -> None:
    noted = {"categorical": [{"column": "paid", "values": vocabulary}, {"column": "city", "values": ["True", "Rome"]}]}
    (tmp_path / "a.csv").write_text("paid,city\nTrue,true\n false,Rome\n,Rome\n")
    (tmp_path / "b.json").write_text('[{"paid": true, "city": "true"}, {"paid": false}, {"paid": null}]')
    pq.write_table(pa.table({"paid": [True, False, None], "city": ["true"] * 3}), tmp_path / "c.parquet")
    expected = [*sorted(vocabulary, key=str.lower, reverse=True), None]
    for name in ("a.csv", "b.json", "c.parquet"):
        read = as_trained(noted, read_rows(tmp_path / name))
        assert read["paid"].to_pylist() == expected, name
        assert read["city"].to_pylist()[0] == "true"


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("input.csv", b"", "is empty"),
        ("input.csv", b"a,b\n1,2\n3,\0\n", r"input\.csv, line 3: it contains a NUL byte"),
        ("input.csv", b"a,b\n1,2\n3,4,5\n", r"^Row 2 has 3 fields where the first line names 2: 3,4,5$"),
        ("input.csv", b"a,b,c\n1,2,3\n\n4,5\n", r"^Row 2 has 2 fields where the first line names 3: 4,5$"),
        ("input.csv", b"review\ngood\nbad, never again\n", r"^Row 2 has 2 fields where the first line names 1: bad,"),
        ("input.json", b"[" * 100_000, "Not JSON"),
        ("input.jsonl", b'{"a": 1}\n7\n', "Row 2 is not an object"),
        ("input.jsonl", b'{"a": 1}\n\n{"a": \n', "Line 3 is not JSON"),
        ("input.parquet", b"PAR1 half", r"^input\.parquet cannot be read"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, name: str, body: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(body)
    with pytest.raises(InputError, match=words) as caught:
        read_rows(tmp_path / name)
    assert str(tmp_path) not in caught.value.message
    assert caught.value.hint


def zipped(files: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, body in files.items():
            archive.writestr(name, body)
    return target.getvalue()


@pytest.mark.parametrize("name", ["input.csv", "input.zip", "input.json", "input.parquet"])
@pytest.mark.parametrize(
    ("body", "words", "step"),
    [
        (zipped({"cat/1.png": b"\x89PNG"}), "zip archive", "Unpack it"),
        (zipped({}), "an empty zip archive", "Use CSV"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0), "compressed with gzip", "Unpack it"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "a PNG picture", "Use CSV"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF\0", "a JPEG picture", "Use CSV"),
    ],
    ids=["zip", "empty zip", "gzip", "png", "jpeg"],  # archives hold the time: test processes must name tests alike
)
def test_an_archive_or_picture_is_told_by_its_first_bytes(
    tmp_path: Path, name: str, body: bytes, words: str, step: str
) -> None:
    (tmp_path / name).write_bytes(body)
    with pytest.raises(InputError, match=f"^{name} is .*{words}.*; this model takes rows of a table") as caught:
        read_rows(tmp_path / name)
    assert caught.value.hint.startswith(step) and "CSV" in caught.value.hint


def test_parquet_of_another_name_is_told_as_such(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "input.csv")
    with pytest.raises(InputError, match="is a Parquet file") as caught:
        read_rows(tmp_path / "input.csv")
    assert ".parquet" in caught.value.hint
    (tmp_path / "input.csv").rename(tmp_path / "input.parquet")
    assert read_rows(tmp_path / "input.parquet")["a"].to_pylist() == [1, 2]


def test_a_line_of_json_may_hold_signs_that_end_lines_elsewhere(tmp_path: Path) -> None:
    texts = ["one\u2028two", "three\u0085four"]
    (tmp_path / "input.jsonl").write_text("".join(f'{{"note": "{text}"}}\n' for text in texts), encoding="utf-8")
    assert read_rows(tmp_path / "input.jsonl")["note"].to_pylist() == texts


@pytest.mark.parametrize("kind", ["json", "jsonl"])
def test_halves_of_letters_in_json_are_read_as_in_training(tmp_path: Path, kind: str) -> None:
    rows = [{"n\ud800": ["cut \ud83d", "b"][at % 2], "x": at % 7, "label": "ab"[at % 2]} for at in range(60)]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (tmp_path / "a.jsonl").write_text(lines)
    profile_dataset(tmp_path / "a.jsonl", tmp_path / "packed", ProfileOptions(), lambda *_: None)
    (tmp_path / f"input.{kind}").write_text(lines if kind == "jsonl" else json.dumps(rows))
    packed = pq.read_table(tmp_path / "packed" / TABLE_FILE)
    read = read_rows(tmp_path / f"input.{kind}")
    assert read.column_names == packed.column_names == ["n?", "x", "label"]
    assert read["n?"].to_pylist() == packed["n?"].to_pylist()


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet", "categories.parquet", "a.xlsx"])
def test_nul_in_names_and_texts_is_a_lost_letter_to_training_and_to_predictions(tmp_path: Path, name: str) -> None:
    texts = ["a\0b", r"\u0000 as it is spelled"]
    rows = [{"n\0": texts[at % 2], "x": at % 7, "label": "ab"[at % 2]} for at in range(60)]
    if name.endswith(".xlsx"):  # where a spreadsheet has NUL, its file spells it so
        book = openpyxl.Workbook()
        for cells in (rows[0], *map(dict.values, rows)):
            book.active.append([str(cell).replace("\0", "_x0000_") for cell in cells])
        book.save(tmp_path / name)
    elif name.endswith(".parquet"):
        table = pa.Table.from_pylist(rows)
        of_categories = table.set_column(0, "n\0", table["n\0"].dictionary_encode())
        pq.write_table(of_categories if name == "categories.parquet" else table, tmp_path / name)
    else:
        (tmp_path / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    profile_dataset(tmp_path / name, tmp_path / "packed", ProfileOptions(), lambda *_: None)
    packed, read = pq.read_table(tmp_path / "packed" / TABLE_FILE), read_rows(tmp_path / name)
    assert read.column_names == packed.column_names == ["n\ufffd", "x", "label"]
    assert read["n\ufffd"].to_pylist() == packed["n\ufffd"].to_pylist()
    assert packed["n\ufffd"][0].as_py() == "a\ufffdb"
    assert packed["n\ufffd"][1].as_py() == texts[1]


@pytest.mark.timeout(60)
def test_a_wide_parquet_file_without_nul_is_read_in_time(tmp_path: Path) -> None:
    """The time grew as the square of the number of columns: 8,000 took 8 s."""
    wide = pa.table({f"c{number}": ["a", "b"] for number in range(30_000)})
    pq.write_table(wide, tmp_path / "a.parquet")
    assert read_rows(tmp_path / "a.parquet").equals(wide)


def test_rows_under_names_are_read_in_full_or_refused(tmp_path: Path) -> None:
    def read(columns: object, *rows: object) -> list[dict[str, object]]:
        (tmp_path / "input.json").write_text(json.dumps({"columns": columns, "rows": rows}))
        return read_rows(tmp_path / "input.json").to_pylist()

    assert read(["x", "y"], [1, 2], {"x": 3, "y": None}) == [{"x": 1, "y": 2}, {"x": 3, "y": None}]
    assert read(["x", "x"], [1, 2]) == [{"x": 1, "x_2": 2}]
    for short in ([3], [3, 4, 5]):
        with pytest.raises(InputError, match=f"Row 2 has {len(short)} values? where there are 2 columns"):
            read(["x", "y"], [1, 2], short)
    for odd in (5, "ab", None):
        with pytest.raises(InputError, match="Row 1 is not an object"):
            read(["x", "y"], odd)
    for odd in ("xy", 5, [1, 2]):
        with pytest.raises(InputError, match="no list of names"):
            read(odd, [1, 2])


def test_a_number_of_thousands_of_figures_is_told_as_no_json_that_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "input.json").write_text(f'[{{"x": {"9" * 5000}}}]')
    with pytest.raises(InputError, match="Not JSON"):
        read_rows(tmp_path / "input.json")


def test_a_nought_before_a_comma_is_no_thousand_and_tells_what_the_others_are() -> None:
    noted = {"numeric": [{"column": "x", "kind": "numeric"}]}
    assert as_trained(noted, pa.table({"x": ["1,234", "0,636"]}))["x"].to_pylist() == ["1.234", "0.636"]


def test_a_persons_own_notes_about_the_data_are_left_alone() -> None:
    table = pa.table({"x": ["1,5"]})
    for notes in ({}, {"numeric": 3}, {"numeric": ["x"]}, {"numeric": [{"name": "x"}]}):
        assert as_trained(notes, table)["x"].to_pylist() == ["1,5"]
    odd = {"numeric": [{"column": "x", "kind": "numeric"}], "missing": 3, "spelling": ["x"]}
    assert as_trained(odd, table)["x"].to_pylist() == ["1.5"]


def test_words_among_numbers_count_as_missing_where_they_did_in_training(tmp_path: Path) -> None:
    body = "x,when,y,label\n" + "".join(
        f"{'unknown' if i == 7 else i / 4},{'never' if i == 9 else f'2020-01-{1 + i % 28:02d}'},{i},{'ab'[i % 2]}\n"
        for i in range(60)
    )
    (tmp_path / "a.csv").write_text(body)
    profile = profile_dataset(tmp_path / "a.csv", tmp_path / "packed", ProfileOptions(), lambda *_: None)
    kinds = {column.name: KINDS[column.type] for column in profile.columns if column.type in KINDS}
    preprocess = {
        "numeric": [{"column": name, "kind": kind} for name, kind in kinds.items()],
        "missing": [column.name for column in profile.columns if column.missing],
    }
    assert preprocess["missing"] == ["x", "when"]
    told: list[str] = []
    read = as_trained(preprocess, read_rows(tmp_path / "a.csv"), told.append)
    packed = pq.read_table(tmp_path / "packed" / TABLE_FILE)
    assert read["x"].cast(pa.float64()).to_pylist() == packed["x"].to_pylist()
    assert read["when"].to_pylist() == packed["when"].to_pylist()
    assert told == [
        "Column 'x': 1 value is not a number, such as 'unknown' in row 8; it counts as missing, as in training.",
        "Column 'when': 1 value is not a date, such as 'never' in row 10; it counts as missing, as in training.",
    ]
    strange = as_trained(preprocess, pa.table({"y": ["1", "two", "", "?"]}), told.append)
    assert strange["y"].to_pylist() == ["1", "two", None, None]  # which the program then refuses by its row
    assert len(told) == 2


@pytest.mark.parametrize(
    ("trained", "texts", "expected"),
    [
        ("", ["1,5", "1,250"], ["1.5", "1.250"]),
        ("", ["1,250"], ["1250"]),
        ("decimal comma", ["1,250"], ["1.250"]),
        ("decimal comma", ["1,250.5", "1,250"], ["1250.5", "1250"]),
        ("", ["1.234", "12,5"], ["1234", "12.5"]),
        ("", ["1.234", "0.125"], ["1.234", "0.125"]),
        ("", ["1.234.567", "1.234"], ["1234567", "1234"]),
        ("decimal comma", ["1.234"], ["1234"]),
        ("decimal comma", ["1.234", "12.5"], ["1.234", "12.5"]),
        ("thousands", ["1,250"], ["1250"]),
        ("thousands", ["1,250", "12,5"], ["1.250", "12.5"]),
        ("", ["1.234", "0.5", "12.25", "2,5", "1,250"], ["1.234", "0.5", "12.25", "2.5", "1250"]),
        ("decimal comma", ["1.234", "0.5", "12.25", "2,5", "1,250"], ["1.234", "0.5", "12.25", "2.5", "1.250"]),
    ],
)
def test_a_comma_in_doubt_means_what_it_meant_in_training(trained: str, texts: list[str], expected: list[str]) -> None:
    noted = {"numeric": [{"column": "x", "kind": "numeric"}], "spelling": {"x": trained}}
    assert as_trained(noted, pa.table({"x": texts}))["x"].to_pylist() == expected


def test_whole_numbers_of_any_length_are_read_from_json(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(f'[{{"x": {2**70}}}, {{"x": 1.5}}]')
    assert read_rows(tmp_path / "a.json")["x"].cast(pa.float64()).to_pylist() == [2.0**70, 1.5]


def test_categories_of_pandas_mean_what_texts_mean(tmp_path: Path) -> None:
    column = pa.array([" Rome ", "NA", "Oslo", " Rome "]).dictionary_encode()
    pq.write_table(pa.table({"city": column}), tmp_path / "a.parquet")
    assert as_trained({}, read_rows(tmp_path / "a.parquet"))["city"].to_pylist() == ["Rome", None, "Oslo", "Rome"]


@pytest.mark.parametrize("kind", ["json", "jsonl"])
def test_fractions_of_json_among_no_words_take_the_room_of_floats(tmp_path: Path, kind: str) -> None:
    rows = [json.dumps({"x": [at / 7 + place for place in range(50)]}) for at in range(2_000)]
    (tmp_path / f"input.{kind}").write_text("\n".join(rows) if kind == "jsonl" else f"[{', '.join(rows)}]")
    tracemalloc.start()
    try:
        read = read_rows(tmp_path / f"input.{kind}")
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert read["x"][3].as_py()[2] == 3 / 7 + 2
    assert peak_bytes < 150 * 2_000 * 50


@pytest.mark.parametrize("kind", ["json", "jsonl"])
def test_fractions_among_words_are_the_categories_that_training_had(tmp_path: Path, kind: str) -> None:
    versions = ["1.10", "1.1", '"beta"', "1e3", "2"]
    rows = [f'{{"version": {versions[at % 5]}, "x": {at % 7}.0, "label": "{"ab"[at % 2]}"}}' for at in range(60)]
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    profile_dataset(tmp_path / "a.jsonl", tmp_path / "packed", ProfileOptions(), lambda *_: None)
    (tmp_path / f"input.{kind}").write_text("\n".join(rows) if kind == "jsonl" else f"[{', '.join(rows)}]")
    packed = pq.read_table(tmp_path / "packed" / TABLE_FILE)["version"].to_pylist()
    read = read_rows(tmp_path / f"input.{kind}")
    assert read["version"].to_pylist() == packed and packed[:5] == ["1.10", "1.1", "beta", "1e3", "2"]
    assert read["x"].type == pa.float64()
