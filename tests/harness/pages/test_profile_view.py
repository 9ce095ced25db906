"""Columns of a profile as the page shows them."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from codegen.profile import profile_dataset
from codegen.profile.types import Finding, ProfileOptions, Severity
from harness.pages.profile_view import class_bars, column_rows, finding_groups, rows_written


def test_values_tell_something_or_are_not_drawn(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    days = [f"2024-03-{1 + number % 20:02d}" for number in range(60)]
    lines = [f"{number},{day},{number % 2}x" for number, day in enumerate(days)]
    path.write_text("\n".join(["id,day,label", *lines]) + "\n")
    profile = profile_dataset(path, tmp_path / "out", ProfileOptions(), lambda *_: None)
    rows = {row["profile"].name: row for row in column_rows(profile, {})}
    assert rows["id"]["top"] == [] and rows["id"]["examples"], "each is in one row: there is nothing to compare"
    assert rows["day"]["top"][0] == ("2024-03-01", 3, 3 / 60)
    assert rows["label"]["top"][0][1] == 30


def test_rows_show_plain_dates_without_a_time_of_day(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    lines = [f"2024-03-{1 + at % 20:02d},x 00:00:00,{at % 2}x" for at in range(60)]
    path.write_text("\n".join(["day,note,label", *lines]) + "\n")
    profile = profile_dataset(path, tmp_path / "out", ProfileOptions(), lambda *_: None)
    given = [["2024-03-01 00:00:00", "x 00:00:00", None], ["2024-03-01 07:30:00", "x", "1x"]]
    made = [["2024-03-01", "x 00:00:00", None], ["2024-03-01 07:30:00", "x", "1x"]]
    assert rows_written(profile, ["day", "note", "label"], given) == made


def test_a_reason_is_given_where_it_says_more_than_that_numbers_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["size,cost,label", *(f"{at * 37 % 91},${at},{at % 2}x" for at in range(60))]) + "\n")
    profile = profile_dataset(path, tmp_path / "out", ProfileOptions(), lambda *_: None)
    rows = {row["profile"].name: row["is_plain"] for row in column_rows(profile, {})}
    assert rows == {"size": True, "cost": False, "label": False}


def test_many_findings_of_one_kind_are_folded_below_the_first() -> None:
    def found(code: str, column: str, meaning: str = "Look.") -> Finding:
        message = f"{column} is odd."
        return Finding(code=code, severity=Severity.INFO, message=message, meaning=meaning, column=column)

    commas = [found("decimal_comma", name) for name in "abcd"]
    others = [found("missing_values", "a"), found("missing_values", "b"), found("missing_values", "c", "Ask why.")]
    groups = finding_groups([commas[0], *others, *commas[1:]])
    assert groups == [(commas[0], commas[1:]), *((one, []) for one in others)]


def test_shares_of_classes_are_of_the_rows_that_have_one(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    labels = ["yes"] * 30 + ["no"] * 10 + [""] * 40
    path.write_text("\n".join(["size,label", *(f"{at * 37 % 91},{label}" for at, label in enumerate(labels))]) + "\n")
    profile = profile_dataset(path, tmp_path / "out", ProfileOptions(target="label"), lambda *_: None)
    assert profile.rows == 80
    classes = class_bars(profile)
    assert [(bar["name"], bar["share"]) for bar in classes["bars"]] == [("yes", 0.75), ("no", 0.25)]
    assert classes["without"] == 40
    top = next(row["top"] for row in column_rows(profile, {}) if row["is_target"])
    assert top == [("yes", 30, 0.75), ("no", 10, 0.25)], "the table of columns means the same"


def _rows(folder: Path, lines: list[str]) -> dict[str, dict[str, Any]]:
    path = folder / "a.csv"
    path.write_text("\n".join(lines) + "\n")
    profile = profile_dataset(path, folder / "out", ProfileOptions(), lambda *_: None)
    return {row["profile"].name: row for row in column_rows(profile, {})}


def test_years_and_keys_have_no_marks_of_thousands_and_amounts_do(tmp_path: Path) -> None:
    lines = [f"{1950 + at % 71},{10000 + at % 9 * 5000},{1000 + at * 7 % 5000},{at % 2}x" for at in range(142)]
    rows = _rows(tmp_path, ["built,shop_id,price,label", *lines])
    assert rows["built"]["figures"]["minimum"] == "1950" and rows["built"]["figures"]["maximum"] == "2020"
    assert rows["built"]["figures"]["mean"] == "1985" and rows["built"]["ends"] == ("1950", "2020")
    assert rows["shop_id"]["figures"]["maximum"] == "50000" and "," not in rows["shop_id"]["figures"]["std"]
    assert rows["price"]["figures"]["minimum"] == "1,000"
    assert rows["label"]["figures"] == {} == rows["label"]["time"]


def test_dates_are_shown_over_time_with_their_ends_and_the_longest_gap(tmp_path: Path) -> None:
    days = [date(2020, 1, 1) + timedelta(days=at) for at in (*range(100), *range(400, 500))]
    shown = _rows(tmp_path, ["day,label", *(f"{day},{at % 2}x" for at, day in enumerate(days))])["day"]["time"]
    assert (shown["first"], shown["last"], shown["begins"]) == ("2020-01-01", "2021-05-14", "2020-01")
    assert shown["gaps"] == 1 and shown["gap"] == "2020-04-09 to 2021-02-04"
    assert shown["bars"][0] == "2020-01: 31 rows" and shown["bars"][5] == "2020-06: 0 rows"
    hours = [datetime(2020, 1, 1) + timedelta(minutes=20 * at) for at in range(60)]
    shown = _rows(tmp_path, ["at,label", *(f"{at},{row % 2}x" for row, at in enumerate(hours))])["at"]["time"]
    assert (shown["last"], shown["bars"][1]) == ("2020-01-01 19:40", "2020-01-01 01:00: 3 rows")
