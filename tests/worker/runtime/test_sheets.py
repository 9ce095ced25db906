"""Spreadsheets as rows to predict for: the cells are those that training read, attacks and broken files are refused."""

from __future__ import annotations

import io
import sys
import zipfile
from datetime import datetime, time
from pathlib import Path

import openpyxl
import pytest

from codegen.profile.sheet_source import SheetSource
from codegen.profile.types import DataError
from tests.codegen.profile.test_sheets import opendocument, workbook
from tests.codegen.profile.uploads import zip_of
from worker import sheet_reach
from worker.runtime import sheets
from worker.runtime.serving import write_output
from worker.runtime.spelling import as_trained
from worker.runtime.tables import InputError, read_rows

CELLS = [
    ["when", "x", "ok", None, "x", "at"],
    [datetime(2024, 1, 5), 1, True, None, 0.1, time(10, 30)],
    [None, None, None, None, None, None],
    [datetime(2024, 1, 6, 10, 2), 1.5, False, None, "n/a", None],
    [None, 2**60, None, "kept", " spaced ", None],
]
"""With a row and a cell that are empty, a column without a name, and a name twice."""


def saved(folder: Path, body: bytes, name: str = "rows.xlsx") -> Path:
    path = folder / name
    path.write_bytes(body)
    return path


def test_cells_are_read_as_they_are_from_data_to_train_on(tmp_path: Path) -> None:
    path = saved(tmp_path, workbook({"Old": CELLS[:2], "Empty": [], "Data": [["A title"], *CELLS]}, hidden="Old"))
    (trained, _), *rest = SheetSource(path).batches()
    assert not rest and trained.height == 3
    assert read_rows(path).to_pydict() == trained.to_dict(as_series=False)


def test_an_opendocument_sheet_is_read(tmp_path: Path) -> None:
    path = saved(tmp_path, opendocument([["name", "city"], ["Ada", "Bern"], ["Bo", "Köln"]]), "rows.ods")
    assert read_rows(path).to_pydict() == {"name": ["Ada", "Bo"], "city": ["Bern", "Köln"]}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"name,city\nAda,Bern\n", "rows.xlsx is no spreadsheet by its content."),
        (zip_of({"a.txt": b"words"}), "rows.xlsx cannot be read"),
        (workbook({"Data": [["name", "city"]]}), "No sheet of rows.xlsx has a row of names and rows below it."),
        (workbook({"Data": [["a"], [None, None], [None, "b"]]}), "rows.xlsx has no row of names."),
    ],
    ids=["csv", "zip", "names_alone", "scattered"],
)
def test_what_holds_no_rows_is_refused_by_name_with_what_to_do(tmp_path: Path, body: bytes, said: str) -> None:
    with pytest.raises(InputError) as refused:
        read_rows(saved(tmp_path, body))
    assert refused.value.message.startswith(said) and refused.value.hint


@pytest.mark.parametrize(("limit", "said"), [("MAX_UNPACKED_BYTES", "unpacks to"), ("MAX_CELLS", "reaches over")])
def test_a_sheet_that_is_larger_than_it_looks_is_refused(
    tmp_path: Path, limit: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path, workbook({"Data": CELLS}))
    monkeypatch.setattr(sheets, limit, 10)
    with pytest.raises(InputError, match=said):
        read_rows(path)


def test_a_stray_cell_far_off_is_refused_before_room_is_made_for_all_before_it(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for cell, value in (("A1", "x"), ("B1", "y"), ("A2", 1), ("B2", 2), ("XFD1048576", 3)):
        book.active[cell] = value
    book.save(tmp_path / "rows.xlsx")
    with pytest.raises(InputError, match=r"1,048,576 rows x 16,384 columns, to the cell XFD1048576") as refused:
        read_rows(tmp_path / "rows.xlsx")
    assert "stray" in refused.value.hint


def test_a_stray_cell_of_an_opendocument_sheet_is_refused_and_a_comment_is_none(tmp_path: Path) -> None:
    table: list[list[str | int | None] | int] = [["x", "y"], ["1", "2"]]
    with pytest.raises(InputError, match=r"1,000,003 rows x 16,001 columns, to the cell WQK1000003") as refused:
        read_rows(saved(tmp_path, opendocument([*table, 1_000_000, [16000, "3"]]), "rows.ods"))
    assert "stray" in refused.value.hint
    far = saved(tmp_path, opendocument([*table, 1000, [16000, None], ["3", "4"], 1_000_000]), "rows.ods")
    assert read_rows(far).to_pydict() == {"x": ["1", "3"], "y": ["2", "4"]}


def test_a_row_that_is_longer_than_is_looked_through_is_refused_by_sheet_and_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sheet_reach, "_ROW_BYTES_MAX", 1 << 20)
    cells: list[list[str | int | None] | int] = [["x", "y"], ["1", "a" * (3 << 20)], 1_000_000, [16000, "3"]]
    path = saved(tmp_path, opendocument(cells), "rows.ods")
    told_words = r"rows\.ods cannot be read: The sheet 'One' has a row of more than 1 MiB: row 2\."
    with pytest.raises(InputError, match=told_words) as told:
        read_rows(path)
    assert "empty it" in told.value.hint
    with pytest.raises(DataError, match=r"The sheet 'One' .* row 2\.") as refused:
        SheetSource(path)
    assert (refused.value.problem.code, refused.value.problem.file) == ("too_large", "rows.ods")


@pytest.mark.parametrize(("field", "value"), [(8, 1), (10, 99)], ids=["encrypted", "packed in an unknown way"])
def test_parts_that_cannot_be_unpacked_are_refused_by_the_name_of_the_file(
    tmp_path: Path, field: int, value: int
) -> None:
    body = bytearray(workbook({"Data": CELLS}))
    at = body.find(b"PK\x01\x02")  # entries of the zip's directory: flags stand at 8, the way of packing at 10
    while at >= 0:
        body[at + field] = value
        at = body.find(b"PK\x01\x02", at + 4)
    with pytest.raises(InputError, match=r"^rows\.xlsx is no spreadsheet by its content"):
        read_rows(saved(tmp_path, bytes(body)))


def test_a_damaged_opendocument_sheet_is_refused_by_its_name(tmp_path: Path) -> None:
    whole = opendocument([["name", "city"], *([f"name {i}", f"city {i}"] for i in range(500))])
    at = whole.find(b"content.xml") + 60
    with pytest.raises(InputError, match=r"^rows\.ods is no spreadsheet by its content"):
        read_rows(saved(tmp_path, whole[:at] + bytes(50) + whole[at + 50 :], "rows.ods"))


def test_a_fraction_of_a_spreadsheet_is_one_whatever_a_point_was_in_training(tmp_path: Path) -> None:
    path = saved(tmp_path, workbook({"Data": [["x", "written"], [1.234, "1.234"], [12.125, "1.000"]]}))
    noted = {
        "numeric": [{"column": name, "kind": "numeric"} for name in ("x", "written")],
        "spelling": {"x": "decimal comma", "written": "decimal comma"},
    }
    read = as_trained(noted, read_rows(path))
    assert read["x"].to_pylist() == ["1.234", "12.125"]
    assert read["written"].to_pylist() == ["1234", "1000"]  # texts of a sheet are read as those of any file


def test_without_the_library_people_are_told_to_save_a_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(InputError, match="python-calamine") as refused:
        read_rows(saved(tmp_path, workbook({"Data": CELLS})))
    assert refused.value.hint.startswith("Save the sheet as CSV")


def test_no_spreadsheet_is_written_and_the_answer_for_one_is_a_csv(tmp_path: Path) -> None:
    path = saved(tmp_path, workbook({"Data": CELLS}))
    rows = [[number, "yes"] for number in (1, 2, 3)]
    with pytest.raises(InputError, match=r"answer\.xlsx is not written"):
        write_output(tmp_path / "answer.xlsx", ["row", "prediction"], rows, inputs=read_rows(path), source=path)
    write_output(tmp_path / "answer.json", ["row", "prediction"], rows, inputs=read_rows(path), source=path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["answer.csv", "answer.json", "rows.xlsx"]
    assert (tmp_path / "answer.csv").read_text().splitlines()[2].startswith("2,yes,2024-01-06 10:02:00,1.5,false")


def test_a_sheet_whose_packed_bytes_are_damaged_is_refused_by_training_and_predictions(tmp_path: Path) -> None:
    whole = zipfile.ZipFile(io.BytesIO(workbook({"Data": CELLS})))
    with zipfile.ZipFile(tmp_path / "rows.xlsx", "w", zipfile.ZIP_BZIP2) as archive:
        for name in whole.namelist():
            archive.writestr(name, whole.read(name))
        sheet = next(info for info in archive.infolist() if info.filename.startswith("xl/worksheets/sheet"))
    body = bytearray((tmp_path / "rows.xlsx").read_bytes())
    at = body.find(b"BZh", sheet.header_offset)
    body[at + 10 : at + 60] = bytes(50)
    path = saved(tmp_path, bytes(body))
    with pytest.raises(InputError, match=r"^rows\.xlsx is no spreadsheet by its content"):
        read_rows(path)
    with pytest.raises(DataError) as refused:
        SheetSource(path)
    assert refused.value.problem.code == "broken_file"
