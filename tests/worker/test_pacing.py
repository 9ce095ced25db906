"""A run's own corrections on simulated devices: few, near the best there is, none without need."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worker.pacing import (
    LASTING_WINDOW_S,
    LASTING_WINDOWS,
    MOST_CORRECTIONS,
    MOST_STEPS,
    Correction,
    Corrector,
    Lasting,
)
from worker.shares import Line, equal_finish, even, finish_s


class Devices:
    """Make steps with noise and now and then a hiccup; corrections are taken over as a run does."""

    def __init__(self, truth: Sequence[Callable[[int], float]], corrector: Corrector, noise: float, seed: int) -> None:
        self.truth, self.corrector, self.noise = list(truth), corrector, noise
        self.random = random.Random(seed)
        self.corrections: list[Correction] = []

    def steps(self, count: int) -> None:
        for _ in range(count):
            shares = self.corrector.split
            work_s = [self._noisy(seconds(rows)) for seconds, rows in zip(self.truth, shares, strict=True)]
            found = self.corrector.observe(work_s)
            if found is not None:
                self.corrections.append(found)
                self.corrector.adopt(found.after)

    def _noisy(self, seconds: float) -> float:
        hiccup = 10.0 if self.random.random() < 0.01 else 1.0
        return seconds * self.random.lognormvariate(0.0, self.noise) * hiccup

    @property
    def share_of_best(self) -> float:
        best = equal_finish(self.truth, sum(self.corrector.split))
        return finish_s(self.truth, best) / finish_s(self.truth, self.corrector.split)


def drawn(count: int, seed: int) -> Iterator[tuple[list[Line], float, random.Random]]:
    """Gangs of 2 to 5 unlike devices with the noise of their steps: the same ones every time."""
    for number in range(count):
        draw = random.Random(f"{seed}/{number}")
        lines = [Line(draw.uniform(0.0, 0.02), draw.uniform(2e-4, 2e-3)) for _ in range(draw.randint(2, 5))]
        yield lines, draw.uniform(0.0, 0.05), draw


def test_a_split_is_near_the_best_after_three_corrections_whatever_was_known() -> None:
    near = 0
    for truth, noise, draw in drawn(60, seed=1):
        run = Devices(truth, Corrector(even(256, len(truth))), noise, draw.randrange(9999))
        third = run.corrector.split
        for _ in range(50):
            run.steps(8)
            if len(run.corrections) <= 3:
                third = run.corrector.split
        best_s = finish_s(truth, equal_finish(truth, 256))
        near += best_s / finish_s(truth, third) >= 0.98
        assert run.share_of_best >= 0.96
        assert len(run.corrections) <= MOST_CORRECTIONS
    assert near >= 57  # noise may cost one gang in twenty a further correction


def test_a_device_that_slows_gets_fewer_rows_again_within_three_corrections() -> None:
    near = 0
    for truth, noise, draw in drawn(40, seed=2):
        run = Devices(truth, Corrector(equal_finish(truth, 256), lines=truth), noise, draw.randrange(9999))
        run.steps(200)
        before = len(run.corrections)
        place = draw.randrange(len(truth))
        run.truth[place] = truth[place].scaled(draw.uniform(1.6, 5.0))
        needed = run.share_of_best < 0.95
        run.steps(400)
        near += run.share_of_best >= 0.97 and len(run.corrections) - before <= 3
        assert len(run.corrections) - before <= MOST_CORRECTIONS
        assert len(run.corrections) > before or not needed
    assert near >= 38


def test_a_split_that_is_right_is_left_alone() -> None:
    touched = 0
    for truth, noise, draw in drawn(40, seed=3):
        run = Devices(truth, Corrector(equal_finish(truth, 256), lines=truth), noise, draw.randrange(9999))
        run.steps(700)
        touched += len(run.corrections) > 0
        assert run.share_of_best >= 0.98
    assert touched <= 3  # noise of 5 % looks like a gain now and then, and costs next to nothing


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 1500), st.integers(1, 5))
def test_looks_never_get_further_apart_than_the_steps_that_are_kept(before: int, rest: int) -> None:
    corrector = Corrector((64, 64))
    for _ in range(before * rest):
        assert corrector.observe((0.1, 0.1)) is None
    found = [corrector.observe((0.1, 0.115)) for _ in range(2 * MOST_STEPS)]
    assert any(found), "15 % is below what counts as a change: only a regular look sees it"


@pytest.mark.parametrize("before", [96, 704, 5000])
def test_after_a_change_that_noise_hides_at_first_it_is_looked_at_again_soon(before: int) -> None:
    """The first 16 steps after the change are noisier than what a split would gain."""
    corrector = Corrector((64, 64))
    loud = [(0.1, 0.16 + (0.05 if step % 2 else -0.05)) for step in range(16)]
    assert not any(corrector.observe(step) for step in [(0.1, 0.1)] * before + loud)
    assert any(corrector.observe((0.1, 0.16)) for _ in range(56))


def lasting(steps_s: Sequence[Sequence[float]], every: int = 1) -> int | None:
    """The step after which a lasting difference is sure; of so many steps one is told."""
    watch = Lasting()
    told = enumerate(steps_s[every - 1 :: every], start=1)
    return next((number * every for number, step in told if watch.observe(step, every)), None)


def noisy(ranks: int, count: int, seed: int, *, noise: float, slow: float = 1.0) -> list[list[float]]:
    """Steps of about a second; the last rank is so many times as slow."""
    source = random.Random(seed)
    factors = [1.0] * (ranks - 1) + [slow]
    return [
        [factor * source.lognormvariate(0.0, noise) * (10.0 if source.random() < 0.01 else 1.0) for factor in factors]
        for _ in range(count)
    ]


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 8), st.floats(0.0, 1.0), st.integers(0, 9999))
def test_noise_alone_never_splits_like_devices(ranks: int, noise: float, seed: int) -> None:
    assert lasting(noisy(ranks, 4000, seed, noise=noise)) is None


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 8), st.floats(0.0, 0.2), st.floats(1.3, 5.0), st.integers(0, 9999))
def test_a_lasting_slowness_of_like_devices_is_found(ranks: int, noise: float, slow: float, seed: int) -> None:
    steps_s = noisy(ranks, 1500, seed, noise=noise, slow=slow)
    found = lasting(steps_s)
    assert found is not None
    assert sum(max(step) for step in steps_s[:found]) >= LASTING_WINDOWS * LASTING_WINDOW_S


@pytest.mark.parametrize(("step_s", "every"), [(0.001, 1), (0.001, 16), (0.05, 10), (0.1, 5), (0.3, 1), (1.0, 1)])
def test_a_lasting_slowness_is_found_after_five_minutes_however_many_steps_go_untold(step_s: float, every: int) -> None:
    found = lasting([(step_s / 1.5, step_s)] * int(400 / step_s), every)
    assert found is not None
    assert found * step_s == pytest.approx(LASTING_WINDOWS * LASTING_WINDOW_S, rel=0.05)


def test_steps_of_which_nobody_was_told_count_once_one_is_told_again() -> None:
    corrector, found, told = Corrector((64, 64), alike=True), None, 0
    while found is None:
        told += 1
        assert corrector.observe((0.0, 0.0), 3) is None
        found = corrector.observe((0.5, 1.0))
    assert found.lasting_s == pytest.approx(4.0 * told)


@pytest.mark.parametrize("slow", [(1.0, 1.1), (1.0, 1.0, 0.5), (1.2, 1.2, 1.2, 1.0), (1.0, 1.0)])
def test_a_difference_that_hardly_pays_leaves_like_devices_alone(slow: tuple[float, ...]) -> None:
    assert (lasting([slow] * 3000) is None) == (slow != (1.0, 1.0, 0.5))


def test_a_slowness_that_ends_within_minutes_or_wanders_from_rank_to_rank_is_not_lasting() -> None:
    burst = [(1.0, 2.0)] * 100 + [(1.0, 1.0)] * 60
    assert lasting(burst * 20) is None
    assert lasting(([(1.0, 2.0)] * 60 + [(2.0, 1.0)] * 60) * 20) is None
    assert lasting([(1.0, 2.0)] * 400) is not None


def test_steps_of_a_millisecond_are_watched_by_few_of_them() -> None:
    watch = Lasting()
    for _ in range(290_000):
        assert not watch.observe((0.0005, 0.001))
    assert len(watch.steps) <= 600
    assert any(watch.observe((0.0005, 0.001)) for _ in range(20_000))


def test_like_devices_are_split_once_one_is_lastingly_slower_and_corrected_from_then_on() -> None:
    line = Line(0.0, 0.01)
    run = Devices([line, line], Corrector((64, 64), lines=[line, line], alike=True), 0.03, 4)
    run.steps(2000)
    assert not run.corrections
    run.truth[1] = line.scaled(1.5)
    run.steps(600)
    assert run.share_of_best >= 0.97
    first = run.corrections[0].reason
    assert first.startswith("The devices are alike by name, but one has been slower for 5 min")
    assert "Rank 1 worked" in first
    assert all(not later.lasting_s for later in run.corrections[1:])
    run.truth[1] = line
    run.steps(200)
    assert run.share_of_best >= 0.97, "it is as fast as the other again"


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.builds(Line, st.floats(0.0, 0.02), st.floats(2e-4, 2e-3)), min_size=2, max_size=5),
    st.floats(0.0, 0.2),
    st.integers(0, 9999),
)
def test_corrections_are_bounded_and_keep_the_batch_whatever_the_noise(
    truth: list[Line], noise: float, seed: int
) -> None:
    run = Devices(truth, Corrector(even(256, len(truth))), noise, seed)
    run.steps(300)
    assert sum(run.corrector.split) == 256 and min(run.corrector.split) >= 1
    assert all(found.gain > 0.0 for found in run.corrections)


def test_a_wrong_estimate_is_put_right_and_said_in_words() -> None:
    truth = [Line(0.002, 0.001), Line(0.004, 0.002)]
    run = Devices(truth, Corrector((64, 64), lines=[truth[0]] * 2), 0.01, 3)
    run.steps(60)
    first = run.corrections[0]
    assert first.before == (64, 64)
    assert first.after[0] > first.after[1]
    assert first.reason.startswith("Rank 1 worked 13")
    assert f"{first.after[0]} + {first.after[1]} rows" in first.reason
    assert run.share_of_best >= 0.98


def test_memory_limits_hold_in_corrections() -> None:
    run = Devices([Line(0.0, 0.001), Line(0.0, 0.004)], Corrector((64, 64), most=(80, 0)), 0.0, 0)
    run.steps(100)
    assert run.corrector.split == (80, 48)


@pytest.mark.parametrize("most", [(40, 40), (1, 200)])
def test_where_no_split_fits_in_the_memory_none_is_proposed(most: tuple[int, int]) -> None:
    corrector = Corrector((64, 64), least=2, most=most)
    assert not any(corrector.observe((0.1, 0.3)) for _ in range(100))


@pytest.mark.parametrize("bad", [float("nan"), 0.0, -1.0, float("inf")])
def test_what_no_clock_tells_is_dropped(bad: float) -> None:
    corrector = Corrector((8, 8))
    assert all(corrector.observe([bad, 0.1]) is None for _ in range(100))
