"""Unix times as moments that people are told."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.moments import LATEST_S, moment_of


def test_a_time_is_its_moment() -> None:
    assert moment_of(0.0) == datetime(1970, 1, 1, tzinfo=UTC)
    assert moment_of(LATEST_S - 1.0) == datetime(9998, 12, 31, 23, 59, 59, tzinfo=UTC)


@pytest.mark.parametrize("time_s", [None, LATEST_S, 1e18, 1e300, math.inf, math.nan, -1.0])
def test_what_no_calendar_has_is_none(time_s: float | None) -> None:
    assert moment_of(time_s) is None


@given(st.floats())
def test_no_figure_is_an_error(time_s: float) -> None:
    moment = moment_of(time_s)
    assert moment is None or moment.astimezone().year <= 9999
