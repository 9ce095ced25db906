"""Runs in stages teach how long stages take, as far as that can be told from the rest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.calibration import selectors
from harness.calibration.models import DeviceModelRow, FinishedJobRow
from harness.jobs.models import DeviceUse, Job, JobAttempt
from harness.measuring.fitting import model_correct
from harness.measuring.learning import job_learn
from harness.measuring.taught import finished_of
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.values import Allocation
from tests.harness.measuring.jobs import KIND, NAME, foretell, tell

WAY = Allocation(kind=KIND, model_name=NAME, count=2, mode="pipeline", batch_split=(32, 32))
STEP_S = 0.05


def staged(ended: Callable[..., Job], node: str) -> Job:
    """A job that two stages made, the second of them on this node."""

    def stages(job: Job) -> None:
        attempt = job.attempts.get()
        ranks = [{**attempt.plan["ranks"][0], "rank": rank} for rank in range(2)]
        JobAttempt.objects.filter(pk=attempt.pk).update(plan={**attempt.plan, "mode": "pipeline", "ranks": ranks})
        foretell(job, WAY)
        tell(job, samples_per_s=32 / STEP_S, peak_bytes=1 << 28)

    job = ended(0.02, estimated=False, before_end=stages)
    use = job.uses.get()
    DeviceUse.objects.create(
        job=job, token=use.token, node_name=node, device_kind=KIND, device_index=1, device_model=NAME,
        started_at=use.started_at, ended_at=use.ended_at, energy_j=1.0, energy_basis="assumed",
    )  # fmt: skip
    return job


def test_stages_on_one_node_teach_and_are_held_against_their_estimate(ended: Callable[..., Job]) -> None:
    job = staged(ended, "node-1")
    assert job_learn(job.pk)
    (row,) = selectors.finished_rows()
    step = selectors.compared(row, "step_s")
    assert row.mode == "pipeline" and step is not None and step.actual == pytest.approx(STEP_S)
    (taught,) = finished_of(KIND, NAME)
    assert taught.is_staged and taught.step_s == pytest.approx(STEP_S)
    model_correct(KIND, NAME)
    model = DeviceModel.from_dict(DeviceModelRow.objects.get().model)
    assert model.stages.n_jobs + model.stages.n_left_out == 1 and model.correction.n_jobs == 0
    assert DeviceModelRow.objects.get().n_finished == model.stages.n_jobs


def test_stages_on_two_nodes_are_compared_and_teach_nothing(ended: Callable[..., Job]) -> None:
    job = staged(ended, "node-2")
    assert job_learn(job.pk)
    assert FinishedJobRow.objects.get().predicted
    assert not finished_of(KIND, NAME)
