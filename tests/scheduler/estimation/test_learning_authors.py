"""Programs that people wrote teach like others, but one person alone moves no model far, and says nothing of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from scheduler.estimation.estimate import estimate
from scheduler.estimation.finished import Finished
from scheduler.estimation.learning import OWN_JOBS, OWN_RECENT, RECENT, SHRINK, corrected
from scheduler.estimation.peaks import peak_interval
from scheduler.estimation.prior import prior_for
from tests.scheduler.made_workloads import KIND, NAME, allocation, workload

PRIOR = prior_for(KIND, NAME)


def jobs(count: int, factor: float, *, author: str = "", **fields: object) -> list[Finished]:
    """Jobs whose steps took so many times what the prior says."""
    found = []
    for number in range(count):
        work = workload(filters=8 + number % 20)
        step_s = factor * estimate(work, allocation(), PRIOR).step_s.mid
        found.append(Finished(workload=work, allocation=allocation(), step_s=step_s, author=author, **fields))
    return found


def factor_of(finished: Sequence[Finished]) -> float:
    return corrected(PRIOR, finished).correction.factor


def test_a_program_that_a_person_wrote_teaches_like_any_other() -> None:
    assert factor_of(jobs(2, 1.5, author="a")) == pytest.approx(factor_of(jobs(2, 1.5)))


def test_one_person_counts_as_a_few_jobs_however_many_there_are() -> None:
    half = 1.5 ** (OWN_JOBS / (OWN_JOBS + SHRINK))
    assert factor_of(jobs(60, 1.5, author="a")) == pytest.approx(half)
    many = [job for author in "abcdefgh" for job in jobs(5, 1.5, author=author)]
    assert half < 1.35 < factor_of(many) < 1.5


def test_what_generated_programs_show_decides_who_is_believed() -> None:
    honest, wild = jobs(6, 1.1), jobs(60, 3.5, author="a")
    model = corrected(PRIOR, honest + wild)
    assert (model.correction.n_jobs, model.correction.n_left_out) == (6, OWN_RECENT)
    assert model.correction.factor == pytest.approx(factor_of(honest))


def test_nobody_has_the_few_that_were_generated_left_out_by_running_more() -> None:
    few, wild = jobs(3, 1.0), jobs(60, 2.5, author="a")
    model = corrected(PRIOR, few + wild)
    assert (model.correction.n_jobs, model.correction.n_left_out) == (3, OWN_RECENT)
    assert factor_of(jobs(1, 1.0) + jobs(60, 9.0, author="a")) == pytest.approx(1.0)


def test_of_people_alone_each_has_one_say_in_what_is_usual() -> None:
    honest = [job for author in "bcde" for job in jobs(2, 1.1, author=author)]
    assert factor_of(honest + jobs(60, 2.5, author="a")) == pytest.approx(factor_of(honest))


def test_nobody_makes_the_jobs_of_others_old_by_running_more() -> None:
    honest = jobs(6, 1.1) + jobs(2, 1.1, author="b")
    assert factor_of(honest + jobs(RECENT + 1, 2.5, author="a")) == pytest.approx(factor_of(honest))


def test_what_such_a_program_does_before_and_after_its_steps_says_nothing_of_starts_and_ends() -> None:
    told = {"start_s": 60.0, "run_s": 500.0, "load_s": 5.0}
    assert corrected(PRIOR, jobs(9, 1.0, author="a", **told)).overheads == PRIOR.overheads
    assert corrected(PRIOR, jobs(9, 1.0, **told)).overheads.start_s > PRIOR.overheads.start_s


def test_no_node_has_a_pace_by_programs_that_people_wrote() -> None:
    both = [
        *jobs(12, 1.0, nodes=("node-1",)),
        *jobs(12, 2.0, author="a", nodes=("node-2",)),
        *jobs(12, 2.0, author="b", nodes=("node-2",)),
    ]
    assert not corrected(PRIOR, both).paces
    assert "node-2" in corrected(PRIOR, [replace(job, author="") for job in both]).paces


def test_of_the_peaks_that_one_person_tells_the_newest_few_count() -> None:
    work = workload(filters=8)
    usual = peak_interval(PRIOR.memory, work).mid
    told = [
        Finished(workload=work, allocation=allocation(), step_s=0.01, peak_bytes=2.0 * usual, author=author)
        for author in ("a",) * 40
    ]
    few = corrected(PRIOR, told[:OWN_JOBS])
    assert peak_interval(few.memory, work).mid > 1.1 * usual
    assert corrected(PRIOR, told).memory == few.memory
