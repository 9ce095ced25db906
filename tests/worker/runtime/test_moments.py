"""Moments to come: days, working days, months, years, hours."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pytest

from tests.codegen.time_series import days, months
from worker.runtime.moments import moments_after, said


@pytest.mark.parametrize(
    ("times", "step_s", "expected"),
    [
        (
            [day + timedelta(hours=hour) for day in days(31) if day.weekday() < 5 for hour in (9, 10, 11)],
            3600.0,
            ["2020-02-03 09:00:00", "2020-02-03 10:00:00", "2020-02-03 11:00:00"],
        ),
        (
            [datetime(2020, 1, 1) + timedelta(minutes=minute) for minute in range(60)],
            60.0,
            ["2020-01-01 01:00:00", "2020-01-01 01:01:00", "2020-01-01 01:02:00"],
        ),
        (days(30), 86400.0, ["2020-01-31", "2020-02-01", "2020-02-02"]),
        ([day for day in days(30) if day.weekday() < 5], 86400.0, ["2020-01-31", "2020-02-03", "2020-02-04"]),
        (months(24), 31 * 86400.0, ["1992-01-01", "1992-02-01", "1992-03-01"]),
        ([datetime(2020, 1, 31), datetime(2020, 2, 29)], 30 * 86400.0, ["2020-03-31", "2020-04-30", "2020-05-31"]),
        ([datetime(2018, 6, 30), datetime(2019, 6, 30)], 365 * 86400.0, ["2020-06-30", "2021-06-30", "2022-06-30"]),
        (
            [datetime(2020, 1, 1, 20) + timedelta(hours=2 * hour) for hour in range(2)],
            7200.0,
            ["2020-01-02", "2020-01-02 02:00:00", "2020-01-02 04:00:00"],
        ),
    ],
    ids=[
        "hours of opening",
        "fewer than three days",
        "days",
        "working days",
        "months",
        "ends of months",
        "years",
        "hours",
    ],
)
def test_moments_to_come_follow_the_calendar(times: list[datetime], step_s: float, expected: list[str]) -> None:
    known = pa.array(times, pa.timestamp("us")).cast(pa.int64()).to_numpy()
    made = moments_after(known, step_s, 3)
    assert [said(moment) for moment in pa.array(made).cast(pa.timestamp("us"))] == expected


@pytest.mark.parametrize("step", [28, 35, 42, 84, 90, 364])
@pytest.mark.parametrize("lacks", [(), (3, 6)], ids=["whole", "rows missing"])
def test_steps_of_as_many_days_each_are_no_months(step: int, lacks: tuple[int, ...]) -> None:
    every = [datetime(2024, 1, 1) + timedelta(days=step * at) for at in range(17)]
    times = [moment for at, moment in enumerate(every[:14]) if at not in lacks]
    known = pa.array(times, pa.timestamp("us")).cast(pa.int64()).to_numpy()
    made = moments_after(known, step * 86400.0, 3)
    assert pa.array(made).cast(pa.timestamp("us")).to_pylist() == every[14:]


@pytest.mark.parametrize("rows", [6, 7, 8])
@pytest.mark.parametrize("every", [1, 2, 3, 4, 6, 12])
@pytest.mark.parametrize("begin", [datetime(2020, month, 1) for month in range(1, 13)], ids=lambda day: f"{day:%b}")
def test_months_stay_months_wherever_their_lengths_are_alike(every: int, begin: datetime, rows: int) -> None:
    month = [begin.month - 1 + every * at for at in range(14)]
    days_of = [datetime(begin.year - 1 + number // 12, number % 12 + 1, 1) for number in month]
    for first in range(6):
        times = pa.array(days_of[first : first + rows], pa.timestamp("us")).cast(pa.int64()).to_numpy()
        step_s = sorted(times[1:] - times[:-1])[2] / 1e6
        (made,) = pa.array(moments_after(times, step_s, 1)).cast(pa.timestamp("us")).to_pylist()
        assert made == days_of[first + rows]


@pytest.mark.parametrize(
    ("days_of", "step", "expected"),
    [
        (["2023-04-01", "2023-06-01", "2023-08-01", "2023-10-01", "2023-12-01", "2024-04-01", "2024-06-01",
          "2024-08-01"], 61, "2025-02-01"),
        (["2023-05-31", "2023-07-31", "2023-09-30", "2023-11-30", "2024-03-31", "2024-05-31", "2024-07-31",
          "2024-09-30", "2024-11-30"], 61, "2025-05-31"),
        (["2023-04-30", "2023-06-30", "2023-08-30", "2023-10-30", "2023-12-30", "2024-02-29", "2024-04-30",
          "2024-06-30", "2024-08-30", "2024-10-30", "2024-12-30"], 61, "2025-06-30"),
        ([f"{year}-01-01" for year in range(1897, 1905)], 365, "1907-01-01"),
    ],
    ids=["a row missing", "the last of the month, a row missing", "the 30th", "years"],
)  # fmt: skip
def test_months_of_which_all_steps_are_alike_stay_on_their_day(days_of: list[str], step: int, expected: str) -> None:
    times = pa.array([datetime.fromisoformat(day) for day in days_of], pa.timestamp("us")).cast(pa.int64()).to_numpy()
    made = pa.array(moments_after(times, step * 86400.0, 3)).cast(pa.timestamp("us"))
    assert said(made[-1]) == expected
