"""Rows that follow one another evenly in time: what a random split does with them is told."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import islice
from random import Random
from zoneinfo import ZoneInfo

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


def in_zone(begin: datetime, count: int, step: timedelta, zone: str) -> list[datetime]:
    """As a clock on the wall there shows it."""
    since = begin.replace(tzinfo=UTC)
    return [(since + i * step).astimezone(ZoneInfo(zone)).replace(tzinfo=None) for i in range(count)]


@pytest.mark.parametrize("step", [timedelta(hours=1), timedelta(minutes=15)], ids=["hours", "quarters"])
@pytest.mark.parametrize(
    ("zone", "first"),
    [
        ("Europe/Berlin", "2023-03-26"),
        ("America/New_York", "2023-03-12"),
        ("Australia/Sydney", "2023-04-02"),
        ("Asia/Beirut", "2023-03-26"),  # at midnight, forward and back
    ],
)
def test_hours_that_a_change_of_clocks_takes_or_gives_are_told_as_such(
    lab: Lab, zone: str, first: str, step: timedelta
) -> None:
    moments = in_zone(datetime(2023, 2, 1), timedelta(days=300) // step, step, zone)
    told = finding(profiled(lab, moments), "uneven_series", "time")
    clocks = f"where clocks are changed an hour is missing or comes twice, in 2 nights such as {first}."
    assert told.message == f"The series by 'time' is uneven: {clocks}"
    assert "Times in UTC, or with their zone, have neither." in told.meaning and "Add the missing" not in told.meaning
    lost = moments[:200] + moments[203:]
    told = finding(profiled(lab, lost), "uneven_series", "time")
    assert "rows are missing in 1 place, the longest from 2023-02-" in told.message and clocks in told.message
    assert "Add the missing rows" in told.meaning


def test_an_hour_that_is_missing_in_another_night_is_no_change_of_clocks(lab: Lab) -> None:
    night = datetime(2023, 1, 8, 2)  # a Sunday
    kept = [moment for moment in hours(400) if moment != night]
    told = finding(profiled(lab, kept), "uneven_series", "time")
    assert "from 2023-01-08 01:00 to 2023-01-08 03:00" in told.message and "clocks" not in told.message


def even(begin: datetime, step: timedelta, count: int = 400) -> list[datetime]:
    return [begin + i * step for i in range(count)]


SUNDAY = datetime(2024, 3, 31)
TWICE = {
    "a row of a daily series": (even(datetime(2024, 1, 1, 2), timedelta(days=1)), [SUNDAY.replace(hour=2)]),
    "a row of ten minutes": (even(datetime(2024, 3, 30), timedelta(minutes=10)), [SUNDAY.replace(hour=1, minute=50)]),
    "a day of hours": (even(datetime(2024, 3, 20), timedelta(hours=1), 1300), even(SUNDAY, timedelta(hours=1), 24)),
}


@pytest.mark.parametrize(("moments", "again"), TWICE.values(), ids=TWICE)
def test_rows_that_come_twice_in_such_a_night_are_no_change_of_clocks_unless_they_make_an_hour(
    lab: Lab, moments: list[datetime], again: list[datetime]
) -> None:
    told = finding(profiled(lab, [*again, *moments]), "uneven_series", "time")
    have = "1 row has" if len(again) == 1 else f"{len(again)} rows have"
    assert f"{have} the moment of another, such as {again[0]:%Y-%m-%d %H:%M}" in told.message
    assert "clocks" not in told.message and "keep one row of each moment" in told.meaning


def worked(days: Iterable[datetime], step: timedelta) -> list[datetime]:
    """From 9 to 17 o'clock of each day."""
    each = timedelta(hours=8) // step
    return [day + timedelta(hours=9) + place * step for day in days for place in range(each)]


MINUTE, QUARTER, HOUR = timedelta(minutes=1), timedelta(minutes=15), timedelta(hours=1)
WITH_BREAKS = {
    "minutes of working hours": worked((BEGIN + timedelta(days=day) for day in range(5)), MINUTE),
    "quarters of the hours of working days": worked(weekdays(30), QUARTER),
    "hours of working days": [day + timedelta(hours=hour) for day in weekdays(50) for hour in range(24)],
    "working days": weekdays(200),
    "first minutes of each hour": [hour + minute * MINUTE for hour in hours(72) for minute in range(15)],
}
MONTHS = [datetime(1990 + i // 12, 1 + i % 12, 1) for i in range(120)]


@pytest.mark.parametrize("moments", [hours(200), MONTHS, *WITH_BREAKS.values()], ids=["hours", "months", *WITH_BREAKS])
def test_nights_weekends_and_short_months_are_no_gaps(lab: Lab, moments: list[datetime]) -> None:
    profile = profiled(lab, moments)
    assert profile.series
    assert "uneven_series" not in {found.code for found in profile.warnings}


@pytest.mark.parametrize("moments", WITH_BREAKS.values(), ids=WITH_BREAKS)
def test_an_outage_among_nights_and_weekends_is_told_alone(lab: Lab, moments: list[datetime]) -> None:
    before = next(place for place, moment in enumerate(moments) if place > 100 and moment.weekday() == 1)
    kept = moments[: before + 1] + moments[before + 3 :]
    whole_days = all(moment.hour == 0 for moment in moments)
    ends = [f"{moment:{'%Y-%m-%d' if whole_days else '%Y-%m-%d %H:%M'}}" for moment in kept[before : before + 2]]
    told = finding(profiled(lab, kept), "uneven_series", "time")
    assert f"rows are missing in 1 place, the longest from {ends[0]} to {ends[1]}." in told.message


def test_nights_are_told_apart_from_a_year_without_rows(lab: Lab) -> None:
    moments = worked((BEGIN + timedelta(days=day) for day in (*range(60), *range(425, 485))), HOUR)
    told = finding(profiled(lab, moments), "uneven_series", "time")
    assert "rows are missing in 1 place, the longest from 2023-03-01 16:00 to 2024-03-01 09:00." in told.message


def test_rows_that_are_missing_here_and_there_are_told_however_alike_the_gaps_are(lab: Lab) -> None:
    gone = {50, 75, 111, 162, 230, 301, 378}
    told = finding(
        profiled(lab, [moment for i, moment in enumerate(hours(400)) if i not in gone]), "uneven_series", "time"
    )
    assert "rows are missing in 7 places, the longest from 2023-01-03 01:00 to 2023-01-03 03:00." in told.message


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
