"""Rows to predict for that are written as the data to train on was are read as it was, and so is their answer."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from codegen.profile import profile_dataset
from codegen.profile.text_form import shape_form
from codegen.profile.types import TABLE_FILE, ColumnType, ProfileOptions
from tests.worker.runtime import onnx_programs, samples
from worker.runtime.onnx_export import table_rows
from worker.runtime.own_file import answer_added
from worker.runtime.row_text import Form, decoded
from worker.runtime.spelling import as_trained
from worker.runtime.tables import InputError, form_noted, read_rows

CITIES = ("Łódź", "Kraków", "Gdańsk")
LINES = [f"{at % 40 + at / 8}^{CITIES[at % 3]}^{'ab'[at % 2]}^{at * 7 % 90}" for at in range(60)]


def noted(folder: Path, body: bytes, options: ProfileOptions, target: str) -> dict[str, Any]:
    """preprocess.json of data that are such a file, as far as columns are named there."""
    (folder / "data.csv").write_bytes(body)
    profile = profile_dataset(folder / "data.csv", folder / "packed", options, lambda *_: None)
    packed = pq.read_table(folder / "packed" / TABLE_FILE)
    used = [column for column in profile.columns if column.name != target]
    kinds = {ColumnType.NUMERIC: "numeric", ColumnType.DATE: "dates"}
    return {
        "numeric": [{"column": each.name, "kind": kinds[each.type]} for each in used if each.type in kinds],
        "categorical": [
            {"column": each.name, "values": packed[each.name].drop_null().unique().to_pylist()}
            for each in used
            if each.type is ColumnType.CATEGORY
        ],
        **shape_form(profile.form, target),
    }


def read_both(folder: Path, body: bytes, preprocess: dict[str, Any]) -> list[dict[str, str]]:
    """The rows as predict.py reads them, which the script beside model.onnx reads alike."""
    (folder / "rows.csv").write_bytes(body)
    table = read_rows(folder / "rows.csv", json.loads(json.dumps(preprocess)))
    rows, _ = table_rows.read_rows(folder / "rows.csv", preprocess)
    assert rows == table.to_pylist()
    return rows


def refused_by_both(folder: Path, text: str, preprocess: dict[str, Any], told: str) -> None:
    """Both tell the same of them, each in its way."""
    (folder / "rows.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=f"^{re.escape(told)}"):
        table_rows.read_rows(folder / "rows.csv", preprocess)
    with pytest.raises(InputError, match=f"^{re.escape(told[0].upper() + told[1:])}"):
        read_rows(folder / "rows.csv", preprocess)


@pytest.mark.parametrize("codec", ["cp1250", "iso8859-2", "utf-8", "utf-16-le"])
@pytest.mark.parametrize("rows", [1, 12])
def test_a_set_encoding_and_delimiter_are_those_of_rows_too(tmp_path: Path, codec: str, rows: int) -> None:
    text = "\n".join(["size^city^label^age", *LINES, ""])
    options = ProfileOptions(encoding=codec, delimiter="^")
    preprocess = noted(tmp_path, text.encode(codec), options, "label")
    assert preprocess["form"] == {"delimiter": "^", "encoding": codec}
    own = "\n".join(["size^city^age", *[line.replace("^a^", "^").replace("^b^", "^") for line in LINES[:rows]], ""])
    for written in (codec, "utf-8", "utf-16"):  # the last two are read whatever was set
        read = read_both(tmp_path, own.encode(written), preprocess)
        assert [row["city"] for row in read] == [CITIES[at % 3] for at in range(rows)]
        assert list(read[0]) == ["size", "city", "age"]
    plain = "\n".join(["city,size,age", *[f"{CITIES[at % 3]},1.5,{at}" for at in range(rows)], ""])
    assert read_both(tmp_path, plain.encode(), preprocess)[0] == {"city": CITIES[0], "size": "1.5", "age": "0"}


def test_an_encoding_of_many_bytes_is_told_from_utf8_by_the_categories_that_are_known(tmp_path: Path) -> None:
    cities = ("联通", "北京", "上海")  # the first, in GBK, could be UTF-8 by half
    lines = [f"{cities[at % 3]},{at * 7 % 90},{'ab'[at % 2]}" for at in range(60)]
    text = "\n".join(["city,x,label", *lines, ""])
    preprocess = noted(tmp_path, text.encode("gbk"), ProfileOptions(encoding="gbk"), "label")
    for at, codec in enumerate(("gbk", "utf-8", "gbk")):
        row = f"city,x\n{cities[at]},1\n".encode(codec)
        assert read_both(tmp_path, row, preprocess) == [{"city": cities[at], "x": "1"}]


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "cp037"])
def test_ascii_rows_are_read_whatever_encoding_was_set(tmp_path: Path, codec: str) -> None:
    text = "\n".join(["x,city,label", *[f"{at * 7 % 90},{('Bonn', 'Ulm')[at % 2]},{'ab'[at % 2]}" for at in range(60)]])
    preprocess = noted(tmp_path, text.encode(codec), ProfileOptions(encoding=codec), "label")
    assert preprocess["form"]["encoding"] in (codec, "utf-16-le")
    for rows in ("x,city\n1,Bonn\n", "x,city\n12,Bonn\n"):  # of odd and of even length
        assert read_both(tmp_path, rows.encode(), preprocess)[0]["city"] == "Bonn"
        assert read_both(tmp_path, rows.encode(codec), preprocess)[0]["city"] == "Bonn"
    (tmp_path / "rows.json").write_text('[{"x": 1, "city": "Bonn"}]')
    assert read_rows(tmp_path / "rows.json", preprocess).to_pylist() == [{"x": 1, "city": "Bonn"}]
    assert table_rows.read_rows(tmp_path / "rows.json", preprocess)[0] == [{"x": "1", "city": "Bonn"}]
    unknown = {"form": {"delimiter": ",", "encoding": codec, "unnamed": 2}}
    assert read_both(tmp_path, b"1.5,3\n2.5,4\n", unknown)[1] == {"column_1": "2.5", "column_2": "4"}


def test_an_encoding_is_told_by_the_beginning_of_a_file() -> None:
    form = Form(encoding="gbk", names=("city",), words=tuple(f"城市{at}" for at in range(1000)))
    body = ("city,x\n" + "宁波,1\n" * 1_800_000).encode()  # with none of the categories
    begun = time.process_time()
    assert decoded(body, form)[1] == "utf-8"
    assert time.process_time() - begun < 5  # the whole file takes many times that


@pytest.mark.parametrize("header", [None, False])  # told by the file, set by a person
def test_rows_without_names_are_those_of_data_without_names(tmp_path: Path, header: bool | None) -> None:
    lines = [line.replace("^", ";") for line in LINES]
    body = "\n".join([*lines, ""]).encode()
    preprocess = noted(tmp_path, body, ProfileOptions(header=header), "column_3")
    assert preprocess["form"] == {"delimiter": ";", "unnamed": 4, "target": "column_3"}
    whole = {"column_1": "0.0", "column_2": "Łódź", "column_3": "a", "column_4": "0"}
    assert read_both(tmp_path, body, preprocess)[0] == whole
    assert read_both(tmp_path, f"{lines[0]}\n".encode(), preprocess) == [whole]
    lacking = {name: value for name, value in whole.items() if name != "column_3"}
    assert read_both(tmp_path, "0.0;Łódź;0\n".encode(), preprocess) == [lacking]
    named = "column_4,column_2,column_1\n0,Łódź,0.0\n"
    assert read_both(tmp_path, named.encode(), preprocess) == [lacking]
    none = "and names no column of the model; the data has 4 columns without names"
    refused_by_both(tmp_path, "1;2\n", preprocess, f"the first line has 2 fields {none}")
    refused_by_both(tmp_path, "1\n", preprocess, f"the first line has 1 field {none}")


@pytest.mark.parametrize("end", [";", ";;"])
def test_rows_without_names_may_end_in_delimiters_as_the_data_does(tmp_path: Path, end: str) -> None:
    lines = [line.replace("^", ";") + end for line in LINES]
    body = "\n".join([*lines, ""]).encode()
    preprocess = noted(tmp_path, body, ProfileOptions(), "column_3")
    assert preprocess["form"] == {"delimiter": ";", "unnamed": 4, "dropped": len(end), "target": "column_3"}
    whole = {"column_1": "0.0", "column_2": "Łódź", "column_3": "a", "column_4": "0"}
    lacking = {name: value for name, value in whole.items() if name != "column_3"}
    for row, expected in (("0.0;Łódź;a;0", whole), ("0.0;Łódź;0", lacking)):
        for written in (row, row + end):
            (read,) = read_both(tmp_path, f"{written}\n".encode(), preprocess)
            assert {name: value for name, value in read.items() if name in whole} == expected, written
    (read,) = read_both(tmp_path, f"0.0;Łódź;a;0{end};\n".encode(), preprocess)
    assert read["column_4"] == "0"
    missing = "0.0;Łódź;a;\n1.5;Kraków;b;7\n"  # as the second row tells, with the target
    assert [row["column_4"] for row in read_both(tmp_path, missing.encode(), preprocess)] == ["", "7"]


def test_rows_without_names_are_refused_where_they_may_be_with_or_without_the_target(tmp_path: Path) -> None:
    form = {"delimiter": ";", "unnamed": 4, "target": "column_3"}
    told = "fields, all empty behind number 3: it may be with or without column_3, which the model predicts"
    refused_by_both(tmp_path, "0.0;Łódź;0;;\n", {"form": form}, f"the first line has 5 {told}")
    refused_by_both(tmp_path, "0.0;Łódź;0;\n", {"form": form | {"dropped": 2}}, f"the first line has 4 {told}")
    (read,) = read_both(tmp_path, "0.0;Łódź;0;;\n".encode(), {"form": form | {"target": "column_4"}})
    assert read["column_3"] == "0" and not read["column_4"]


@pytest.mark.parametrize(
    "preprocess",
    [
        {"numeric": None, "categorical": [{"column": "city", "values": 5}, {"column": "x"}, {"values": ["a"]}, "b"]},
        {"numeric": 7, "categorical": [{"column": "city", "values": [["Bonn"], 3]}, {"column": ["x"], "values": {}}]},
        {"form": {"delimiter": None, "encoding": None, "unnamed": None, "dropped": "1", "target": None}},
        {"form": {"delimiter": "::", "encoding": "no\0codec", "unnamed": -1, "dropped": -1}},
        {"form": [], "forecast": {"numeric": None, "categorical": 5, "recent": None}},
        {"forecast": {"time": ["x"], "numeric": [["x"]], "categorical": ["city", ["x"]], "recent": []}},
        {"forecast": {"categorical": ["city"], "recent": {"city": [["Bonn"], None]}}},
    ],
)
def test_whatever_a_persons_own_data_py_notes_rows_are_read(tmp_path: Path, preprocess: dict[str, Any]) -> None:
    assert read_both(tmp_path, "x,city\n1,Köln\n".encode(), preprocess) == [{"x": "1", "city": "Köln"}]
    (tmp_path / "rows.json").write_text('[{"x": 1, "city": "Bonn"}]')
    assert table_rows.read_rows(tmp_path / "rows.json", preprocess)[0] == [{"x": "1", "city": "Bonn"}]
    assert as_trained(preprocess, read_rows(tmp_path / "rows.json", preprocess))["city"].to_pylist() == ["Bonn"]


@pytest.mark.parametrize("body", ["", "\n\n"])
@pytest.mark.parametrize("form", [{}, {"delimiter": ",", "unnamed": 3, "target": "column_3"}])
def test_a_file_of_nothing_is_told_alike(tmp_path: Path, body: str, form: dict[str, Any]) -> None:
    refused_by_both(tmp_path, body, {"form": form}, "the input is empty")


def test_a_first_line_of_empty_fields_is_a_row_of_data_without_names_alone(tmp_path: Path) -> None:
    form = {"delimiter": ",", "unnamed": 3, "target": "column_3"}
    first, second = read_both(tmp_path, b",,\n1,2,3\n", {"form": form})
    assert not any(first.values()) and list(second.values()) == ["1", "2", "3"]
    refused_by_both(tmp_path, ",,\n1,2,3\n", {}, "the input is empty")


@pytest.mark.parametrize(
    ("header", "end"),
    [("x,city,label,age", ",,"), ("x,city,label,age,,", ""), ("x,city,label,age,", ","), ("x,city,label,age,,,", ",")],
)
def test_empty_fields_behind_the_last_name_are_no_columns(tmp_path: Path, header: str, end: str) -> None:
    lines = [line.replace("^", ",") + end for line in LINES]
    body = "\n".join([header, *lines, ""]).encode()
    preprocess = noted(tmp_path, body, ProfileOptions(), "label")
    read = read_both(tmp_path, body, preprocess)
    assert len(read) == 60 and read[1]["city"] == "Kraków" and read[1]["age"] == "7"
    as_trained(preprocess, read_rows(tmp_path / "rows.csv", preprocess))
    assert answer_added(tmp_path / "rows.csv", tmp_path / "made.csv", ["prediction"], [["a"]] * 60)
    first, *others = [line.split(",") for line in (tmp_path / "made.csv").read_text().splitlines()]
    assert {line[first.index("prediction")] for line in others} == {"a"}


def test_the_answer_is_added_to_a_file_as_it_was_read(tmp_path: Path) -> None:
    lines = [line.replace("^", "~") for line in LINES]
    preprocess = noted(
        tmp_path, "\n".join([*lines, ""]).encode("cp1250"), ProfileOptions(encoding="cp1250", delimiter="~"), "column_3"
    )
    (tmp_path / "rows.csv").write_bytes("1.5~Łódź~3\n2.5~Gdańsk~4\n".encode("cp1250"))
    form = form_noted(read_rows(tmp_path / "rows.csv", preprocess))
    assert answer_added(tmp_path / "rows.csv", tmp_path / "made.csv", ["prediction"], [["ä"], ["b"]], form)
    assert (tmp_path / "made.csv").read_bytes().decode("cp1250") == "1.5~Łódź~3~ä\n2.5~Gdańsk~4~b\n"


def test_a_program_and_its_onnx_model_answer_a_file_that_is_written_as_their_data(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_bytes("\n".join([*LINES, ""]).encode("cp1250"))
    options = ProfileOptions(encoding="cp1250", delimiter="^")
    profile = profile_dataset(tmp_path / "data.csv", tmp_path / "data", options, lambda *_: None)
    samples.program(tmp_path, profile, model={"family": "mlp"}, data={"target": "column_3"})
    onnx_programs.weighted(tmp_path)
    assert onnx_programs.exported(tmp_path)["ok"]
    (tmp_path / "without_torch.py").write_text(onnx_programs.WITHOUT_TORCH)
    answers = {}
    for name, rows in (("whole", ["1.5^Łódź^a^3", "2.5^Gdańsk^b^4"]), ("less", ["1.5^Łódź^3", "2.5^Gdańsk^4"])):
        (tmp_path / f"{name}.csv").write_bytes("\n".join([*rows, ""]).encode("cp1250"))
        for script in ("predict.py", "without_torch.py"):
            out = f"{script}-{name}.csv"
            done = samples.run(tmp_path, script, "--input", f"{name}.csv", "--output", out)
            assert done.returncode == 0 and "outside" not in done.stdout + done.stderr, done.stderr
        own = (tmp_path / f"predict.py-{name}.csv").read_bytes().decode("cp1250").splitlines()
        assert [line.startswith(f"{row}^") for line, row in zip(own, rows, strict=True)] == [True, True]
        answers[name] = [line.removeprefix(f"{row}^").split("^") for line, row in zip(own, rows, strict=True)]
        said = onnx_programs.answers(tmp_path / f"without_torch.py-{name}.csv")
        assert [row["prediction"] for row in said] == [line[0] for line in answers[name]]
        for row, line in zip(said, answers[name], strict=True):
            assert float(row["confidence"]) == pytest.approx(float(line[1]), abs=1e-4)
    assert answers["whole"] == answers["less"]
