"""Where reading the rows takes more memory than the steps, an estimate is of the reading."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.estimate import estimate
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


@pytest.mark.parametrize(("kind", "reads"), [(KIND, True), ("cuda", False)])
def test_a_model_kept_from_before_reads_rows_where_its_kind_does(kind, reads):
    body = prior_for(kind, NAME).to_dict()
    del body["memory"]["reads"]
    assert DeviceModel.from_dict(body).memory.reads is reads
