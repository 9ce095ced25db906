"""Files that cannot be read as what they are: JSON, Parquet, gzip, unknown formats and encodings."""

from __future__ import annotations

import bz2
import gzip
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.codegen.profile.uploads import Lab, finding, zip_of

GOOD = "x,z,label\n" + "".join(f"{i},{i % 7},{'ab'[i % 2]}\n" for i in range(60))


def test_bad_json_lines_are_left_out_and_named(lab: Lab) -> None:
    lines = [f'{{"x": {i}, "label": "{"ab"[i % 2]}"}}' for i in range(60)]
    lines[11] = '{"x": 11, "label": '
    lines[30] = "[1, 2]"
    profile = lab.profile("data.jsonl", "\n".join(lines))
    found = finding(profile, "bad_json_lines")
    assert found.rows == (12, 31) and "line 12" in found.message
    assert profile.rows == 58


def test_a_file_of_bad_json_lines_is_refused_with_the_first_line(lab: Lab) -> None:
    problem = lab.problem("data.jsonl", '{"a": 1}\n' + "{oops}\n" * 5)
    assert (problem.code, problem.row) == ("bad_json_lines", 2)


def test_a_json_array_is_refused_with_the_way_out(lab: Lab) -> None:
    assert "one object per line" in lab.problem("data.json", '[{"a": 1}]').hint.lower()


def parquet_bytes(rows: int = 500) -> bytes:
    target = io.BytesIO()
    table = pa.table({"x": np.arange(rows) % 11 / 2, "label": [("a", "b")[i % 2] for i in range(rows)]})
    pq.write_table(table, target)
    return target.getvalue()


def test_a_parquet_file_cut_in_half_is_refused(lab: Lab) -> None:
    body = parquet_bytes()
    assert lab.problem("data.parquet", body[: len(body) // 2]).code == "cut_file"


def test_a_parquet_file_with_a_broken_inside_is_refused(lab: Lab) -> None:
    body = bytearray(parquet_bytes())
    body[-60:-20] = b"\xff" * 40
    assert lab.problem("data.parquet", bytes(body)).code == "broken_file"


def test_text_that_is_not_utf8_in_parquet_is_refused(lab: Lab) -> None:
    bad = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"a\xff")]
    )
    target = io.BytesIO()
    pq.write_table(pa.table({"x": [1, 2], "t": bad}), target)
    assert lab.problem("data.parquet", target.getvalue()).code == "broken_file"


def test_a_cut_gzip_file_is_refused(lab: Lab) -> None:
    body = gzip.compress(GOOD.encode())
    assert lab.problem("data.csv.gz", body[: len(body) // 2]).code == "cut_file"


def test_a_gzip_bomb_is_refused(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codegen.profile.streams.RATIO_FLOOR_BYTES", 1 << 20)
    body = gzip.compress(b"x,z,label\n" + b"1,2,a\n" * 4_000_000)
    assert lab.problem("data.csv.gz", body).code == "decompression_bomb"


@pytest.mark.parametrize(
    ("name", "body", "word"),
    [
        ("a.docx", zip_of({"[Content_Types].xml": b"x", "word/document.xml": b"x"}), "CSV"),
        ("a.odt", zip_of({"mimetype": b"application/vnd.oasis.opendocument.text", "content.xml": b"x"}), "CSV"),
        ("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), ".xlsx"),
        ("a.png", b"\x89PNG\r\n\x1a\n" + bytes(50), ".zip"),
        ("a.bin", bytes(range(256)) * 8, "Parquet"),
        ("a.7z", b"7z\xbc\xaf\x27\x1c" + bytes(40), ".zip"),
        ("a.csv.bz2", bz2.compress(b"a,b", 4), "gzip"),
        ("a.arrow", b"ARROW1\0\0\xff\xff" + bytes(40), "Parquet"),
        ("a.gif", b"GIF89a" + bytes(40), ".zip"),
        ("a.pkl", b"\x80\x04\x95" + bytes(40), "Parquet"),
        ("a.html", b"<!DOCTYPE html><html>", "open the file"),
    ],
)
def test_an_unknown_format_is_refused_with_the_way_out(lab: Lab, name: str, body: bytes, word: str) -> None:
    problem = lab.problem(name, body)
    assert problem.code == "unknown_format" and word in problem.hint


@pytest.mark.parametrize("name", ["bzh", "arrow1", "gif8", "rar!", "%pdf_pages", "BZh", "ARROW1", "GIF8", "%PDF"])
def test_a_name_that_begins_like_another_format_is_a_name(lab: Lab, name: str) -> None:
    body = f"{name},x,label\n" + "".join(f"{i % 5},{i},{'ab'[i % 2]}\n" for i in range(60))
    assert lab.profile("a.csv", body).columns[0].name == name


def test_a_wrong_encoding_is_refused_with_its_line(lab: Lab) -> None:
    body = GOOD.replace("7,0,b", "7,0,b\xfc").encode("latin-1")
    problem = lab.problem("data.csv", body, encoding="utf-8")
    assert (problem.code, problem.row) == ("wrong_encoding", 9)


@pytest.mark.parametrize("name", ["klingon", "punycode"])
def test_an_encoding_that_no_file_is_written_in_is_refused(lab: Lab, name: str) -> None:
    """Punycode took 19 s for 400 KB, and hours for a hundred MB."""
    assert lab.problem("data.csv", GOOD.replace("7,0,b", "7,0,-b."), encoding=name).code == "unknown_encoding"
