"""Bad tables: each gets an error or a finding that names the place and the next step."""

from __future__ import annotations

import gzip
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from codegen.profile.types import ColumnType
from tests.codegen.profile.uploads import Lab, finding

ROWS = "".join(f"{i},{i % 7},{'ab'[i % 2]}\n" for i in range(60))
GOOD = "x,z,label\n" + ROWS


@pytest.mark.parametrize("body", [b"", b"\n \r\n\n", b"\xef\xbb\xbf", gzip.compress(b"", mtime=0)])
def test_an_empty_file_is_refused(lab: Lab, body: bytes) -> None:
    assert lab.problem("data.csv", body).code == "empty_file"


@pytest.mark.parametrize("body", ["a,b,label\n", "a,b,label", "a,b,label\n\n\n"])
def test_a_header_without_rows_is_refused(lab: Lab, body: str) -> None:
    problem = lab.problem("data.csv", body)
    assert (problem.code, problem.row) == ("header_only", 1)


def test_a_wrong_delimiter_is_told_with_the_one_that_fits(lab: Lab) -> None:
    problem = lab.problem("data.csv", GOOD.replace(",", ";"), delimiter=",")
    assert problem.code == "wrong_delimiter"
    assert "';'" in problem.hint and "3 columns" in problem.hint


def test_a_table_of_one_column_asks_for_the_delimiter(lab: Lab) -> None:
    assert lab.problem("data.csv", "value\n" + "word\n" * 30).code == "one_column"


def test_a_table_of_a_split_alone_is_refused(lab: Lab) -> None:
    assert lab.problem("data.jsonl", '{"__split__": "train"}\n' * 30).code == "one_column"


def test_ragged_rows_are_left_out_and_their_lines_named(lab: Lab) -> None:
    lines = GOOD.splitlines()
    lines[4] += ",extra"
    lines[20] = "only one"
    profile = lab.profile("data.csv", "\n".join(lines))
    found = finding(profile, "ragged_rows")
    assert found.rows == (5, 21)
    assert "line 5: 4 fields" in found.message and "line 21: 1 field)" in found.message
    assert profile.rows == 58


@pytest.mark.parametrize("first", ["sep=;\n", "Report of May\n\n", ""])
def test_a_first_line_unlike_all_others_is_suspected(lab: Lab, first: str) -> None:
    body = first + (GOOD.replace(",", ";") if first else "x,z\n" + ROWS)
    problem = lab.problem("data.csv", body)
    assert problem.code == "ragged_rows" and "Every other line has 3" in problem.hint


def test_a_web_page_is_told_however_it_begins(lab: Lab) -> None:
    assert "a web page" in lab.problem("data.csv", "<!doctype HTML><html>Sign in, please</html>").message


def test_columns_of_one_name_in_parquet_are_named(lab: Lab) -> None:
    target = io.BytesIO()
    pq.write_table(pa.table([pa.array(range(60))] * 3, names=["x", "y", "x"]), target)
    problem = lab.problem("data.parquet", target.getvalue())
    assert (problem.code, problem.column) == ("duplicate_headers", "x") and "'x'" in problem.message


@pytest.mark.parametrize("name", ["*", "^x$", "^.*$", "^($"])
def test_a_name_that_stands_for_other_columns_is_refused(lab: Lab, name: str) -> None:
    body = f"x,{name},y\n" + "".join(f"{i},{i % 7},{'ab'[i % 2]}\n" for i in range(60))
    problem = lab.problem("data.csv", body)
    assert (problem.code, problem.column) == ("pattern_name", name) and "Rename it" in problem.hint


@pytest.mark.parametrize("name", ["^", "$", "^GSPC", "US$", "a*", "**"])
def test_signs_of_a_pattern_alone_may_stand_in_a_name(lab: Lab, name: str) -> None:
    body = f"x,{name},y\n" + "".join(f"{i},{i % 7},{'ab'[i % 2]}\n" for i in range(60))
    assert name in {column.name for column in lab.profile("data.csv", body).columns}


@pytest.mark.parametrize("scale", [1e298, 1e-298])
def test_an_amount_whose_squares_cannot_be_held_is_told(lab: Lab, scale: float) -> None:
    body = "x,z,y\n" + "".join(f"{i * 0.7},{i % 7},{i % 50 * scale!r}\n" for i in range(60))
    assert "squares" in finding(lab.profile("data.csv", body), "target_out_of_scale").message


def test_many_ragged_rows_are_refused_with_the_first_line(lab: Lab) -> None:
    lines = GOOD.splitlines()
    lines[3::3] = [line + ",1,2" for line in lines[3::3]]
    problem = lab.problem("data.csv", "\n".join(lines))
    assert (problem.code, problem.row, problem.file) == ("ragged_rows", 4, "data.csv")


def test_a_ragged_row_after_a_quoted_newline_is_named_by_its_line(lab: Lab) -> None:
    lines = ["x,z,label", '1,"two\nlines",a', *ROWS.splitlines()[:40], "1,2"]
    profile = lab.profile("data.csv", "\n".join(lines))
    assert finding(profile, "ragged_rows").rows == (44,)


@pytest.mark.parametrize("line", [1, 2, 37])
def test_a_nul_byte_is_refused_with_its_line(lab: Lab, line: int) -> None:
    lines = GOOD.splitlines()
    lines[line - 1] = lines[line - 1].replace(",", "\0,", 1)
    problem = lab.problem("data.csv", "\n".join(lines))
    assert (problem.code, problem.row) == ("nul_byte", line)


def test_a_nul_byte_far_into_the_file_is_refused_with_its_line(lab: Lab) -> None:
    lines = ["x,z,label", *ROWS.splitlines() * 2000]
    lines[100_000] = "1,\0,a"
    problem = lab.problem("data.csv", "\n".join(lines))
    assert (problem.code, problem.row) == ("nul_byte", 100_001)


def test_an_unterminated_quote_is_named_by_the_line_that_opens_it(lab: Lab) -> None:
    lines = GOOD.splitlines()
    lines[9] = '9,"2,a'
    problem = lab.problem("data.csv", "\n".join(lines))
    assert (problem.code, problem.row) == ("unterminated_quote", 10)


def test_an_unterminated_quote_among_quoted_fields_is_named(lab: Lab) -> None:
    lines = ["x,z,label", *(f'{i},"text {i}",a' for i in range(50))]
    lines[20] = '19,"text 19,a'
    problem = lab.problem("data.csv", "\n".join(lines))
    assert problem.code == "bad_quotes"
    assert problem.row == 22 and "begins in line 21" in problem.message


def test_an_unterminated_quote_in_a_large_file_stops_the_reading(lab: Lab) -> None:
    body = 'x,z,label\n1,"2,a\n' + ROWS * 40_000
    problem = lab.problem("data.csv", body)
    assert (problem.code, problem.row) == ("unterminated_quote", 2)


def test_a_quote_inside_an_unquoted_field_is_kept(lab: Lab) -> None:
    profile = lab.profile("data.csv", "size,kind,label\n" + '5" pipe,"a ""b""",x\n6" pipe,c,y\n' * 20)
    assert profile.rows == 40
    assert lab.table()["size"].to_pylist()[:2] == ['5" pipe', '6" pipe']
    assert lab.table()["kind"].to_pylist()[:2] == ['a "b"', "c"]


def test_a_few_words_in_a_column_of_numbers_count_as_missing_and_their_rows_are_named(lab: Lab) -> None:
    lines = GOOD.splitlines()
    lines[7] = "about 6,1,a"
    profile = lab.profile("data.csv", "\n".join(lines))
    found = finding(profile, "mixed_types", "x")
    assert found.rows == (7,) and "about 6" in found.message
    column = profile.column("x")
    assert column and (column.type, column.missing) == (ColumnType.NUMERIC, 1)
    assert lab.table()["x"].null_count == 1


def test_a_column_of_words_and_numbers_is_a_category(lab: Lab) -> None:
    body = "size,z,label\n" + "".join(f"{('1', '2', '3', '4+')[i % 4]},{i},{'ab'[i % 2]}\n" for i in range(80))
    profile = lab.profile("data.csv", body)
    column = profile.column("size")
    assert column and column.type is ColumnType.CATEGORY
    assert finding(profile, "mixed_types", "size").rows == (4, 8, 12, 16, 20)


def test_a_column_without_any_value_is_told(lab: Lab) -> None:
    body = "x,empty,label\n" + "".join(f"{i % 5},{('', 'NA', '?')[i % 3]},{'ab'[i % 2]}\n" for i in range(60))
    profile = lab.profile("data.csv", body)
    column = profile.column("empty")
    assert column and (column.type, column.missing) == (ColumnType.CONSTANT, 60)
    assert finding(profile, "all_missing", "empty")


def test_a_target_without_values_is_told_once_and_not_as_left_out(lab: Lab) -> None:
    body = "x,z,label\n" + "".join(f"{i * 0.7},{i % 7},\n" for i in range(60))
    found = lab.profile("data.csv", body, target="label").warnings
    assert [item.code for item in found if item.column == "label"] == ["target_all_missing"]


def test_a_target_with_one_class_is_told(lab: Lab) -> None:
    profile = lab.profile("data.csv", "x,label\n" + "".join(f"{i % 9},a\n" for i in range(60)), target="label")
    assert "only one value ('a')" in finding(profile, "one_class", "label").message


@pytest.mark.parametrize(("value", "what"), [("a", "only one value"), ("", "no value")])
def test_a_column_named_like_the_target_that_cannot_be_it_is_told(lab: Lab, value: str, what: str) -> None:
    profile = lab.profile("data.csv", "x,label\n" + "".join(f"{i % 9},{value}\n" for i in range(60)))
    found = finding(profile, "target_passed_over", "label")
    assert what in found.message and "'x' was taken instead" in found.message
    assert finding(profile, "no_features")


def test_free_text_alone_is_enough_to_learn_from(lab: Lab) -> None:
    rows = [f"the {number}th of many long remarks about nothing at all,{'ab'[number % 2]}" for number in range(60)]
    profile = lab.profile("data.csv", "\n".join(["remark,label", *rows]) + "\n")
    assert "words that occur together" in finding(profile, "text_column", "remark").meaning
    assert "no_features" not in {found.code for found in profile.warnings}


def test_a_target_that_was_chosen_passes_none_over(lab: Lab) -> None:
    profile = lab.profile("data.csv", "x,z,label\n" + "".join(f"{i % 9},{i % 4},a\n" for i in range(60)), target="z")
    assert not {"target_passed_over", "no_features"} & {found.code for found in profile.warnings}


def test_a_class_with_one_sample_is_told_with_its_row(lab: Lab) -> None:
    lines = GOOD.splitlines()
    lines[33] = "32,4,c"
    profile = lab.profile("data.csv", "\n".join(lines))
    found = finding(profile, "single_sample_class")
    assert found.rows == (33,) and "'c'" in found.message


def test_repeated_headers_get_numbers(lab: Lab) -> None:
    profile = lab.profile("data.csv", GOOD.replace("x,z,label", "x,x,label"))
    assert [column.name for column in profile.columns] == ["x", "x_2", "label"]
    assert finding(profile, "duplicate_headers").column == "x"


def test_rows_without_a_target_are_counted_and_named(lab: Lab) -> None:
    lines = GOOD.splitlines()
    lines[5] = "4,4,"
    profile = lab.profile("data.csv", "\n".join(lines))
    found = finding(profile, "target_missing_values", "label")
    assert found.rows == (5,) and "1 of 60" in found.message


def test_a_target_that_is_no_column_is_refused_with_the_columns(lab: Lab) -> None:
    problem = lab.problem("data.csv", GOOD, target="labels")
    assert (problem.code, problem.column) == ("target_not_found", "labels")
    assert "label" in problem.hint


def test_ten_thousand_classes_are_told(lab: Lab) -> None:
    body = "x,label\n" + "".join(f"{i % 13},class {i % 10_000}\n" for i in range(30_000))
    profile = lab.profile("data.csv", body)
    assert len(profile.classes) == 10_000
    assert "10,000 classes" in finding(profile, "many_classes").message


def test_ten_thousand_classes_of_one_row_each_cannot_be_learned(lab: Lab) -> None:
    body = "x,label\n" + "".join(f"{i % 13},class {i}\n" for i in range(10_000))
    profile = lab.profile("data.csv", body, target="label")
    assert finding(profile, "too_many_classes", "label")


def test_an_unknown_option_column_is_refused(lab: Lab) -> None:
    assert lab.problem("data.csv", GOOD, column_types={"nope": ColumnType.TEXT}).column == "nope"
