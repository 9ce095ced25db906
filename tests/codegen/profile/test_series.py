"""Rows that follow one another evenly in time: what a random split does with them is told."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import islice
from random import Random

import pytest

from codegen.profile.types import DatasetProfile, Severity
from tests.codegen.profile.uploads import Lab, finding

BEGIN = datetime(2023, 1, 1)


def profiled(lab: Lab, moments: Iterable[datetime], **options: object) -> DatasetProfile:
    rows = [f"{moment:%Y-%m-%d %H:%M:%S},{i % 7},{i * i % 11}\n" for i, moment in enumerate(moments)]
    return lab.profile("a.csv", "time,x,y\n" + "".join(rows), **options)


def hours(count: int) -> list[datetime]:
    return [BEGIN + timedelta(hours=i) for i in range(count)]


def weekdays(count: int) -> list[datetime]:
    days = (BEGIN + timedelta(days=i) for i in range(2 * count))
    return list(islice((day for day in days if day.weekday() < 5), count))


@pytest.mark.parametrize(
    ("moments", "step"),
    [
        (hours(200), "1 h"),
        (Random(1).sample(hours(200), 200), "1 h"),
        (hours(200)[:90] + hours(200)[93:], "1 h"),
        (weekdays(200), "24 h"),
        ([datetime(1990 + i // 12, 1 + i % 12, 1) for i in range(120)], "31 d"),
    ],
    ids=["hours", "in no order", "with a gap", "working days", "months"],
)
def test_an_even_series_is_warned_of(lab: Lab, moments: list[datetime], step: str) -> None:
    profile = profiled(lab, moments)
    told = finding(profile, "time_series", "time")
    assert told.severity is Severity.WARNING and f"after {step}." in told.message
    assert "from its own columns, not from earlier rows" in told.meaning and "by: time" in told.meaning
    assert "it is chosen for you where there is nothing else to learn from" in told.meaning
    assert "date_column" not in {found.code for found in profile.warnings}


def test_moments_that_come_twice_and_gaps_are_noted_with_where_they_are(lab: Lab) -> None:
    gaps = hours(400)[:90] + hours(400)[93:200] + hours(400)[210:]
    told = finding(profiled(lab, [gaps[7], gaps[7], *gaps]), "uneven_series", "time")
    assert told.severity is Severity.INFO
    assert "2 rows have the moment of another, such as 2023-01-01 07:00" in told.message
    longest = "the longest from 2023-01-09 07:00 to 2023-01-09 18:00"
    assert f"rows are missing in 2 places, {longest}" in told.message
    assert "the target left empty" in told.meaning


@pytest.mark.parametrize(
    "moments",
    [hours(200), weekdays(200), [datetime(1990 + i // 12, 1 + i % 12, 1) for i in range(120)]],
    ids=["hours", "working days", "months"],
)
def test_weekends_and_short_months_are_no_gaps(lab: Lab, moments: list[datetime]) -> None:
    assert "uneven_series" not in {found.code for found in profiled(lab, moments).warnings}


def test_it_is_left_open_whether_events_of_most_days_are_a_series(lab: Lab) -> None:
    days = [BEGIN + timedelta(days=day) for day in sorted(Random(1).sample(range(250), 200))]
    told = finding(profiled(lab, days), "time_series", "time")
    assert "The rows may be a series in time" in told.message
    assert "If each row is an event of its own, a random split is right" in told.meaning


@pytest.mark.parametrize(
    "moments",
    [
        [BEGIN + timedelta(seconds=Random(i).randrange(10**7)) for i in range(200)],
        [moment for moment in hours(100) for _ in range(2)],
        [BEGIN] * 200,
        hours(30),
    ],
    ids=["any time", "two rows an hour", "one moment", "few rows"],
)
def test_other_dates_are_only_noted(lab: Lab, moments: list[datetime]) -> None:
    assert "time_series" not in {found.code for found in profiled(lab, moments).warnings}


def test_a_series_with_a_split_of_its_own_is_not_warned_of(lab: Lab) -> None:
    rows = [
        f"{moment:%Y-%m-%d %H:%M:%S},{i % 7},{'train' if i < 150 else 'test'}\n" for i, moment in enumerate(hours(200))
    ]
    profile = lab.profile("a.csv", "time,y,__split__\n" + "".join(rows))
    assert "time_series" not in {found.code for found in profile.warnings}
