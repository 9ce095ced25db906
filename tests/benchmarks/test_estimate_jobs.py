"""What is printed of whole jobs beside their errors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.estimation.probe import Probe
from scheduler.estimation.run_time import RunParts
from tests.benchmarks.estimate_jobs import JOBS, allocations, noise_floor
from tests.benchmarks.estimate_runs import Seen
from tests.factory_offers import workload_make


def test_the_noise_floor_is_how_far_the_steps_of_a_run_lie_from_those_of_its_probe():
    workload = workload_make(rows=320, epochs=5, batch=32)
    probe = Probe(allocation=allocations(32)[0], step_s=(0.09, 0.1, 0.4))
    parts = RunParts(start_s=3.0, steps_s=50 * 0.11, passes_s=1.0, saves_s=0.0, end_s=1.0)
    run = Seen(job=JOBS[0], workload=workload, probe=probe, run_s=10.5, start_s=3.0, parts=parts)
    assert noise_floor([run]) == pytest.approx(0.1)
    slower = replace(run, parts=replace(parts, steps_s=50 * 0.13))
    faster = replace(run, parts=replace(parts, steps_s=50 * 0.08))
    assert noise_floor([run, slower, faster]) == pytest.approx(0.2)
