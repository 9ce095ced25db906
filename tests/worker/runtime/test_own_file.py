"""A person's own file comes back as it was, with the answer added to each of its rows."""

from __future__ import annotations

import codecs
import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from worker.runtime.own_file import answer_added
from worker.runtime.tables import read_rows

COLUMNS = ("prediction", "confidence")
ROWS = (["a", 0.75], ["b", 0.5])


def answered(folder: Path, name: str, body: bytes, columns=COLUMNS, rows=ROWS) -> bytes:
    """The file with the answer; nothing where it was not written."""
    source, target = folder / name, folder / f"answered-{name}"
    source.write_bytes(body)
    assert answer_added(source, target, columns, rows) == target.exists()
    return target.read_bytes() if target.exists() else b""


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("x,city\n1.50, Köln \n007,\n", "x,city,prediction,confidence\n1.50, Köln ,a,0.75\n007,,b,0.5\n"),
        ("x;city\r\n1,50;K\r\n2,5;L", "x;city;prediction;confidence\r\n1,50;K;a;0,75\r\n2,5;L;b;0,5"),
        ("x;w\n1.249,00 €;0,5 kg\n-;300 g\n",
         "x;w;prediction;confidence\n1.249,00 €;0,5 kg;a;0,75\n-;300 g;b;0,5\n"),
        ("x;w\n$1,249.50;0.5 kg\n-;v1,5\n", "x;w;prediction;confidence\n$1,249.50;0.5 kg;a;0.75\n-;v1,5;b;0.5\n"),
        ("x;city\n1.5;K\n2.5;L\n", "x;city;prediction;confidence\n1.5;K;a;0.75\n2.5;L;b;0.5\n"),
        ("x\tcity\n1\tK\n\n2\tL\n", "x\tcity\tprediction\tconfidence\n1\tK\ta\t0.75\n\n2\tL\tb\t0.5\n"),
        ('"x","y"\n"1","a ""b"""\n"2","c\nd"\n',
         '"x","y","prediction","confidence"\n"1","a ""b""","a","0.75"\n"2","c\nd","b","0.5"\n'),
        ('x,y\n"1,5",k\n2,l\n', 'x,y,prediction,confidence\n"1,5",k,a,0.75\n2,l,b,0.5\n'),
        ("prediction,y\n1,k\n2,l\n", "prediction,y,prediction_2,confidence\n1,k,a,0.75\n2,l,b,0.5\n"),
    ],
)  # fmt: skip
def test_text_keeps_every_sign_and_gets_columns_in_its_own_style(tmp_path: Path, given: str, made: str) -> None:
    assert answered(tmp_path, "rows.csv", given.encode()).decode() == made


def test_a_cell_of_very_many_letters_is_no_fault(tmp_path: Path) -> None:
    csv.field_size_limit(1000)
    made = answered(tmp_path, "rows.csv", f"x,y\n1,{'k' * 200_000}\n2,l\n".encode())
    assert made.endswith(b"k,a,0.75\n2,l,b,0.5\n")


@pytest.mark.parametrize(
    ("mark", "codec"),
    [(b"", "utf-8"), (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"),
     (b"", "utf-16-le"), (b"", "cp1252"), (b"", "latin-1")],
)  # fmt: skip
def test_it_keeps_its_encoding_and_its_mark(tmp_path: Path, mark: bytes, codec: str) -> None:
    city = "Köln €" if codec == "cp1252" else "Köln"
    made = answered(tmp_path, "rows.csv", mark + f"x,city\n1,{city}\n2,Lyon\n".encode(codec))
    assert made == mark + f"x,city,prediction,confidence\n1,{city},a,0.75\n2,Lyon,b,0.5\n".encode(codec)


def test_a_class_that_its_encoding_lacks_makes_it_utf_8(tmp_path: Path) -> None:
    made = answered(tmp_path, "rows.csv", "x,city\n1,Köln\n2,L\n".encode("latin-1"), rows=[["Łódź", 1.0], ["b", 0.5]])
    assert made == "\ufeffx,city,prediction,confidence\n1,Köln,Łódź,1.0\n2,L,b,0.5\n".encode()


def test_what_is_added_is_no_formula_and_a_number_below_0_stays_one(tmp_path: Path) -> None:
    made = answered(tmp_path, "rows.csv", b"x;y\n1,5;=1+1\n2,5;k\n", rows=[["=cmd|x", -0.5], ["b", -1.25]])
    assert made.decode() == "x;y;prediction;confidence\n1,5;=1+1;'=cmd|x;-0,5\n2,5;k;b;-1,25\n"


@pytest.mark.parametrize(
    ("name", "given", "made"),
    [
        ("rows.jsonl", '{"x": 1.50, "o":{"n":[1]}}\r\n\n{}\n',
         '{"x": 1.50, "o":{"n":[1]}, "prediction": "a", "confidence": 0.75}\r\n\n'
         '{"prediction": "b", "confidence": 0.5}\n'),
        ("rows.json", '[\n  {\n    "x": 1e3\n  },\n  {"prediction": "]"}\n]\n',
         '[\n  {\n    "x": 1e3, "prediction_2": "a", "confidence": 0.75\n  },\n'
         '  {"prediction": "]", "prediction_2": "b", "confidence": 0.5}\n]\n'),
    ],
)  # fmt: skip
def test_json_keeps_every_sign_and_gets_fields(tmp_path: Path, name: str, given: str, made: str) -> None:
    assert answered(tmp_path, name, given.encode()).decode() == made


def test_one_object_is_one_row(tmp_path: Path) -> None:
    made = answered(tmp_path, "row.json", b' {"x": 1} \n', rows=ROWS[:1])
    assert json.loads(made) == {"x": 1, "prediction": "a", "confidence": 0.75}


def test_parquet_keeps_its_types_its_metadata_and_its_packing(tmp_path: Path) -> None:
    table = pa.table({"x": pa.array([1, 2], pa.int8()), "prediction": pa.array(["k", "l"]).dictionary_encode()})
    table = table.replace_schema_metadata({b"own": b"note"})
    pq.write_table(table, tmp_path / "given.parquet", compression="zstd")
    answered(tmp_path, "rows.parquet", (tmp_path / "given.parquet").read_bytes())
    made = pq.read_table(tmp_path / "answered-rows.parquet")
    assert made.column_names == ["x", "prediction", "prediction_2", "confidence"]
    assert made.schema.types[:2] == table.schema.types and made.schema.metadata[b"own"] == b"note"
    assert made["prediction_2"].to_pylist() == ["a", "b"] and made["confidence"].to_pylist() == [0.75, 0.5]
    assert pq.ParquetFile(tmp_path / "answered-rows.parquet").metadata.row_group(0).column(3).compression == "ZSTD"


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("rows.json", '{"columns": ["x"], "rows": [[1], [2]]}'), ("rows.json", '{"rows": [{"x": 1}]}'),
        ("rows.csv", "x,y\n1,2\n"),
    ],
)  # fmt: skip
def test_what_has_no_place_for_the_answer_is_not_written(tmp_path: Path, name: str, given: str) -> None:
    rows = ROWS[:1] if given.startswith('{"rows') else ROWS
    assert answered(tmp_path, name, given.encode(), rows=rows) == b""


@pytest.mark.parametrize("given", ["x,y\n1,2\n\n3,4\n", 'x;y\n"1\n";2\n3;4', "x|y\r1|2\r3|4\r"])
def test_the_rows_are_those_that_were_read(tmp_path: Path, given: str) -> None:
    made = tmp_path / "made.csv"
    made.write_bytes(answered(tmp_path, "rows.csv", given.encode()))
    before, after = read_rows(tmp_path / "rows.csv"), read_rows(made)
    assert after.select(before.column_names).to_pylist() == before.to_pylist()
    assert after["prediction"].to_pylist() == ["a", "b"]
