"""Where reading the rows takes more memory than the steps, an estimate is of the reading."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.estimate import estimate
from scheduler.estimation.finished import RanOut
from scheduler.estimation.learning import corrected
from scheduler.estimation.peaks import PeakSeen, memory_taught, peak_interval
from scheduler.estimation.prior import prior_for
from scheduler.estimation.probe import Probe
from scheduler.estimation.split import most_rows
from scheduler.estimation.values import Basis
from tests.scheduler.made_workloads import KIND, NAME, allocation, workload

MODEL = prior_for(KIND, NAME)
GB = 10**9
LARGE = replace(workload(), dataset_bytes=GB, loading_bytes=8 * GB)


def test_the_peak_is_that_of_reading_where_it_is_higher():
    peak, steps = peak_interval(MODEL.memory, LARGE), peak_interval(MODEL.memory, replace(LARGE, loading_bytes=0))
    assert peak.mid == pytest.approx(8 * GB + MODEL.memory.coefficients["base"])
    assert peak.high == pytest.approx(peak.mid * MODEL.memory.high_ratio)
    assert GB < steps.mid < 2 * GB
    assert peak_interval(MODEL.memory, replace(LARGE, loading_bytes=GB)).mid == steps.mid
    assert most_rows(LARGE, MODEL, peak.high + 1) and not most_rows(LARGE, MODEL, peak.high - 1)


def test_rows_are_not_read_in_the_memory_of_a_gpu():
    memory = prior_for("cuda", "NVIDIA H200").memory
    assert peak_interval(memory, LARGE) == peak_interval(memory, replace(LARGE, loading_bytes=0))


def test_a_probe_that_read_a_few_rows_leaves_the_peak_of_reading_as_it_is():
    few = Probe(allocation=allocation(), step_s=(0.1,), peak_bytes=3e8)
    found = estimate(LARGE, allocation(), MODEL, probe=few)
    assert found.peak_bytes == peak_interval(MODEL.memory, LARGE) and found.memory_basis is Basis.MODELLED
    small = estimate(replace(LARGE, loading_bytes=GB // 10), allocation(), MODEL, probe=few)
    assert small.peak_bytes.mid == pytest.approx(3e8) and small.memory_basis is Basis.MEASURED


def test_a_job_whose_peak_was_of_reading_teaches_nothing_of_steps():
    seen = [PeakSeen(workload=LARGE, peak_bytes=peak_interval(MODEL.memory, LARGE).mid)] * 20
    taught = memory_taught(MODEL.memory, seen)
    steps = replace(LARGE, loading_bytes=0)
    assert peak_interval(taught, steps).mid == pytest.approx(peak_interval(MODEL.memory, steps).mid)


@pytest.mark.parametrize("took", [4.0, 5.6, 12.0, 16.0])
def test_jobs_whose_peak_was_of_reading_correct_that_of_the_next_and_no_steps(took):
    taught = memory_taught(MODEL.memory, [PeakSeen(workload=LARGE, peak_bytes=took * GB)] * 20)
    found = peak_interval(taught, LARGE)
    assert found.mid == pytest.approx(took * GB, rel=0.12)
    assert found.low < took * GB < found.high
    steps = replace(LARGE, loading_bytes=0)
    assert peak_interval(taught, steps) == peak_interval(MODEL.memory, steps)
    assert not taught.lessons.log_ratios and len(taught.reading.log_ratios) == 20


def test_a_job_that_ran_out_while_it_read_is_not_offered_the_same_again():
    limit_bytes = 13.5 * GB
    lost = [RanOut(workload=LARGE, allocation=allocation(), limit_bytes=limit_bytes)] * 5
    assert estimate(LARGE, allocation(), MODEL, memory_limit_bytes=limit_bytes).fits
    assert not estimate(LARGE, allocation(), corrected(MODEL, [], lost), memory_limit_bytes=limit_bytes).fits


def test_pictures_and_far_more_rows_are_read_in_what_was_foretold_before_tables_were_seen():
    taught = memory_taught(MODEL.memory, [PeakSeen(workload=LARGE, peak_bytes=12 * GB)] * 20)
    pictures = replace(LARGE, dataset_bytes=4 * GB, loading_bytes=8 * GB)
    huge = replace(LARGE, dataset_bytes=100 * GB, loading_bytes=800 * GB)
    for other in (pictures, huge):
        before, after = peak_interval(MODEL.memory, other), peak_interval(taught, other)
        assert (after.low, after.mid, after.high) == pytest.approx((before.low, before.mid, before.high), rel=0.02)


def test_what_steps_took_corrects_no_reading():
    steps = replace(LARGE, loading_bytes=0)
    took_bytes = 1.5 * peak_interval(MODEL.memory, steps).mid
    taught = memory_taught(MODEL.memory, [PeakSeen(workload=steps, peak_bytes=took_bytes)] * 20)
    assert peak_interval(taught, LARGE) == peak_interval(MODEL.memory, LARGE)
    assert peak_interval(taught, steps).mid == pytest.approx(took_bytes, rel=0.1)


def test_lessons_of_reading_survive_json_and_older_models_have_none():
    seen = [PeakSeen(workload=LARGE, peak_bytes=12 * GB), PeakSeen(workload=LARGE, peak_bytes=9 * GB, ran_out=True)]
    taught = replace(MODEL, memory=memory_taught(MODEL.memory, seen))
    body = json.loads(json.dumps(taught.to_dict()))
    assert DeviceModel.from_dict(body) == taught
    del body["memory"]["reading"]
    assert DeviceModel.from_dict(body) == MODEL


@pytest.mark.parametrize(("kind", "reads"), [(KIND, True), ("cuda", False)])
def test_a_model_kept_from_before_reads_rows_where_its_kind_does(kind, reads):
    body = prior_for(kind, NAME).to_dict()
    del body["memory"]["reads"]
    assert DeviceModel.from_dict(body).memory.reads is reads
