"""Throughput of a run next to the same run on another number of ranks."""

from __future__ import annotations

from typing import Any

from harness.errors import HarnessError
from harness.jobs.emulated import emulated_devices
from harness.jobs.models import Job
from harness.jobs.selectors import job_results
from harness.plain import value_at
from worker.plan import RunPlan
from worker.states import JobState

RELATIVES_MAX = 50
SPEEDUP_COLUMNS = ("ranks", "job", "name", "samples_per_s", "speedup", "ideal")
_SAME = (
    "model", "training.batch_size", "training.augment", "training.precision", "training.accumulate", "resources.device",
)  # fmt: skip


def _same_work(job: Job) -> list[Any]:
    """What must be equal for two rates to be comparable: the model, the batch and how it is computed, the devices."""
    devices = sorted({(use.device_kind, use.device_model) for use in job.uses.all()})
    return [devices, *(value_at(job.resolved.get("spec") or {}, path) for path in _SAME)]


def _compression(job: Job) -> Any:
    """What messages between ranks are rounded to; one rank sends none."""
    return value_at(job.resolved.get("spec") or {}, "training.compression")


def _way(job: Job) -> tuple[int, str]:
    """(ranks, mode) of all its attempts, 0 where they differ, or one drives several devices. One rank has no mode."""
    ways = {
        (0 if each.width or _drives_several(each.run_plan) else each.world_size, each.run_plan.mode or "sync")
        for each in job.attempts.all()
    }
    if len(ways) != 1:
        return 0, ""
    ranks, mode = ways.pop()
    return ranks, mode if ranks > 1 else ""


def _drives_several(plan: RunPlan) -> bool:
    """Whether a process drives several GPUs, or a core for each of its threads: it is no speed of one device."""
    return any(rank.others or (rank.threads > 1 and not rank.device.startswith("cuda")) for rank in plan.ranks)


def throughput(job: Job) -> float | None:
    """Samples per second over all ranks, as the run itself measured it; None without results."""
    try:
        timing = job_results(job).get("timing")
    except HarnessError:
        return None
    rate = timing.get("samples_per_s") if isinstance(timing, dict) else None
    return float(rate) if isinstance(rate, int | float) and rate > 0 else None


def speedup_rows(job: Job) -> list[dict[str, Any]]:
    """One row per number of ranks, smallest first; empty unless two numbers were tried, one of them 1.

    Compared are runs of the same program on the same data and models of devices in the same project, each rank on one
    device, several ranks in the mode of this job (sync, if it has one rank). For each number of ranks the newest
    counts, but this job for its own. A run that was interrupted may have changed its ranks and does not count, nor does
    one on emulated devices.
    """
    relatives = Job.objects.filter(
        project_id=job.project_id, dataset_id=job.dataset_id, dataset_sha256=job.dataset_sha256, family=job.family,
        state=JobState.SUCCEEDED, deleted_at=None,
    )  # fmt: skip
    chosen: dict[int, Job] = {}
    wanted = relatives.prefetch_related("attempts", "uses")
    newest = wanted.exclude(pk=job.pk).order_by("-created_at")[: RELATIVES_MAX - 1]
    others = [*wanted.filter(pk=job.pk), *newest]  # it may be older than so many others
    slowed, mode, work = emulated_devices(others), _way(job)[1] or "sync", _same_work(job)
    for other in others:
        ranks, other_mode = _way(other)
        if not ranks or other_mode not in ("", mode) or other.pk in slowed or _same_work(other) != work:
            continue
        if ranks > 1 and _compression(other) != _compression(job):
            continue
        chosen.setdefault(ranks, other)
    rates = {ranks: rate for ranks, other in chosen.items() if (rate := throughput(other))}
    if len(rates) < 2 or 1 not in rates:
        return []
    return [
        {
            "ranks": ranks,
            "job": chosen[ranks].pk,
            "name": chosen[ranks].name,
            "samples_per_s": rates[ranks],
            "speedup": rates[ranks] / rates[1],
            "ideal": ranks,
        }
        for ranks in sorted(rates)
    ]
