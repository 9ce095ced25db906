"""Readings of a gauge: when a host counts as quiet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import pytest

from worker.quiet import LOUD, SURVEY, SURVEYS_KEPT, Gauge, Surveys


def clock(taken_s: Sequence[float]) -> Callable[[], float]:
    """A clock by which one loop after the other takes as long as these say."""

    def told() -> Iterator[float]:
        now = 0.0
        for seconds in taken_s:
            yield now
            now += seconds
            yield now

    times = told()
    return lambda: next(times)


def gauge(*taken_s: float, quickest_s: float = math.inf) -> Gauge:
    return Gauge(quickest_s, clock=clock(taken_s))


def test_the_first_look_is_held_against_a_survey() -> None:
    assert gauge(*[3.0] * SURVEY, 3.0).is_quiet()
    assert not gauge(*[3.0] * SURVEY, 4.0).is_quiet()


@pytest.mark.parametrize(("taken_s", "quiet"), [(0.5, True), (1.0, True), (LOUD - 0.01, True), (LOUD + 0.01, False)])
def test_a_host_is_loud_where_the_loop_takes_longer_than_it_did(taken_s: float, *, quiet: bool) -> None:
    assert gauge(taken_s, quickest_s=1.0).is_quiet() is quiet


def test_what_was_seen_before_counts_where_all_that_is_seen_is_loud() -> None:
    assert gauge(*[1.5] * SURVEY, 1.5).is_quiet()
    assert not gauge(1.5, quickest_s=1.0).is_quiet()


def test_the_quickest_survey_counts() -> None:
    three = gauge(*[2.0] * SURVEY, *[1.0] * SURVEY, *[3.0] * SURVEY)
    assert [three.survey_s() for _ in range(3)] == pytest.approx([2.0, 1.0, 1.0])


def test_a_single_quick_reading_makes_nothing_else_loud() -> None:
    assert gauge(0.1, *[1.0] * (SURVEY - 1)).survey_s() == pytest.approx(1.0)


def test_a_real_reading_takes_time() -> None:
    assert Gauge().reading_s() > 0


def test_what_was_seen_long_ago_no_longer_counts() -> None:
    readings = iter([1.0, *[2.0] * SURVEYS_KEPT])
    surveys = Surveys(gauge_of=lambda: gauge(*[next(readings)] * SURVEY))
    seen = [surveys.quickest_s() for _ in range(1 + SURVEYS_KEPT)]
    assert seen == pytest.approx([1.0] * SURVEYS_KEPT + [2.0])
