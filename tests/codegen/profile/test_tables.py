"""Good tables in every dress: formats, encodings, headers, and what is kept of them."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from codegen.profile import read_rows
from codegen.profile.dialect import SAMPLE_BYTES
from codegen.profile.json_lines import JsonLinesSource
from codegen.profile.streams import ByteSource
from codegen.profile.types import PROFILE_FILE, TABLE_FILE, DatasetProfile
from tests.codegen.profile.uploads import Lab, as_csv, as_json, as_parquet, finding, people


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
    assert "its length" in finding(profile, "text_column", "notes").meaning
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


def test_broken_letters_in_json_are_replaced(lab: Lab) -> None:
    rows = (f'{{"x": {row}, "t\\udc00": "a\\ud800", "label": "l"}}' for row in range(30))
    lab.profile("a.jsonl", "\n".join(rows))
    assert lab.table()["t?"].to_pylist()[0] == "a?"


def test_objects_of_few_fields_take_no_room_for_the_fields_of_all_others_at_once(lab: Lab) -> None:
    """178 KB with 5,000 names took 1.2 GB."""
    names, rows = [f"k{number}" for number in range(2000)], range(4100)
    source = lab.write("a.jsonl", "".join(f'{{"{names[row % 2000]}": {row}, "tags": [1]}}\n' for row in rows))
    tracemalloc.start()
    values: list[str | None] = []
    for frame, _ in JsonLinesSource(ByteSource(source, gzipped=False)).batches():
        assert frame.columns == names
        values += frame["k7"].to_list()
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert values == [str(row) if row % 2000 == 7 else None for row in rows]
    assert peak_bytes < 40 << 20


def test_a_header_longer_than_the_sample_is_read(lab: Lab) -> None:
    names = [f"a_long_column_name_{'x' * 400}_{number}" for number in range(700)]
    assert len(header := ",".join(names)) > SAMPLE_BYTES
    rows = "".join(",".join(str((row * 7 + at) % 10) for at in range(len(names))) + "\n" for row in range(12))
    assert [column.name for column in lab.profile("a.csv", header + "\n" + rows).columns] == names


def test_an_encoding_may_be_corrected_twice(lab: Lab) -> None:
    plain = b"".join(b"%d,%d,a\n" % (i % 8, i % 31) for i in range(600_000))
    profile = lab.profile("a.csv", b"x,z,label\n" + plain + b"1,2,\x80\n" + plain + b"1,2,\x81\n")
    assert profile.rows == 1_200_002 and "latin-1" in profile.source_format


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_wide_text_without_a_mark_is_read(lab: Lab, encoding: str) -> None:
    body = "x,größe,label\n" + "".join(f"{i * 0.3},{i % 4},{'ab'[i % 2]}\n" for i in range(60))
    profile = lab.profile("a.csv", body.encode(encoding))
    assert [column.name for column in profile.columns] == ["x", "größe", "label"]
    assert encoding in profile.source_format


@pytest.mark.parametrize("order", ["utf-16-le", "utf-16-be"])
def test_utf_16_that_was_asked_for_is_read_without_a_mark(lab: Lab, order: str) -> None:
    body = "大小,标签\n" + "".join(f"{i * 0.3},{'红蓝'[i % 2]}大小标签红蓝大小标签红蓝\n" for i in range(60))
    profile = lab.profile("a.csv", body.encode(order), encoding="utf-16")
    assert [column.name for column in profile.columns] == ["大小", "标签"]
    assert order in profile.source_format


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le"])
def test_a_byte_order_mark_is_no_part_of_the_first_name_where_the_encoding_is_set(
    lab: Lab, encoding: str, newline: str
) -> None:
    body = "\ufeffx,label\n" + "".join(f"{i % 7},{'äb'[i % 2]}\n" for i in range(60))
    profile = lab.profile("a.csv", body.replace("\n", newline).encode(encoding), encoding=encoding)
    assert [column.name for column in profile.columns] == ["x", "label"]
    assert (profile.rows, lab.table()["x"].to_pylist()[:2]) == (60, [0, 1])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "idna"])
def test_an_encoding_that_a_file_is_not_in_is_told_as_such(lab: Lab, encoding: str) -> None:
    problem = lab.problem("a.csv", "x,label\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(60)), encoding=encoding)
    assert (problem.code, problem.message) == ("wrong_encoding", f"a.csv is not valid {encoding}.")


@pytest.mark.parametrize(("encoding", "half"), [("unicode_escape", r"a\ud800b"), ("utf-7", "a+2AA-b")])
@pytest.mark.parametrize("row", [7, 40_000])
def test_half_a_letter_that_an_encoding_can_spell_is_refused_with_its_line(
    lab: Lab, encoding: str, half: str, row: int
) -> None:
    body = "x,label\n" + "".join(f"{i},{half if i == row else 'ab'[i % 2]}\n" for i in range(50_000))
    problem = lab.problem("a.csv", body, encoding=encoding)
    assert (problem.code, problem.row) == ("wrong_encoding", row + 2)


def test_a_very_long_field_does_not_hide_the_delimiter(lab: Lab) -> None:
    body = "x,note,label\n" + "".join(
        f"{i * 0.3},{'w' * (200_000 if i == 3 else 3)},{'ab'[i % 2]}\n" for i in range(60)
    )
    assert len(lab.profile("a.csv", body).columns) == 3


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
