"""Tables as spreadsheets export them: short years, ticks, error values, points as thousands, titles above the names."""

from __future__ import annotations

import codecs
from datetime import datetime

import pytest

from codegen.profile.types import ColumnType, Severity
from tests.codegen.profile.uploads import Lab, finding


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{day:02d}.{month:02d}.07", datetime(2007, 2, 3)),
        ("{day}-Feb-07", datetime(2007, 2, 3)),
        ("{month}/{day}/00", datetime(2000, 2, 3)),
        ("{day:02d}.{month:02d}.69", datetime(1969, 2, 3)),
        ("{day:02d}.{month:02d}.68", datetime(2068, 2, 3)),
    ],
)
def test_years_of_two_digits_are_those_of_our_time_and_told(lab: Lab, written: str, expected: datetime) -> None:
    days = [written.format(day=3 + i % 20, month=2) for i in range(60)]
    profile = lab.profile(
        "a.csv", "when,x,label\n" + "".join(f"{day},{i % 7},{'ab'[i % 2]}\n" for i, day in enumerate(days))
    )
    assert lab.table()["when"][0].as_py() == expected
    assert "1969 to 2068" in finding(profile, "short_years", "when").message


def test_a_year_that_no_calendar_has_counts_as_missing(lab: Lab) -> None:
    days = ["0000-01-01" if i == 4 else f"2020-01-{1 + i % 28:02d}" for i in range(60)]
    lab.profile("a.csv", "when,x,label\n" + "".join(f"{day},{i % 7},{'ab'[i % 2]}\n" for i, day in enumerate(days)))
    assert lab.table()["when"].null_count == 1


def test_a_tick_in_a_box_is_a_category_and_no_constant(lab: Lab) -> None:
    body = "lift,always,rare,x,label\n" + "".join(
        f"{'x' if i % 4 else ''},y,{'z' if i else ''},{i % 7}.5,{'ab'[i % 2]}\n" for i in range(200)
    )
    profile = lab.profile("a.csv", body)
    kinds = {column.name: column.type for column in profile.columns}
    assert kinds["lift"] is ColumnType.CATEGORY
    assert kinds["always"] is kinds["rare"] is ColumnType.CONSTANT
    assert finding(profile, "missing_values", "lift").severity is Severity.INFO


@pytest.mark.parametrize("name", ["churned", "target"])
def test_a_ticked_target_is_not_left_aside_without_a_word(lab: Lab, name: str) -> None:
    body = f"a,b,{name}\n" + "".join(f"{i % 9}.5,{i % 7},{'x' if i % 3 else ''}\n" for i in range(90))
    found = finding(lab.profile("a.csv", body), "target_passed_over", name)
    assert found.severity is Severity.DANGER and "write a word for it" in found.meaning


def test_a_target_of_which_each_row_has_its_own_is_not_left_aside_without_a_word(lab: Lab) -> None:
    body = "a,b,target\n" + "".join(f"{i % 9},{i % 7},c{i}\n" for i in range(60))
    found = finding(lab.profile("a.csv", body), "target_passed_over", "target")
    assert "read as an identifier" in found.message and "'b' was taken instead" in found.message


@pytest.mark.parametrize("word", ["#NV", "#DIV/0!", "k.A.", "unknown"])
def test_a_word_that_stands_for_missing_numbers_leaves_them_numbers(lab: Lab, word: str) -> None:
    body = "x,label\n" + "".join(f"{word if i % 5 == 0 else i / 4},{'ab'[i % 2]}\n" for i in range(200))
    column = lab.profile("a.csv", body).column("x")
    assert column and (column.type, column.missing) == (ColumnType.NUMERIC, 40)


def test_sizes_written_as_numbers_and_words_stay_categories(lab: Lab) -> None:
    sizes = ["S", "M", "L", *map(str, range(34, 60))]
    body = "size,label\n" + "".join(f"{sizes[i % len(sizes)]},{'ab'[i % 2]}\n" for i in range(290))
    column = lab.profile("a.csv", body).column("size")
    assert column and column.type is ColumnType.CATEGORY


def test_row_numbers_that_pandas_wrote_are_identifiers(lab: Lab) -> None:
    body = "Unnamed: 0,x,label\n" + "".join(f"{i * i},{i % 7},{'ab'[i % 2]}\n" for i in range(60))
    column = lab.profile("a.csv", body).column("Unnamed: 0")
    assert column and column.type is ColumnType.IDENTIFIER


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_a_point_marks_thousands_where_another_column_has_decimal_commas(lab: Lab, delimiter: str) -> None:
    rows = [delimiter.join((f"{i},5", f"{1 + i}.{100 + i}" if i % 3 else str(i), "ab"[i % 2])) for i in range(60)]
    profile = lab.profile("a.csv", "\n".join([delimiter.join(("size", "price", "label")), *rows]))
    column = profile.column("price")
    assert lab.table()["price"].to_pylist()[:3] == [0, 2101, 3102]
    assert column and (column.minimum, column.maximum, column.spelling) == (0, 60159, "decimal comma")
    assert "read as thousands" in finding(profile, "points_in_doubt", "price").message


def test_a_point_stays_decimal_where_one_value_can_be_nothing_else(lab: Lab) -> None:
    rows = [f"{i},5;{'0.5' if i == 40 else f'{1 + i}.{100 + i}'};{'ab'[i % 2]}" for i in range(60)]
    lab.profile("a.csv", "\n".join(["size;price;label", *rows]))
    assert lab.table()["price"].to_pylist()[:2] == [1.1, 2.101]


def test_numbers_among_words_say_nothing_of_other_columns(lab: Lab) -> None:
    rows = [f"{'1,5' if i == 3 else 'word'};{1 + i}.{100 + i};{'ab'[i % 2]}" for i in range(60)]
    lab.profile("a.csv", "\n".join(["note;price;label", *rows]))
    assert lab.table()["price"].to_pylist()[:2] == [1.1, 2.101]


def test_numbers_of_json_have_points_whatever_texts_beside_them_say(lab: Lab) -> None:
    rows = [f'{{"size": "{i},5", "price": {1 + i}.{100 + i}, "label": "{"ab"[i % 2]}"}}' for i in range(60)]
    lab.profile("a.jsonl", "\n".join(rows))
    assert lab.table()["price"].to_pylist()[:2] == [1.1, 2.101]


def test_names_of_which_only_the_first_is_there_are_no_title(lab: Lab) -> None:
    rows = "".join(f"{'uvw'[i % 3]};{'abcd'[i % 4]};{'pq'[i % 2]}\n" for i in range(60))
    assert lab.profile("a.csv", "name;;\n" + rows).columns[0].name == "name"


@pytest.mark.parametrize("first", ["Report 2023;;\n", "Report 2023;;\n;;\n"])
def test_a_title_with_delimiters_above_the_names_is_refused(lab: Lab, first: str) -> None:
    rows = "".join(f"{i},5;{i % 7};{'pq'[i % 2]}\n" for i in range(60))
    problem = lab.problem("a.csv", first + "a;b;y\n" + rows)
    assert problem.code == "title_line" and "'Report 2023'" in problem.message
    assert lab.profile("a.csv", first + "a;b;y\n" + rows, header=True).columns[0].name == "Report 2023"


def test_a_title_above_names_is_refused_where_a_spreadsheet_filled_up_all_lines(lab: Lab) -> None:
    rows = "".join(f"{i},{i % 7},{'pq'[i % 2]},,\n" for i in range(60))
    problem = lab.problem("a.csv", "Report 2023,,,,\n,,,,\na,b,y,,\n" + rows)
    assert problem.code == "title_line" and "'Report 2023'" in problem.message


def test_columns_at_the_end_without_name_and_value_are_left_out(lab: Lab) -> None:
    rows = "".join(f"{i},,{i % 7},{'pq'[i % 2]}, ,\n" for i in range(60))
    profile = lab.profile("a.csv", "a,,b,y,,\n" + rows)
    assert [column.name for column in profile.columns] == ["a", "column_2", "b", "y"]
    assert lab.table().column_names == ["a", "column_2", "b", "y"] and profile.target == "y"
    told = finding(profile, "empty_columns")
    assert told.message.startswith("2 columns at the end have neither") and told.severity is Severity.INFO
    assert "1 column without a name was named column_2." in finding(profile, "unnamed_columns").message


@pytest.mark.parametrize("options", [{}, {"header": False}])
def test_a_value_anywhere_keeps_a_column_without_a_name(lab: Lab, options: dict[str, bool]) -> None:
    rows = "".join(f"{i},{i % 7},{'pq'[i % 2]},{'note' if i == 58 else ''},\n" for i in range(60))
    profile = lab.profile("a.csv", "a,b,y,,\n" + rows, **options)
    assert [column.name for column in profile.columns][3:] == ["column_4"]
    assert "1 column at the end has neither a name nor any value and was" in finding(profile, "empty_columns").message


def test_a_type_that_was_set_for_a_column_that_is_none_in_the_end_is_ignored(lab: Lab) -> None:
    rows = "".join(f"{i},{i % 7},{'pq'[i % 2]},\n" for i in range(60))
    types = {"column_4": ColumnType.CONSTANT, "b": ColumnType.CATEGORY}
    profile = lab.profile("a.csv", "a,b,y,\n" + rows, column_types=types)
    assert [column.type for column in profile.columns[1:]] == [ColumnType.CATEGORY] * 2


def test_a_target_that_is_no_column_in_the_end_is_refused(lab: Lab) -> None:
    rows = "".join(f"{i},{i % 7},{'pq'[i % 2]},\n" for i in range(60))
    assert lab.problem("a.csv", "a,b,y,\n" + rows, target="column_4").code == "target_not_found"


def test_more_columns_without_names_than_are_listed_are_told_as_such(lab: Lab) -> None:
    rows = "".join(f"{'pq'[i % 2]},1,2,3,4,5,{i}\n" for i in range(60))
    message = finding(lab.profile("a.csv", "y,,,,,,\n" + rows), "unnamed_columns").message
    told = "6 columns without a name were named column_2, column_3, column_4, column_5, column_6 and 1 more."
    assert message == told


def test_the_remark_sep_above_two_names_is_refused(lab: Lab) -> None:
    rows = "".join(f"{i},5;{'pq'[i % 2]}\n" for i in range(60))
    assert lab.problem("a.csv", "sep=;\na;y\n" + rows).code == "title_line"


@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize(("head", "tail"), [("", ","), ("", ",,"), (",", ""), (",,", "")])
def test_delimiters_at_the_end_of_the_rows_or_of_the_header_alone_are_no_columns(
    lab: Lab, head: str, tail: str, quoted: bool
) -> None:
    label = '"a, {}"' if quoted else "a {}"
    rows = [f"{at},{at % 7},{label.format(at % 2)}" for at in range(60)]
    profile = lab.profile("a.csv", "\n".join([f"x,z,label{head}", *(f"{row}{tail}" for row in rows)]) + "\n")
    assert [column.name for column in profile.columns] == ["x", "z", "label"]
    assert (profile.rows, len(profile.classes)) == (60, 2)
    assert not {"ragged_rows", "unnamed_columns"} & {found.code for found in profile.warnings}


def test_a_value_that_comes_late_in_a_column_without_a_name_is_kept(lab: Lab) -> None:
    rows = [f"{at},{at % 7},{at % 2}x," for at in range(400)]
    rows[350] += "late"
    profile = lab.profile("a.csv", "\n".join(["x,z,label", *rows]) + "\n")
    assert profile.columns[-1].name == "column_4" and profile.columns[-1].missing == 399


def test_a_name_that_lacks_above_a_filled_column_is_still_told(lab: Lab) -> None:
    body = "\n".join(["x,z", *(f"{at},{at % 7},{at % 2}x" for at in range(60))])
    assert lab.problem("a.csv", body).code == "ragged_rows"


@pytest.mark.parametrize("codec", ["utf-32", "utf-32-be"])
def test_utf_32_is_read_where_it_has_a_byte_order_mark(lab: Lab, codec: str) -> None:
    body = "x,size,label\n" + "".join(f"{at},{at % 7},{at % 2}\u00e4\n" for at in range(60))
    mark = codecs.BOM_UTF32_BE if codec.endswith("be") else b""
    profile = lab.profile("a.csv", mark + body.encode(codec))
    assert profile.rows == 60 and "utf-32" in profile.source_format


def test_an_array_of_json_objects_is_told_whatever_its_file_is_called(lab: Lab) -> None:
    assert lab.problem("a.csv", '[{"x": 1, "y": 2}, {"x": 2, "y": 3}]').code == "json_array"


def test_a_row_that_lacks_fields_costs_not_the_rows_with_a_delimiter_at_their_end(lab: Lab) -> None:
    rows = [f"{at},{at % 7},{at % 2}x," for at in range(60)]
    profile = lab.profile("a.csv", "\n".join(["x,z,label", *rows, "1,2"]) + "\n")
    assert [column.name for column in profile.columns] == ["x", "z", "label"]
    assert profile.rows == 60 and finding(profile, "ragged_rows").rows == (62,)


@pytest.mark.parametrize("ends", [("\r", "\n"), ("\r\n", "\r"), ("\r", "\r")])
@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16"])
def test_lines_that_end_in_several_ways_are_told_apart(lab: Lab, ends: tuple[str, str], codec: str) -> None:
    body = "x,z,label\r" + "".join(f"{at},{at % 7},{at % 2}\u00e4{ends[at % 2]}" for at in range(60)) + "1,2\n"
    profile = lab.profile("a.csv", body.encode(codec))
    assert [column.name for column in profile.columns] == ["x", "z", "label"]
    assert profile.rows == 60 and finding(profile, "ragged_rows").rows == (62,)


def test_a_return_within_quotes_ends_no_line(lab: Lab) -> None:
    body = "x,z,label\n" + "".join(f'"{at % 5}\ra",{at % 7},{at % 2}x\n' for at in range(60))
    profile = lab.profile("a.csv", body)
    assert profile.rows == 60 and profile.columns[0].unique == 5
