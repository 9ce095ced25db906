"""Unix times as moments that people are told."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.moments import LATEST_S, moment_of, moment_words, moments_split, moments_told


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


@given(st.datetimes(min_value=datetime(1000, 1, 1), timezones=st.just(UTC)), st.text())
def test_a_moment_in_a_sentence_is_found_again(moment: datetime, words: str) -> None:
    before, found, after = moments_split(f"free until {moment_words(moment)}, or so")
    assert (before, after) == ("free until ", ", or so")
    assert found == moment.replace(second=0, microsecond=0)
    assert moments_split(moment_words(moment, exact=True)) == ["", moment.replace(microsecond=0), ""]
    assert moments_split(words) == [words]


@pytest.mark.parametrize(
    ("zone", "told"),
    [
        ("UTC", "2030-07-31 18:00:30 UTC"),
        ("Europe/Berlin", "2030-07-31 20:00:30 CEST"),
        ("America/Los_Angeles", "2030-07-31 11:00:30 PDT"),
        ("Asia/Kathmandu", "2030-07-31 23:45:30 UTC+05:45"),
        ("America/Sao_Paulo", "2030-07-31 15:00:30 UTC-03"),
    ],
)
def test_a_sentence_gives_its_times_in_a_zone_with_its_abbreviation(zone: str, told: str) -> None:
    assert moments_told("free at 2030-07-31 18:00:30 UTC.", ZoneInfo(zone)) == f"free at {told}."


def test_what_looks_like_a_moment_and_is_none_stays_as_it_is() -> None:
    assert "".join(map(str, moments_split("until 2030-02-31 18:00 UTC"))) == "until 2030-02-31 18:00 UTC"
