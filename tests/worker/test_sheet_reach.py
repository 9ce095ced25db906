"""How far sheets reach, told from the file alone: of Excel by what it says, of OpenDocument by its rows and cells."""

from __future__ import annotations

import io
import zipfile

import openpyxl
import pytest

from worker import sheet_reach
from worker.runtime.sheets import MAX_CELLS
from worker.sheet_reach import Reach, RowTooLong, sheets_reach

CELL = '<table:table-cell table:style-name="ce1" office:value-type="float" office:value="1"/>'
EMPTY = '<table:table-cell table:style-name="ce2" table:number-columns-repeated="16384"/>'


def reach_of(*tables: str) -> list[Reach]:
    """Of tables by their rows."""
    whole = "".join(
        f'<table:table table:name="t"><table:table-column/><table:table-rows>{rows}</table:table-rows></table:table>'
        for rows in tables
    )
    with zipfile.ZipFile(io.BytesIO(), "w") as archive:
        archive.writestr("content.xml", f"<office:body>{whole}</office:body>")
        return list(sheets_reach(archive))


def row(cells: str, repeated: int = 1) -> str:
    return f'<table:table-row table:number-rows-repeated="{repeated}">{cells}</table:table-row>'


@pytest.mark.parametrize("chunk_bytes", [7, 1 << 20])
def test_rows_and_cells_count_up_to_the_last_that_is_filled(chunk_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheet_reach, "_CHUNK_BYTES", chunk_bytes)
    covered = '<table:covered-table-cell/><table:table-cell table:number-columns-repeated="3"/>'
    first = row(CELL + covered + CELL + EMPTY) + row(EMPTY, 40) + row(CELL, 5) + "<table:table-row/>" + row(EMPTY, 900)
    assert reach_of(first, row(EMPTY), row(CELL)) == [Reach(46, 6), Reach(0, 0), Reach(1, 1)]


def test_cells_that_are_repeated_with_a_value_are_all_there_and_rows_end_where_sheets_do() -> None:
    many = CELL.replace("<table:table-cell", '<table:table-cell table:number-columns-repeated="200"')
    assert reach_of(row(many, 999_999_999)) == [Reach(1 << 20, 200)]


@pytest.mark.parametrize(("reach", "corner"), [((1, 1), "A1"), ((9, 26), "Z9"), ((9, 27), "AA9"), ((5, 16384), "XFD5")])
def test_the_last_cell_is_named_as_spreadsheets_do(reach: tuple[int, int], corner: str) -> None:
    assert Reach(*reach).corner == corner


@pytest.mark.parametrize("chunk_bytes", [50, 1 << 20])
@pytest.mark.parametrize(
    ("rows", "reach"),
    [
        ('<row r="1"><c r="A1" t="s"><v>1</v></c><c r="B8"/></row><row r="9"/>', (1, 1)),
        ('<row spans="1:9" r="2"><c s="1" r="C2"><v>7</v></c></row>', (2, 3)),
        ('<row r="99999999999"><c><v>1</v></c></row>', (99999999999, 1)),
        ("<row><c><v>1</v></c></row>", (1, 1)),
        ('<row r="7"><c/><c r="D7"/><c><v>1</v></c></row><row><c/><c t="s"><v>1</v></c><c/></row>', (8, 5)),
        ("<row r='2'><c r='C2'><v>7</v></c></row>", (2, 3)),
        ('<row r="2"><c r="B2"><v>7</v></c></row><row r="1048576" ht="9"></row>', (2, 2)),
    ],
)
def test_an_excel_file_that_does_not_say_how_far_it_reaches_is_looked_through(
    monkeypatch: pytest.MonkeyPatch, rows: str, reach: tuple[int, int], chunk_bytes: int
) -> None:
    """One of 9 KB with a stray cell ended the process: memory for 116 GB was asked for."""
    monkeypatch.setattr(sheet_reach, "_CHUNK_BYTES", chunk_bytes)
    with zipfile.ZipFile(io.BytesIO(), "w") as archive:
        archive.writestr(
            "xl/worksheets/sheet1.xml", f"<worksheet><sheetData>{' ' * 5000}{rows}</sheetData></worksheet>"
        )
        assert list(sheets_reach(archive)) == [reach]


@pytest.mark.parametrize("told", ["<dimension ref='A1:C3'/>", '<x:dimension ref="C3"/>'])
def test_what_a_sheet_says_of_its_reach_is_found_in_either_kind_of_quotes(told: str) -> None:
    with zipfile.ZipFile(io.BytesIO(), "w") as archive:
        archive.writestr("xl/worksheets/sheet1.xml", f"<worksheet>{told}<sheetData/></worksheet>")
        assert list(sheets_reach(archive)) == [Reach(3, 3)]


def test_a_placeholder_of_a_program_that_writes_front_to_back_says_nothing_of_the_reach() -> None:
    """Such a sheet with a stray cell ended the process: it was taken for one of a single cell."""
    cells = '<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    with zipfile.ZipFile(io.BytesIO(), "w") as archive:
        archive.writestr("xl/worksheets/sheet1.xml", f'<worksheet><dimension ref="A1"/><sheetData>{cells}</sheetData>')
        assert list(sheets_reach(archive)) == [Reach(1_048_576, 16_384)]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("tag", [b'<c r="A1"' + b' r="A1"' * 290, b"<c" + b' r="A' * 390, b"<row" + b" " * 1990])
def test_tags_without_end_are_looked_through_in_time(tag: bytes) -> None:
    """One MB took 7 s, and the time grew as the square of the length of a tag."""
    with zipfile.ZipFile(io.BytesIO(), "w") as archive:
        archive.writestr("xl/worksheets/sheet1.xml", tag * 10_000)
        assert list(sheets_reach(archive)) == [Reach(0, 0)]


def test_an_excel_file_is_taken_by_its_word() -> None:
    book = openpyxl.Workbook()
    book.active["C7"] = 1
    book.active["AA3"] = 1
    book.save(target := io.BytesIO())
    with zipfile.ZipFile(target) as archive:
        (reach,) = sheets_reach(archive)
    assert reach == (7, 27) and reach.cells == 189


@pytest.mark.parametrize("corner", ["Z" * 4000 + "1", "A" + "9" * 4000])
def test_an_excel_file_with_an_absurd_last_cell_has_a_reach_that_can_be_told(corner: str) -> None:
    with zipfile.ZipFile(io.BytesIO(), "w") as archive:
        archive.writestr("xl/worksheets/sheet1.xml", f'<worksheet><dimension ref="A1:{corner}"/>')
        (reach,) = sheets_reach(archive)
    assert reach.cells > MAX_CELLS
    assert len(f"{reach.rows:,} x {reach.columns:,}, {reach.corner}") < 100


def test_a_row_without_end_is_given_up_by_its_sheet_and_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheet_reach, "_ROW_BYTES_MAX", 1000)
    monkeypatch.setattr(sheet_reach, "_CHUNK_BYTES", 100)
    with pytest.raises(RowTooLong, match=r"The sheet 't' has a row of more .*: row 2\.$"):
        reach_of(row(CELL) + row(CELL * 50))


def test_what_fills_a_file_before_its_first_row_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheet_reach, "_ROW_BYTES_MAX", 1000)
    monkeypatch.setattr(sheet_reach, "_CHUNK_BYTES", 100)
    with pytest.raises(RowTooLong, match=r"^Before its first row stand more than"):
        reach_of("<x/>" * 500 + row(CELL, 1_000_000))


def test_many_sheets_that_begin_in_one_another_are_looked_through_once() -> None:
    assert reach_of("<table:table " * 200_000 + row(CELL)) == [Reach(1, 1)]
