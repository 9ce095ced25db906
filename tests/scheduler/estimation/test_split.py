"""The first split of a batch: from the estimator's lines, from tables of measured steps, within memory."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.estimation.fit import fit_device_model
from scheduler.estimation.prior import prior_for
from scheduler.estimation.ranks import step_time
from scheduler.estimation.split import Member, StepTable, gang_split, line_of, most_rows, rank_line
from tests.scheduler.made_workloads import KIND, NAME, allocation, points, workload
from worker.shares import Line, equal_finish, finish_s


def member(line, most: int = 0, name: str = "core") -> Member:
    return Member(name=name, seconds_of=line, most=most)


@given(
    steps=st.lists(st.floats(0.001, 1.0), min_size=2, max_size=8), gaps=st.lists(st.integers(1, 50), min_size=8),
    rows=st.lists(st.integers(1, 600), min_size=2, max_size=20),
)  # fmt: skip
def test_a_table_never_falls_and_keeps_what_was_measured_in_order(steps, gaps, rows) -> None:
    places = [sum(gaps[: number + 1]) for number in range(len(steps))]
    table = StepTable.of(zip(places, steps, strict=True))
    times = [table(number) for number in sorted(rows)]
    assert times == sorted(times)
    if steps == sorted(steps):
        assert [table(place) for place in places] == pytest.approx(steps)


@pytest.mark.parametrize("bad", [[(1, 0.1)], [(1, 0.1), (2, 0.0)], [(1, 0.1), (2, float("inf"))], [(0, 1), (1, 1)]])
def test_a_table_that_says_nothing_is_refused(bad) -> None:
    with pytest.raises(ValueError, match="table"):
        StepTable.of(bad)


@given(st.floats(0, 1), st.floats(1e-4, 1))
def test_a_line_is_found_from_its_points(fixed_s: float, row_s: float) -> None:
    found = line_of([(rows, fixed_s + row_s * rows) for rows in (4, 16, 64, 256)])
    assert found(100) == pytest.approx(fixed_s + row_s * 100, rel=1e-3)


def test_the_estimators_line_says_of_a_rank_what_the_estimator_says() -> None:
    model = fit_device_model(points(50, seed=1))
    work = workload(batch=128)
    line = rank_line(work, model, ranks=2)
    for rows in (32, 64, 96):
        told_s = step_time(work, allocation(rows=(rows, rows)), model).local_s
        assert line(rows) == pytest.approx(told_s, rel=0.1)
    assert rank_line(work, model, ranks=2, slowdown=3.0)(64) == pytest.approx(3 * line(64))


def test_rows_that_fit_grow_with_the_memory_and_stay_within_it() -> None:
    work, model = workload(batch=256), prior_for(KIND, NAME)
    assert most_rows(work, model, None) == 256
    assert most_rows(work, model, 0.0) == 0
    found = [most_rows(work, model, limit) for limit in (3e7, 1e8, 3e8, 1e10)]
    assert found == sorted(found) and found[-1] == 256


def test_like_devices_get_even_shares_without_words() -> None:
    found = gang_split(96, [member(Line(0.001, 0.001)), member(Line(0.001, 0.00101))])
    assert (found.shares, found.words) == ((48, 48), ())


def test_unlike_devices_end_together_and_it_is_said() -> None:
    found = gang_split(96, [member(Line(0.0, 0.001)), member(Line(0.0, 0.002))])
    assert found.shares == (64, 32)
    assert found.even_step_s == pytest.approx(1.5 * found.step_s)
    assert "64 + 32 rows" in found.words[0]


def test_memory_decides_where_even_shares_do_not_fit() -> None:
    found = gang_split(96, [member(Line(0.0, 0.001)), member(Line(0.0, 0.001), most=20)])
    assert found.shares == (76, 20)
    assert "do not fit" in found.words[0]
    with pytest.raises(ValueError, match="do not fit"):
        gang_split(96, [member(Line(0.0, 0.001), most=40)] * 2)


def test_a_device_that_would_only_delay_is_left_out_by_name() -> None:
    found = gang_split(32, [member(Line(0.0, 0.001)), member(Line(1.0, 0.001), name="core 7")])
    assert found.shares == (32, 0)
    assert found.words[1].startswith("core 7 is left out")


@settings(deadline=None, max_examples=50)
@given(
    lines=st.lists(st.builds(Line, st.floats(0, 0.1), st.floats(1e-4, 0.01)), min_size=2, max_size=5),
    rows=st.integers(16, 512),
)  # fmt: skip
def test_a_gang_is_never_slower_than_with_even_shares_or_with_all_devices(lines, rows) -> None:
    found = gang_split(rows, [member(line) for line in lines])
    assert sum(found.shares) == rows
    assert all(share == 0 or share >= 2 for share in found.shares)
    assert found.step_s <= found.even_step_s
    assert found.step_s <= 1.03 * finish_s(lines, equal_finish(lines, rows, least=2))
