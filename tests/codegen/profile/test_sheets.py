"""Workbooks of spreadsheets: the first sheet with rows, its cells as a CSV would have them, attacks refused."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from datetime import date, datetime, time
from typing import Any

import openpyxl
import pytest

from codegen.profile.types import ColumnType
from tests.codegen.profile.uploads import Lab, finding, zip_of

HEAD = ["when", "x", "ok", "label"]
ROWS = [[datetime(2024, 1, 1 + i % 28, 10 * (i % 2)), i % 7 + i / 8, i % 3 == 0, "ab"[i % 2]] for i in range(60)]
Sheets = dict[str, list[list[Any]]]


def workbook(sheets: Sheets, hidden: str = "") -> bytes:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
        sheet.sheet_state = "hidden" if name == hidden else "visible"
    target = io.BytesIO()
    book.save(target)
    return target.getvalue()


Given = str | int | None


def odf_cell(given: Given) -> str:
    """A text; a number: so many empty cells; None: an empty one with a comment."""
    if isinstance(given, int):
        return f'<table:table-cell table:number-columns-repeated="{given}"/>'
    if given is None:
        return "<table:table-cell><office:annotation><text:p>look</text:p></office:annotation></table:table-cell>"
    return f'<table:table-cell office:value-type="string"><text:p>{given}</text:p></table:table-cell>'


def opendocument(rows: Sequence[Sequence[Given] | int]) -> bytes:
    """`rows`: cells, or a number of empty rows."""
    cells = "".join(
        f'<table:table-row table:number-rows-repeated="{row}">{odf_cell(16384)}</table:table-row>'
        if isinstance(row, int)
        else f"<table:table-row>{''.join(map(odf_cell, row))}</table:table-row>"
        for row in rows
    )
    names = "".join(
        f' xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{short}:1.0"' for short in ("office", "table", "text")
    )
    content = (
        f"<office:document-content{names}><office:body><office:spreadsheet>"
        f'<table:table table:name="One">{cells}</table:table>'
        "</office:spreadsheet></office:body></office:document-content>"
    )
    mimetype = b"application/vnd.oasis.opendocument.spreadsheet"
    manifest = b'<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>'
    return zip_of({"mimetype": mimetype, "content.xml": content.encode(), "META-INF/manifest.xml": manifest})


def test_a_sheet_is_a_table_with_numbers_moments_and_truth_values(lab: Lab) -> None:
    profile = lab.profile("people.xlsx", workbook({"Data": [HEAD, *ROWS]}))
    assert profile.rows == 60 and profile.source_format == "spreadsheet; sheet 'Data'"
    kinds = {column.name: column.type for column in profile.columns}
    assert kinds == {
        "when": ColumnType.DATE, "x": ColumnType.NUMERIC, "ok": ColumnType.CATEGORY, "label": ColumnType.CATEGORY,
    }  # fmt: skip
    table = lab.table()
    assert table["when"].to_pylist() == [row[0] for row in ROWS]
    assert table["x"].to_pylist() == pytest.approx([row[1] for row in ROWS])
    assert table["label"].to_pylist() == [row[3] for row in ROWS]


def test_it_is_profiled_as_the_same_table_in_a_csv(lab: Lab) -> None:
    rows = [[i, i % 7 + 0.5, "" if i % 5 == 0 else f"c{i % 3}", "ab"[i % 2]] for i in range(80)]
    of_sheet = lab.profile("a.xlsx", workbook({"S": [["id", "x", "c", "label"], *rows]}))
    csv = "id,x,c,label\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    of_csv = lab.profile("a.csv", csv)
    assert of_sheet.columns == of_csv.columns and of_sheet.target == of_csv.target


def test_whole_numbers_days_and_times_are_written_as_people_write_them(lab: Lab) -> None:
    rows = [[20240000 + i, date(2024, 3, 1 + i % 28), time(8, i % 60), 0.1 + i, "ab"[i % 2]] for i in range(60)]
    lab.profile("a.xlsx", workbook({"S": [["number", "day", "time", "x", "label"], *rows]}))
    table = lab.table()
    assert table["number"].to_pylist() == [str(row[0]) for row in rows]
    assert table["day"].to_pylist() == [datetime.combine(row[1], time()) for row in rows]
    assert table["x"].to_pylist() == [row[3] for row in rows]


def test_a_title_empty_rows_and_unused_columns_are_no_data(lab: Lab) -> None:
    empty: list[Any] = [None] * 6
    rows = [[None, *row, None] for row in ROWS]
    sheet = [["Sales of 2024"], empty, [None, *HEAD, None], *rows[:30], empty, *rows[30:], empty]
    profile = lab.profile("a.xlsx", workbook({"S": sheet}))
    assert profile.rows == 60 and [column.name for column in profile.columns] == HEAD
    assert "1 row above" in finding(profile, "rows_above_header").message


def test_cells_with_errors_and_empty_ones_are_missing(lab: Lab) -> None:
    rows = [[i if i % 4 else ("#DIV/0!" if i % 8 else None), "ab"[i % 2]] for i in range(64)]
    lab.profile("a.xlsx", workbook({"S": [["x", "label"], *rows]}))
    assert lab.table()["x"].null_count == 16


def test_the_first_visible_sheet_with_rows_is_read_and_the_others_are_named(lab: Lab) -> None:
    sheets: Sheets = {"Cover": [["Read me"]], "Old": [HEAD, *ROWS[:9]], "Data": [HEAD, *ROWS], "More": [HEAD, *ROWS]}
    profile = lab.profile("a.xlsx", workbook(sheets, hidden="Old"))
    assert profile.source_format.endswith("sheet 'Data'") and profile.rows == 60
    assert "not 'More'" in finding(profile, "other_sheets").message


def test_an_opendocument_sheet_is_read_too(lab: Lab) -> None:
    body = opendocument([["x", "label"], *([str(i % 7), "ab"[i % 2]] for i in range(50))])
    profile = lab.profile("a.ods", body)
    assert profile.rows == 50 and [column.name for column in profile.columns] == ["x", "label"]


@pytest.mark.parametrize(
    "rows", [[], [["only", "names"]], [["a", "b"], [None, None]], [["one", None], ["below", None], [None, "beside"]]]
)
def test_a_workbook_without_a_table_is_refused(lab: Lab, rows: list[list[Any]]) -> None:
    assert lab.problem("a.xlsx", workbook({"S": rows})).code == "header_only"


def test_a_sheet_of_one_column_has_its_name_in_the_first_cell(lab: Lab) -> None:
    profile = lab.profile("a.xlsx", workbook({"S": [["x"], *([i] for i in range(30))]}))
    assert profile.rows == 30 and profile.columns[0].name == "x"


def test_a_broken_workbook_is_refused_with_what_to_do(lab: Lab) -> None:
    body = zip_of({"[Content_Types].xml": b"<x", "xl/workbook.xml": b"<not", "xl/worksheets/sheet1.xml": b"<"})
    problem = lab.problem("a.xlsx", body)
    assert problem.code == "broken_file" and "save it again" in problem.hint


def test_a_workbook_that_unpacks_to_too_much_is_refused_before_it_is_read(lab: Lab) -> None:
    target = io.BytesIO(workbook({"S": [HEAD, *ROWS]}))
    with zipfile.ZipFile(target, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/sharedStrings2.xml", b"<" * (300 << 20))
    problem = lab.problem("a.xlsx", target.getvalue())
    assert problem.code == "too_large" and "CSV" in problem.hint


def test_a_stray_cell_far_from_the_others_is_refused_and_named(lab: Lab) -> None:
    book = openpyxl.Workbook()
    for row in [HEAD, *ROWS]:
        book.active.append(row)
    book.active["XFD1048576"] = "stray"
    book.save(target := io.BytesIO())
    problem = lab.problem("a.xlsx", target.getvalue())
    assert problem.code == "too_large" and "XFD1048576" in problem.message


TABLE = [["x", "label"], *([str(i), "ab"[i % 2]] for i in range(60))]


def test_a_stray_cell_of_an_opendocument_sheet_is_refused_and_named_before_it_is_read(lab: Lab) -> None:
    problem = lab.problem("a.ods", opendocument([*TABLE, 1_000_000, [16000, "stray"]]))
    assert problem.code == "too_large" and "WQK1000062" in problem.message and "delete its row" in problem.hint


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        ([*TABLE, 1_000_000, [16000, None]], ["x", "label"]),
        ([[*TABLE[0], 16000, None], *TABLE[1:], 1_048_515], ["x", "label"]),
        ([*TABLE, 100_000, ["7", "a"]], ["x", "label"]),
        ([TABLE[0], [*TABLE[1], 15000, "stray"], *TABLE[2:]], ["x", "label", "column_3"]),
    ],
    ids=["comment below", "comment beside", "row far below", "cell far beside"],
)
def test_what_lies_far_from_a_table_makes_no_empty_rows_or_columns(
    lab: Lab, rows: list[Any], columns: list[str]
) -> None:
    profile = lab.profile("a.ods", opendocument(rows))
    assert [column.name for column in profile.columns] == columns
    assert profile.rows == sum(isinstance(row, list) and isinstance(row[0], str) for row in rows) - 1


def test_columns_without_a_name_are_named_and_repeated_ones_numbered(lab: Lab) -> None:
    rows = [[i, i % 5, i % 3, "ab"[i % 2]] for i in range(50)]
    profile = lab.profile("a.xlsx", workbook({"S": [["x", None, "x", "label"], *rows]}))
    assert [column.name for column in profile.columns] == ["x", "column_2", "x_2", "label"]
