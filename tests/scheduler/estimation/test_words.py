"""What learning the words of texts takes: a part of the start, modelled, corrected by finished jobs, and named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.estimation.estimate import estimate
from scheduler.estimation.finished import Finished
from scheduler.estimation.learning import corrected
from scheduler.estimation.prior import prior_for
from scheduler.estimation.probe import Probe
from scheduler.estimation.run_time import load_s, rows_read_s
from scheduler.workload import Workload
from tests.scheduler.made_workloads import KIND, NAME, allocation, workload

PRIOR = prior_for(KIND, NAME)
PLAIN = workload()
TEXTS = replace(PLAIN, words_s=20.0)


def finished(work: Workload, load_s: float) -> Finished:
    step_s = estimate(work, allocation(), PRIOR).step_s.mid
    return Finished(workload=work, allocation=allocation(), step_s=step_s, start_s=load_s + 2.0, load_s=load_s)


def test_a_run_is_foretold_to_take_longer_by_what_learning_words_takes() -> None:
    with_texts, without = (estimate(work, allocation(), PRIOR) for work in (TEXTS, PLAIN))
    assert with_texts.run_s.mid - without.run_s.mid == pytest.approx(20.0)
    assert with_texts.step_s == without.step_s and with_texts.peak_bytes == without.peak_bytes


def test_it_is_named_as_modelled_until_runs_have_corrected_it_and_then_how_many() -> None:
    assert "20 s in which the words of texts are learned, modelled" in estimate(TEXTS, allocation(), PRIOR).note
    assert "words" not in estimate(PLAIN, allocation(), PRIOR).note
    found = corrected(PRIOR, [finished(TEXTS, 41.0)] * 4)
    assert "modelled, corrected by 4 finished runs" in estimate(TEXTS, allocation(), found).note


def test_finished_jobs_tell_how_long_words_take_here_and_nothing_of_the_reading_of_rows() -> None:
    took_s = 40.0 + rows_read_s(TEXTS, PRIOR.overheads)
    found = corrected(PRIOR, [finished(TEXTS, took_s)] * 50).overheads
    assert found.n_words == 50 and found.words_times == pytest.approx(2.0, rel=0.02)
    assert found.load_bytes_per_s == PRIOR.overheads.load_bytes_per_s
    assert load_s(replace(TEXTS, words_s=5.0), found) == pytest.approx(10.0 + rows_read_s(TEXTS, found), rel=0.02)
    assert load_s(PLAIN, found) == load_s(PLAIN, PRIOR.overheads)


def test_one_job_moves_it_half_of_the_way() -> None:
    took_s = 40.0 + rows_read_s(TEXTS, PRIOR.overheads)
    assert corrected(PRIOR, [finished(TEXTS, took_s)]).overheads.words_times == pytest.approx(1.5)


def test_a_probe_that_read_a_few_texts_does_not_multiply_what_learning_them_took() -> None:
    few = Probe(allocation=allocation(), step_s=(0.01,) * 5, load_row_s=1.0, load_once_s=1.0)
    many_rows = replace(TEXTS, train_rows=10**6)
    assert estimate(many_rows, allocation(), PRIOR, probe=few).run_s.mid < 10**6
    assert estimate(replace(many_rows, words_s=0.0), allocation(), PRIOR, probe=few).run_s.mid > 10**6
