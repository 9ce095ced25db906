"""An offer for the draft, a program that cannot be read, and what was predicted of the jobs that ran."""

from __future__ import annotations

from typing import Any

from scheduler.workload import OpClass, Operator, Workload


def workload_make(*, flops: float = 2e8, rows: int = 20_000, epochs: int = 20, batch: int = 32) -> Workload:
    """A small network, as a node would have read it off a program."""
    gemm = {"batch": float(batch), "in": 512.0, "out": 512.0, "count": 1.0}
    return Workload(
        batch_size=batch,
        operators=(
            Operator(op=OpClass.GEMM, flops=flops, read_bytes=3e6, write_bytes=1e6, shape=gemm, input_gradient=False),
            Operator(op=OpClass.GEMM, flops=flops, read_bytes=3e6, write_bytes=1e6, shape=gemm),
            Operator(op=OpClass.ELEMENTWISE, flops=1e5, read_bytes=1e6, write_bytes=1e6, shape={"elements": 2.5e5}),
        ),
        parameters=1_000_000, parameter_bytes=4_000_000, gradient_bytes=4_000_000, optimizer_bytes=8_000_000,
        activation_bytes=2e6, transient_bytes=1e6, data_bytes=10_000_000, fixed_parameters_ops=8,
        train_rows=rows, evaluated_rows=rows // 5, epochs=epochs, global_batch_size=batch,
    )  # fmt: skip


def offer_make(user: Any, job: Any, **fields: Any) -> Any:
    """An offer of a job that is priced: of whatever pool there is."""
    from django.utils import timezone

    from harness.estimates.models import Inspection, OfferRow, OfferState
    from harness.estimates.offers import job_key
    from harness.estimates.settling import offer_settle

    inspection, _ = Inspection.objects.get_or_create(
        key=job_key(job),
        defaults={
            "dataset_sha256": job.dataset_sha256, "state": "done", "workload": workload_make().to_dict(),
            "sent_at": timezone.now(), "trace_s": 0.4,
        },
    )  # fmt: skip
    offer = OfferRow.objects.create(
        owner=user, project=job.project, job=job, inspection=inspection, state=OfferState.WAITING, title=job.name,
        wish={"kind": None, "model_name": None, "count": None, "mode": None}, **fields,
    )  # fmt: skip
    return offer_settle(offer)


def estimate_make(job: Any) -> Any:
    """What a job was expected to cost on one core."""
    from harness.estimates.models import JobEstimate
    from scheduler.estimation.estimate import estimate
    from scheduler.estimation.prior import prior_for
    from scheduler.estimation.values import Allocation

    workload = workload_make()
    way = Allocation(kind="cpu", model_name="core", count=1, mode="single", batch_split=(workload.global_batch_size,))
    body = estimate(workload, way, prior_for("cpu", "core"), memory_limit_bytes=4 << 30).to_dict()
    return JobEstimate.objects.create(job=job, inspection_key="", estimate=body)


def cost_make(job: Any) -> None:
    """What a job cost: its step within what was predicted, its memory not."""
    from django.utils import timezone

    from harness.calibration.models import FinishedJobRow
    from harness.estimates.models import JobEstimate

    FinishedJobRow.objects.update_or_create(
        job=job,
        defaults={
            "kind": "cpu", "model_name": "core", "step_s": 0.046, "run_s": 610.0, "peak_bytes": 130 << 20,
            "energy_j": 5300.0, "energy_basis": "modelled", "finished_at": timezone.now(),
            "predicted": JobEstimate.objects.get(job=job).estimate,
        },
    )  # fmt: skip


def offers_make(jobs: dict[str, Any]) -> None:
    """An offer for the draft; estimates of the jobs that run and that ended."""
    offer_make(jobs["draft"].owner, jobs["draft"])
    for state in ("running", "succeeded"):
        estimate_make(jobs[state])
    cost_make(jobs["succeeded"])
