"""When the rows of a column of dates lie."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from codegen.profile import profile_dataset
from codegen.profile.time_span import TimeGap, TimeSpan
from codegen.profile.types import ColumnType, DatasetProfile, ProfileOptions

_START = datetime(2020, 1, 1)


def _profile(folder: Path, moments: Sequence[object]) -> DatasetProfile:
    path = folder / "a.csv"
    path.write_text("\n".join(["when,label", *(f"{at},{row % 2}x" for row, at in enumerate(moments))]) + "\n")
    return profile_dataset(path, folder / "out", ProfileOptions(), lambda *_: None)


def _span(folder: Path, moments: Sequence[object]) -> TimeSpan:
    span = _profile(folder, moments).columns[0].span
    assert span is not None
    return span


def test_bars_begin_with_a_month_and_those_without_rows_are_there_too(tmp_path: Path) -> None:
    days = [_START.date() + timedelta(days=at) for at in range(5, 730) if not 100 <= at < 300]
    span = _span(tmp_path, days)
    assert (span.first, span.last, span.unit) == ("2020-01-06 00:00:00", "2021-12-30 00:00:00", "month")
    assert len(span.starts) == 24 and span.starts[:2] == ("2020-01-01 00:00:00", "2020-02-01 00:00:00")
    assert span.counts[:6] == (26, 29, 31, 10 - 1, 0, 0) and sum(span.counts) == len(days)
    assert span.gaps == (TimeGap(after="2020-04-09 00:00:00", until="2020-10-27 00:00:00"),)


def test_days_are_never_parted_into_hours_and_times_of_day_are(tmp_path: Path) -> None:
    span = _span(tmp_path, [_START.date() + timedelta(days=at % 4) for at in range(40)])
    assert (span.unit, span.counts) == ("day", (10, 10, 10, 10))
    span = _span(tmp_path, [_START + timedelta(minutes=20 * at) for at in range(60)])
    assert (span.unit, len(span.counts)) == ("hour", 20) and set(span.counts) == {3}


def test_weekends_and_rows_that_are_rare_anyway_are_no_gaps(tmp_path: Path) -> None:
    days = [_START.date() + timedelta(days=at) for at in range(50)]
    assert _span(tmp_path, [day for day in days if day.weekday() < 5 for _ in range(9)]).gaps == ()
    assert _span(tmp_path, [_START.date(), *(_START.date() + timedelta(days=400 + at) for at in range(8))]).gaps == ()


def test_a_single_day_and_centuries_have_bars_as_well(tmp_path: Path) -> None:
    span = _span(tmp_path, ["2020-01-01"] * 20 + ["2020-01-02"])
    assert span.counts == (20, 1)
    span = _span(tmp_path, [f"{year}-06-01" for year in range(1000, 2020, 10)])
    assert span.unit == "50 years" and sum(span.counts) == 102 and len(span.counts) == len(span.starts)


def test_a_profile_keeps_spans_as_json_and_columns_of_other_kinds_have_none(tmp_path: Path) -> None:
    days = [_START.date() + timedelta(days=at) for at in (*range(100), *range(400, 500), 0)]
    profile = _profile(tmp_path, days)
    assert profile.columns[0].span is not None and len(profile.columns[0].span.gaps) == 1
    assert profile.columns[1].span is None
    assert DatasetProfile.from_dict(json.loads(json.dumps(profile.to_dict()))) == profile
    body = profile.to_dict()
    body["columns"] = [{key: value for key, value in column.items() if key != "span"} for column in body["columns"]]
    assert DatasetProfile.from_dict(body).columns[0].span is None, "profiles of earlier readings have none"


def test_a_column_of_dates_without_any_value_has_no_span(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["when,size,label", *(f"x{row % 3},{row},{row % 2}x" for row in range(40))]) + "\n")
    options = ProfileOptions(column_types={"when": ColumnType.DATE})
    profile = profile_dataset(path, tmp_path / "out", options, lambda *_: None)
    assert profile.columns[0].missing == 40 and profile.columns[0].span is None
