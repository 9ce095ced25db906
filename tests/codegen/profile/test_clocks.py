"""Durations and times of day are numbers of seconds where a column is made of them."""

from __future__ import annotations

import pytest

from codegen.profile.types import ColumnType, DatasetProfile, Severity
from tests.codegen.profile.uploads import Lab, finding

AS_NUMBERS = {"took": ColumnType.NUMERIC}
"""So few different ones would stay words."""


def profiled(lab: Lab, values: list[str], **options: object) -> DatasetProfile:
    rows = [f"{values[i % len(values)]}\t{i % 4}\t{'ab'[i % 2]}" for i in range(60)]
    return lab.profile("a.tsv", "\n".join(["took\tz\tlabel", *rows]), **options)


@pytest.mark.parametrize(
    ("written", "expected", "spelling"),
    [
        (["0:38:53", "1:02:03", "12:00:00.25", "n/a"], [2333, 3723, 43200.25, None], "h:mm:ss"),
        (["19:12", "08:05", "00:00", "7:59"], [69120, 29100, 0, 28740], "h:mm"),
        (["4:35", "59:59", "1:02:03", "0:05"], [275, 3599, 3723, 5], "m:ss"),
        (["4:35", "4:35.2", "12:00,5", "-0:05"], [275, 275.2, 720.5, -5], "m:ss"),
        (["19:12:30", "19:12", "08:00:01", "08:00:02"], [69150, 69120, 28801, 28802], "h:mm"),
        (["1 day, 2:03:04", "0:00:01", "2 days, 0:00:00", "0:38:53"], [93784, 1, 172800, 2333], "h:mm:ss"),
        (["0 days 00:38:53", "-1 days +23:59:55", "3 days 00:00:00.5", ""], [2333, -5, 259200.5, None], "h:mm:ss"),
    ],
    ids=["durations", "of day", "minutes", "fractions", "whole minutes cut", "Python", "pandas"],
)
def test_clock_readings_are_numbers_of_seconds(
    lab: Lab, written: list[str], expected: list[float | None], spelling: str
) -> None:
    profile = profiled(lab, written, column_types=AS_NUMBERS)
    column = profile.column("took")
    present = [value for value in expected if value is not None]
    assert column and (column.type, column.spelling) == (ColumnType.NUMERIC, spelling)
    assert (column.minimum, column.maximum) == (min(present), max(present))
    assert column.missing == 60 - 15 * len(present)
    assert lab.table()["took"].to_pylist()[:4] == expected
    assert f"such as {written[0]}; they were read as seconds" in finding(profile, "clock_times", "took").message


def test_durations_that_are_all_different_are_something_to_learn_from(lab: Lab) -> None:
    rows = [f"{i % 3}:{i % 60:02d}:{i * 7 % 60:02d}\t{'ab'[i % 2]}" for i in range(60)]
    profile = lab.profile("a.tsv", "\n".join(["took\tlabel", *rows]))
    assert not {"no_features", "identifier_column"} & {found.code for found in profile.warnings}
    assert finding(profile, "clock_times", "took").severity is Severity.INFO


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (["38:53", "19:12"], "hours and minutes"),
        (["19:12", "1:02:03"], "minutes and seconds"),
        (["3:32", "9:59", "4:05"], "hours and minutes"),
    ],
    ids=["more than a day", "beside three figures", "none with a zero in front"],
)
def test_two_figures_that_may_be_hours_or_minutes_are_told(lab: Lab, written: list[str], read: str) -> None:
    found = finding(profiled(lab, written, column_types=AS_NUMBERS), "clock_times", "took")
    assert f"Those of two figures were read as {read}." in found.message
    assert "write all three" in found.meaning and found.severity is Severity.WARNING


def test_a_plain_number_among_durations_is_read_as_seconds_and_told(lab: Lab) -> None:
    profile = profiled(lab, [*["0:38:53"] * 29, "90"])
    assert lab.table()["took"].to_pylist()[28:31] == [2333, 90, 2333]
    found = finding(profile, "clock_times", "took")
    assert "2 plain numbers were read as seconds" in found.message and found.severity is Severity.WARNING


def test_a_word_among_durations_counts_as_missing_and_is_named(lab: Lab) -> None:
    profile = profiled(lab, [*[f"0:{second:02d}:53" for second in range(29)], "late"])
    assert lab.table()["took"].to_pylist()[28:31] == [1733, None, 53]
    assert "'late' in row 30" in finding(profile, "mixed_types", "took").message


@pytest.mark.parametrize("written", [["08:00", "12:00", "18:00"], ["16:10", "4:30"], ["0:01:00", "0:05:00", "n/a"]])
def test_few_different_ones_stay_as_they_are_written(lab: Lab, written: list[str]) -> None:
    rows = [f"{i % 7}\t{written[i % len(written)]}" for i in range(60)]
    profile = lab.profile("a.tsv", "\n".join(["z\tslot", *rows]), target="slot")
    column = profile.column("slot")
    kept = [value for value in written if value != "n/a"]
    assert column and (column.type, column.spelling) == (ColumnType.CATEGORY, "")
    assert column.reason == f"only {len(kept)} different durations or times of day, kept as they are written"
    assert profile.task == "tabular_classification" and {name for name, _ in profile.classes} == set(kept)
    assert not {"clock_times", "numbers_as_words", "mixed_types"} & {found.code for found in profile.warnings}


def test_as_many_as_would_be_no_classes_are_numbers(lab: Lab) -> None:
    column = profiled(lab, [f"{hour:02d}:{minute}" for hour in range(7) for minute in (15, 30, 45)]).column("took")
    assert column and (column.type, column.spelling, column.unique) == (ColumnType.NUMERIC, "h:mm", 21)


@pytest.mark.parametrize(
    "values", [["1:2", "2:1"], ["19:75", "8:99"], ["19:12", "in the morning"], ["3:16", "5", "7", "12"]]
)
def test_what_is_mostly_no_clock_reading_stays_words(lab: Lab, values: list[str]) -> None:
    column = profiled(lab, values).column("took")
    assert column and (column.type, column.spelling) == (ColumnType.CATEGORY, "")
    assert lab.table()["took"].to_pylist()[:2] == values[:2]


def test_a_person_may_have_times_of_day_kept_as_words(lab: Lab) -> None:
    written = [f"19:{minute:02d}" for minute in range(60)]
    profile = profiled(lab, written, column_types={"took": ColumnType.CATEGORY})
    assert lab.table()["took"].to_pylist() == written
    assert "clock_times" not in {found.code for found in profile.warnings}
