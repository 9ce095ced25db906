"""Rows shared out so that all ranks end together: exact against trying everything."""

from __future__ import annotations

import itertools
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worker.shares import Line, Planned, epoch_steps, equal_finish, even, finish_s, in_proportion

lines = st.builds(Line, st.floats(0, 1), st.floats(1e-4, 1))


def brute(seconds_of, rows: int, least: int, most: list[int]) -> float:
    """Least finish of all ways there are."""
    ways = itertools.product(*(range(least, (cap or rows) + 1) for cap in most))
    return min(finish_s(seconds_of, way) for way in ways if sum(way) == rows)


@settings(deadline=None)
@given(
    ranks=st.lists(st.tuples(lines, st.integers(0, 12)), min_size=1, max_size=4),
    rows=st.integers(1, 12), least=st.integers(0, 2),
)  # fmt: skip
def test_no_other_split_ends_earlier(ranks: list[tuple[Line, int]], rows: int, least: int) -> None:
    seconds_of, most = [line for line, _ in ranks], [cap for _, cap in ranks]
    caps = [cap or rows for cap in most]
    if rows < least * len(ranks) or min(caps) < least or sum(min(cap, rows) for cap in caps) < rows:
        with pytest.raises(ValueError, match="row"):
            equal_finish(seconds_of, rows, least=least, most=most)
        return
    found = equal_finish(seconds_of, rows, least=least, most=most)
    assert sum(found) == rows
    assert all(least <= share <= cap for share, cap in zip(found, caps, strict=True))
    assert finish_s(seconds_of, found) == brute(seconds_of, rows, least, most)


@settings(deadline=None)
@given(
    tables=st.lists(st.lists(st.floats(0, 1), min_size=9, max_size=9).map(sorted), min_size=2, max_size=3),
    rows=st.integers(3, 8),
)  # fmt: skip
def test_steps_that_rise_by_jumps_are_split_exactly_too(tables: list[list[float]], rows: int) -> None:
    seconds_of = [table.__getitem__ for table in tables]
    found = equal_finish(seconds_of, rows)
    assert sum(found) == rows
    assert finish_s(seconds_of, found) == brute(seconds_of, rows, 1, [0] * len(tables))


@pytest.mark.parametrize(
    ("most", "fits"),
    [((), True), ((0, 0), True), ((40, 0), True), ((60, 68), True), ((60, 67), False), ((1, 200), False)],
)
def test_a_plan_fits_exactly_where_a_split_of_its_rows_can_be_found(most: tuple[int, ...], fits: bool) -> None:
    planned = Planned(rows=(64, 64), most=most)
    assert planned.fits(least=2) == fits
    if fits:
        assert sum(equal_finish([Line(0.0, 0.1)] * 2, 128, least=2, most=most)) == 128
    else:
        with pytest.raises(ValueError, match="memory"):
            equal_finish([Line(0.0, 0.1)] * 2, 128, least=2, most=most)


def test_like_devices_share_alike_even_where_more_rows_cost_nothing() -> None:
    assert sorted(equal_finish([lambda rows: 0.1] * 2, 120)) == [60, 60]
    assert sorted(equal_finish([Line(0.1, 0.01)] * 3, 10)) == [3, 3, 4]


@settings(deadline=None)
@given(
    kinds=st.lists(st.builds(Line, st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 0.3, 0.5])), min_size=1),
    drawn=st.lists(st.integers(0, 99), min_size=1, max_size=12), rows=st.integers(12, 90), least=st.integers(0, 1),
)  # fmt: skip
def test_what_is_too_much_is_taken_row_by_row_from_who_ends_last_has_most_and_comes_first(
    kinds: list[Line], drawn: list[int], rows: int, least: int
) -> None:
    seconds_of = [kinds[number % len(kinds)] for number in drawn]
    found = equal_finish(seconds_of, rows, least=least)
    latest = finish_s(seconds_of, found)
    shares = [max(number for number in range(least, rows + 1) if not number or line(number) <= latest)
              for line in seconds_of]  # fmt: skip
    while sum(shares) > rows:
        giver = max(
            (rank for rank in range(len(shares)) if shares[rank] > least),
            key=lambda rank: (seconds_of[rank](shares[rank]), shares[rank], -rank),
        )
        shares[giver] -= 1
    assert found == tuple(shares)


def test_a_device_whose_first_row_is_too_late_gets_none_where_that_is_allowed() -> None:
    assert equal_finish([Line(0.0, 0.01), Line(5.0, 0.01)], 64, least=0) == (64, 0)
    assert equal_finish([Line(0.0, 0.01), Line(5.0, 0.01)], 64, least=2) == (62, 2)


def test_a_device_twice_as_fast_takes_twice_the_rows() -> None:
    assert equal_finish([Line(0.0, 0.01), Line(0.0, 0.02)], 96) == (64, 32)


@given(
    shares=st.lists(st.integers(1, 60), min_size=1, max_size=6), count=st.integers(1, 300),
    most=st.lists(st.integers(0, 90), min_size=6, max_size=6), least=st.integers(0, 3),
)  # fmt: skip
def test_another_number_of_rows_is_shared_out_in_proportion(
    shares: list[int], count: int, most: list[int], least: int
) -> None:
    caps = most[: len(shares)]
    found = in_proportion(shares, count, least=least, most=caps)
    assert sum(found) == count
    assert all(rows >= 0 for rows in found)
    wide_enough = all(cap == 0 or cap >= least for cap in caps)
    if count >= least * len(shares) and wide_enough:
        assert min(found) >= least
    if sum(cap or count for cap in caps) >= count and all(cap == 0 or cap >= least for cap in caps):
        assert all(cap == 0 or rows <= cap for rows, cap in zip(found, caps, strict=True))


@given(shares=st.lists(st.integers(1, 60), min_size=1, max_size=6))
def test_the_same_number_of_rows_gives_the_same_shares(shares: list[int]) -> None:
    assert in_proportion(shares, sum(shares)) == tuple(shares)


def test_even_shares_differ_by_one_row_at_most() -> None:
    assert even(37, 2) == (18, 19)
    assert even(8, 3) == (2, 3, 3)


def test_what_no_device_does_is_refused() -> None:
    with pytest.raises(ValueError, match="step time"):
        Line(-0.1, 0.1)


@given(
    st.lists(st.tuples(st.integers(2, 60), st.integers(1, 9)), min_size=2, max_size=5),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_those_that_are_left_take_all_rows_and_each_keeps_what_is_known_of_it(
    devices: list[tuple[int, int]], timed: bool, random: Random
) -> None:
    lines = tuple(Line(0.0, float(row_s)) for _, row_s in devices) if timed else ()
    planned = Planned(rows=tuple(rows for rows, _ in devices), lines=lines)
    left = random.sample(range(len(devices)), random.randint(1, len(devices)))
    found = planned.among(left, least=2)
    assert sum(found.rows) == sum(planned.rows) and min(found.rows) >= 2
    assert found.lines == tuple(lines[rank] for rank in left if timed)
    if len(left) == len(devices):
        assert found.rows == tuple(planned.rows[rank] for rank in left)
    elif timed:
        assert found.rows == equal_finish(found.lines, sum(planned.rows), least=2)


def test_rows_that_do_not_fit_those_that_are_left_overrun_none_more_than_another() -> None:
    planned = Planned(rows=(40, 40, 20), most=(60, 30, 45), lines=(Line(0.0, 1.0), Line(0.0, 1.0), Line(0.0, 9.0)))
    found = planned.among((2, 1), least=2)
    assert found == Planned(rows=(60, 40), lines=planned.lines[:0:-1], correct=False)
    assert planned.among((0, 2), least=2).rows == (60, 40), "90 rows by speed, but 60 fit"


def test_without_lines_those_that_are_left_take_rows_in_proportion_as_far_as_these_fit() -> None:
    planned = Planned(rows=(40, 40, 20), most=(60, 0, 45))
    assert planned.among((0, 2), least=2).rows == (60, 40), "67 rows in proportion, but 60 fit"
    assert planned.among((1, 2), least=2) == Planned(rows=(67, 33), most=(0, 45))
    tiny = Planned(rows=(90, 9, 1), most=(0, 0, 1))
    assert tiny.among((0, 2), least=2) == Planned(rows=(98, 2), correct=False), "no rank can do with one row"


@pytest.mark.parametrize(
    ("rows", "batch_size", "ranks", "steps"),
    [(64, 64, 1, 1), (65, 64, 1, 1), (95, 64, 1, 1), (96, 64, 1, 2), (770, 64, 1, 12), (10, 64, 1, 1), (10, 4, 2, 2)],
)
def test_a_last_batch_under_half_of_the_others_is_folded_into_the_one_before(rows, batch_size, ranks, steps) -> None:
    assert epoch_steps(rows, batch_size, ranks) == steps
