"""Peaks of finished jobs correct the estimates of programs like theirs, and never make them dangerously low."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.device_parts import MemoryModel
from scheduler.estimation.estimate import estimate
from scheduler.estimation.finished import Finished, RanOut
from scheduler.estimation.fit_memory import CAREFUL, HEADROOM, PEAK_LEVEL, ends, predict_peak
from scheduler.estimation.learning import corrected
from scheduler.estimation.peaks import LOWEST, PeakSeen, memory_taught, peak_interval
from scheduler.estimation.prior import prior_for
from scheduler.estimation.split import most_rows
from scheduler.estimation.values import Interval
from scheduler.workload import Workload
from tests.scheduler.made_workloads import KIND, NAME, allocation, workload

MODEL = replace(prior_for(KIND, NAME).memory, low_ratio=0.9, high_ratio=1.12)


def pictures(count: int, seed: int = 0) -> list[Workload]:
    """Programs most of whose memory is activations."""
    draw = np.random.default_rng(seed)
    return [
        workload(layers=5, filters=int(draw.integers(32, 64)), size=40, batch=int(draw.integers(64, 128)))
        for _ in range(count)
    ]


def tables(count: int, seed: int = 0) -> list[Workload]:
    """Programs most of whose memory is weights."""
    draw = np.random.default_rng(seed)
    return [workload(layers=1, filters=64, size=8, nodes=int(draw.integers(400_000, 900_000))) for _ in range(count)]


def seen(works: Sequence[Workload], factor: float, *, noise: float = 0.0, ran_out: bool = False) -> list[PeakSeen]:
    """Jobs whose peaks were so many times what the parts add up to."""
    draw = np.random.default_rng(1)
    return [
        PeakSeen(
            workload=work,
            peak_bytes=factor * math.exp(noise * draw.normal()) * predict_peak(MODEL.coefficients, work),
            ran_out=ran_out,
        )
        for work in works
    ]


def ratio(model: MemoryModel, work: Workload) -> Interval:
    """The estimate over what the parts add up to."""
    return peak_interval(model, work).scaled(1.0 / predict_peak(MODEL.coefficients, work))


def test_a_family_that_was_always_estimated_too_high_is_not_any_more() -> None:
    one, many = (memory_taught(MODEL, seen(pictures(count), 0.8)) for count in (1, 40))
    (other,) = pictures(1, seed=5)
    assert 0.9 < ratio(one, other).mid < 0.98
    assert ratio(many, other).mid == pytest.approx(0.8, rel=0.05)


def test_programs_made_up_otherwise_are_estimated_as_before() -> None:
    taught = memory_taught(MODEL, seen(pictures(40), 0.8))
    found = ratio(taught, tables(1)[0])
    assert (found.low, found.mid, found.high) == pytest.approx((0.9, 1.0, 1.12), rel=0.03)


def test_two_families_that_are_off_either_way_are_both_put_right() -> None:
    """Within the bar: a mean error of 10 % at most, and none more than 15 % too low."""
    truth = [(pictures, 1 / 1.2), (tables, 1.25)]
    taught = memory_taught(MODEL, [job for make, factor in truth for job in seen(make(25), factor, noise=0.03)])
    errors = [ratio(taught, work).mid / factor - 1.0 for make, factor in truth for work in make(30, seed=7)]
    before = [1.0 / factor - 1.0 for _, factor in truth]
    assert np.mean(np.abs(errors)) < 0.06 < np.mean(np.abs(before))
    assert min(errors) > -0.15


def test_the_range_narrows_with_many_jobs_alike_and_holds_what_each_of_them_took() -> None:
    jobs = seen(pictures(60), 1.0, noise=0.01)
    few, many = memory_taught(MODEL, jobs[:2]), memory_taught(MODEL, jobs)
    work = pictures(1, seed=9)[0]
    before, after = ratio(few, work), ratio(many, work)
    assert after.high / after.low < before.high / before.low
    for job in jobs:
        found = peak_interval(many, job.workload)
        assert found.low < job.peak_bytes < found.high


def test_a_job_that_took_more_than_was_foretold_raises_the_upper_end_at_once() -> None:
    work = pictures(1)[0]
    found = ratio(memory_taught(MODEL, seen([work], 1.4)), work)
    assert found.high > 1.4 and found.mid > 1.0


def test_running_out_of_memory_shows_that_more_is_needed() -> None:
    works = pictures(12)
    limit = 1.3 * predict_peak(MODEL.coefficients, works[0])
    lost = PeakSeen(workload=works[0], peak_bytes=limit, ran_out=True)
    assert peak_interval(MODEL, works[0]).high < limit < peak_interval(memory_taught(MODEL, [lost]), works[0]).high
    assert ratio(memory_taught(MODEL, [lost]), works[0]).mid > 1.0


def test_running_out_of_less_than_was_foretold_says_nothing() -> None:
    works = pictures(12)
    small = seen(works, 0.3, ran_out=True)
    assert ratio(memory_taught(MODEL, small), works[0]).mid == 1.0
    finished = seen(works, 0.95)
    assert ratio(memory_taught(MODEL, [*finished, *small]), works[0]) == ratio(memory_taught(MODEL, finished), works[0])


def test_jobs_that_had_far_too_little_say_nothing_of_what_is_usual() -> None:
    """Somebody tries again and again with a limit that nothing fits into: finished jobs still teach."""
    finished = seen(pictures(5), 0.8)
    tries = seen(pictures(8, seed=3), 0.05, ran_out=True)
    (other,) = pictures(1, seed=5)
    alone, beside = memory_taught(MODEL, finished), memory_taught(MODEL, finished + tries)
    assert ratio(beside, other) == ratio(alone, other)
    assert beside.lessons.n_left_out == 0


def test_jobs_that_all_ran_out_of_far_more_than_was_foretold_are_believed_together() -> None:
    taught = memory_taught(MODEL, seen(pictures(6), 4.0, ran_out=True))
    (other,) = pictures(1, seed=5)
    assert taught.lessons.n_left_out == 0 and ratio(taught, other).high > 4.0


def test_a_wild_job_is_left_out_and_counted() -> None:
    work = pictures(1)[0]
    alone = memory_taught(MODEL, seen([work], 20.0))
    assert (alone.lessons.n_left_out, alone.lessons.log_ratios) == (1, ())
    assert ratio(alone, work).mid == 1.0
    among = memory_taught(MODEL, [*seen(pictures(20), 0.9), *seen([work], 0.05)])
    assert among.lessons.n_left_out == 1 and ratio(among, work).mid > 0.88


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(1e-3, 1e3), st.booleans()), min_size=1, max_size=12))
def test_no_jobs_make_an_estimate_less_than_half_or_its_range_none(factors: list[tuple[float, bool]]) -> None:
    works = pictures(len(factors))
    jobs = [
        job for work, (factor, out) in zip(works, factors, strict=True) for job in seen([work], factor, ran_out=out)
    ]
    taught = memory_taught(MODEL, jobs)
    found = ratio(taught, works[0])
    assert found.mid >= math.exp(LOWEST) * (1 - 1e-9)
    assert found.low <= found.mid <= found.high
    assert len(taught.lessons.log_ratios) + taught.lessons.n_left_out == len(factors)


@pytest.mark.parametrize("peak_bytes", [0.0, -1.0, float("nan"), float("inf")])
def test_a_peak_that_no_run_has_is_refused(peak_bytes: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        PeakSeen(workload=workload(), peak_bytes=peak_bytes)
    with pytest.raises(ValueError, match="run out"):
        RanOut(workload=workload(), allocation=allocation(), limit_bytes=peak_bytes)


def taught_by_jobs(*, ran_out: bool) -> tuple[DeviceModel, DeviceModel, Workload]:
    """(before, after, program): jobs on two ranks, which took, or had, 1.3 times what was foretold."""
    before, way = prior_for(KIND, NAME), allocation(2, (48, 16))
    before = replace(before, memory=MODEL)
    work = workload(layers=5, filters=48, size=40, batch=64)
    peak_bytes = 1.3 * estimate(work, way, before).peak_bytes.mid
    step_s = estimate(work, way, before).step_s.mid
    if ran_out:
        lost = RanOut(workload=work, allocation=way, limit_bytes=peak_bytes)
        return before, corrected(before, [], [lost] * 20), work
    job = Finished(workload=work, allocation=way, step_s=step_s, peak_bytes=peak_bytes)
    return before, corrected(before, [job] * 20), work


@pytest.mark.parametrize("ran_out", [False, True])
def test_jobs_correct_the_memory_of_estimates_and_the_rows_that_a_rank_is_given(ran_out: bool) -> None:
    before, after, work = taught_by_jobs(ran_out=ran_out)
    way = allocation(2, (48, 16))
    peaks = [estimate(work, way, model).peak_bytes for model in (before, after)]
    assert peaks[1].mid == pytest.approx(1.3 * peaks[0].mid, rel=0.1)
    limit_bytes = peaks[0].high
    assert estimate(work, way, before, memory_limit_bytes=limit_bytes).fits
    assert not estimate(work, way, after, memory_limit_bytes=limit_bytes).fits
    assert most_rows(work, after, limit_bytes) < most_rows(work, before, limit_bytes)


def test_jobs_on_other_devices_teach_nothing_of_memory() -> None:
    before, _, work = taught_by_jobs(ran_out=False)
    other = replace(allocation(), model_name="Other")
    lost = RanOut(workload=work, allocation=other, limit_bytes=1e12)
    assert corrected(before, [], [lost]) == before


def test_lessons_survive_json_and_older_models_have_none() -> None:
    before, after, _ = taught_by_jobs(ran_out=True)
    assert DeviceModel.from_dict(json.loads(json.dumps(after.to_dict()))) == after
    body = json.loads(json.dumps(before.to_dict()))
    del body["memory"]["lessons"]
    assert DeviceModel.from_dict(body) == before


def test_learning_again_replaces_the_lessons() -> None:
    before, after, _ = taught_by_jobs(ran_out=False)
    assert corrected(after, []).memory == before.memory


def test_the_range_of_a_peak_says_its_own_level_and_not_that_of_a_time() -> None:
    peaks = np.random.default_rng(1).lognormal(0.0, 0.2, 2000)
    low, high = ends(peaks)
    careful = high / HEADROOM
    inside = float(np.mean((low <= peaks) & (peaks <= careful)))
    assert ratio(MODEL, pictures(1)[0]).level == PEAK_LEVEL == pytest.approx(inside, abs=0.005)
    assert np.mean(peaks <= careful) == pytest.approx(CAREFUL, abs=0.005)
