"""What a job took of memory, or ran out of, corrects the estimates of the next ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from harness.calibration import selectors
from harness.calibration.known import device_model
from harness.calibration.models import RanOutRow
from harness.jobs.models import Job, JobAttempt
from harness.measuring.fitting import model_correct
from harness.measuring.learning import job_learn
from harness.measuring.ran_out import ran_out_learn
from harness.measuring.taught import ran_out_of
from harness.pool.idle import IDLE_CPU_BYTES, IDLE_CUDA_BYTES
from harness.pool.models import Device, Node
from scheduler.estimation.estimate import estimate
from tests.harness.measuring.jobs import KIND, NAME, WORK, allocation, foretell, tell


def test_the_peak_of_a_job_corrects_the_memory_of_the_next_estimate(ended: Callable[..., Job]) -> None:
    before = estimate(WORK, allocation(), device_model(KIND, NAME)).peak_bytes
    for factor in (0.8, 0.82, 0.79):
        job = ended(0.02)
        tell(job, peak_bytes=factor * before.mid)
        assert job_learn(job.pk)
    row = model_correct(KIND, NAME)
    assert row is not None and len(row.model["memory"]["lessons"]["log_ratios"]) == 3
    assert not row.fitted["memory"]["lessons"]["log_ratios"]
    after = estimate(WORK, allocation(), device_model(KIND, NAME)).peak_bytes
    assert 0.85 * before.mid < after.mid < 0.95 * before.mid
    assert after.low < 0.79 * before.mid and after.high < before.high


@pytest.fixture
def ran_out(job_make: Callable[..., Any], node_make: Callable[..., Any]) -> Callable[..., Job]:
    """A job on one core that failed for want of memory where it had `limit_bytes` on its node."""
    from tests.harness.jobs.helpers import event, run_now

    def make(limit_bytes: float, **fields: Any) -> Job:
        from harness.jobs.control.effects import events_apply

        node_make("node-1")
        job = job_make(resources={"device": "cpu", "count": 1}, training={"batch_size": 32, "epochs": 2})
        foretell(job)
        Job.objects.filter(pk=job.pk).update(**fields)
        attempt = run_now(job)
        plan = {**attempt.plan, "limits": {**attempt.plan["limits"], "memory_bytes": int(limit_bytes)}}
        JobAttempt.objects.filter(pk=attempt.pk).update(plan=plan)
        failure = {"code": "out_of_memory", "message": "It ran out.", "hint": ""}
        events_apply(job.pk, [event(job, "exited", 9, time_s=time.time(), outcome="failed", failure=failure)])
        job.refresh_from_db()
        assert job.state == "failed"
        return job

    return make


def test_a_job_that_ran_out_of_memory_raises_the_next_estimate_above_what_it_had(ran_out: Callable[..., Job]) -> None:
    before = estimate(WORK, allocation(), device_model(KIND, NAME)).peak_bytes
    had_bytes = 1.1 * before.high
    ran_out(had_bytes + IDLE_CPU_BYTES)
    assert ran_out_learn() == 1 and ran_out_learn() == 0
    assert RanOutRow.objects.get().limit_bytes == pytest.approx(had_bytes, rel=1e-6)
    assert model_correct(KIND, NAME) is not None
    after = estimate(WORK, allocation(), device_model(KIND, NAME), memory_limit_bytes=had_bytes)
    assert after.peak_bytes.high > had_bytes and not after.fits
    assert selectors.finished_rows() == []


def test_a_program_that_a_person_wrote_teaches_nothing_when_it_runs_out(ran_out: Callable[..., Job]) -> None:
    ran_out(4 << 30, program_own=True)
    assert ran_out_learn() == 1
    assert ran_out_of(KIND, NAME) == [] and model_correct(KIND, NAME) is None


def test_a_gpu_job_counts_where_the_gpu_ran_out_and_not_its_host(ran_out: Callable[..., Job]) -> None:
    attempt = ran_out(4 << 30).attempts.get()
    node = Node.objects.get()
    size_bytes, name = 16 << 30, "NVIDIA T4"
    Device.objects.create(node=node, kind="cuda", index=0, model_name=name, memory_bytes=size_bytes)
    attempt.job.uses.update(device=Device.objects.get(model_name=name), device_kind="cuda", device_model=name)
    for told, known in (("torch.OutOfMemoryError: CUDA out of memory.", size_bytes - IDLE_CUDA_BYTES), ("", None)):
        RanOutRow.objects.all().delete()
        JobAttempt.objects.filter(pk=attempt.pk).update(failure={**attempt.failure, "traceback": told})
        assert ran_out_learn() == 1
        assert RanOutRow.objects.get().limit_bytes == known


def test_a_gpu_job_had_what_its_own_gpu_has_and_not_what_others_of_that_name_tell(ran_out: Callable[..., Job]) -> None:
    """Of one name there are boards of several sizes, and a driver that is not asked yet tells none."""
    attempt, name, size_bytes = ran_out(4 << 30).attempts.get(), "NVIDIA A100", 80 << 30
    told = {"node": Node.objects.get(), "kind": "cuda", "model_name": name}
    own, *_ = [
        Device.objects.create(**told, index=index, memory_bytes=memory_bytes)
        for index, memory_bytes in enumerate((size_bytes, 40 << 30, 0))
    ]
    attempt.job.uses.update(device=own, device_kind="cuda", device_model=name)
    failure = {**attempt.failure, "traceback": "torch.OutOfMemoryError: CUDA out of memory."}
    JobAttempt.objects.filter(pk=attempt.pk).update(failure=failure)
    assert ran_out_learn() == 1
    assert RanOutRow.objects.get().limit_bytes == size_bytes - IDLE_CUDA_BYTES
