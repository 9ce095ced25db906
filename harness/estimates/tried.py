"""What one idle device tries of a job: with one device its whole step, of a gang what one of its ranks would do.

A rank of `sync` and `async` has its share of the rows. Of stages the whole model is tried, on the rows of a
micro-batch: what a stage takes is told from that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from codegen.modes import AVERAGED, STAGED
from harness.calibration.known import device_model
from harness.errors import Conflict
from harness.jobs.control.plans import MEMORY_SHARE
from harness.jobs.models import Job
from harness.jobs.options import wanted_devices
from harness.pool.idle import IDLE_CPU_BYTES, IDLE_CUDA_BYTES
from harness.pool.models import Device, DeviceKind
from scheduler.estimation.alone import rows_alone
from scheduler.estimation.in_precision import in_precision
from scheduler.estimation.peaks import peak_interval
from scheduler.estimation.values import Allocation
from scheduler.workload import Workload, totals_at_batch
from worker.shares import even
from worker.words import counted, size_words


@dataclass(frozen=True, kw_only=True)
class Tried:
    """On which device so many rows are tried; what is left empty does not matter."""

    kind: str = ""
    model_name: str = ""
    rows: int
    whole: Workload | None = None
    """Of a model that runs in stages: all of it has to fit on the device."""


def batch_size(job: Job) -> int:
    """Rows of a step of the whole run, as the resolved spec says."""
    value = (job.resolved.get("spec") or {}).get("training", {}).get("batch_size")
    return value if isinstance(value, int) and value > 0 else 1


def wanted_mode(job: Job) -> str:
    """In which its resolved spec has so many devices work; empty: left open, or there is one."""
    mode = (job.resolved.get("spec") or {}).get("mode")
    return str(mode) if wanted_devices(job)[1] > 1 and mode not in (None, "auto") else ""


def rank_rows(job: Job) -> int:
    """Rows of a step that the largest rank has on the devices that the job's spec fixes."""
    (_, count), mode, batch = wanted_devices(job), wanted_mode(job), batch_size(job)
    return gang_rows(batch, count, mode)


def gang_rows(batch: int, count: int, mode: str) -> int:
    """Rows of the largest of `count` ranks; one process, or stages of a model, see all of them."""
    ranks = count if mode in AVERAGED or not mode else 1
    return max(even(batch, min(ranks, batch)))


def tried_of_way(way: Allocation, workload: Workload) -> list[Tried]:
    """What a device of each of its models would do, those with most rows first."""
    whole = workload if way.mode in STAGED else None
    found, first = [], 0
    for name, count in way.by_model:
        part = way.batch_split[first : first + count] if way.parts else way.batch_split
        first += count
        alike = replace(way, model_name=name, parts=(), batch_split=part)
        rows = rows_alone(workload, alike, device_model(way.kind, name))
        found.append(Tried(kind=way.kind, model_name=name, rows=rows, whole=whole))
    return sorted(found, key=lambda tried: -tried.rows)


def whole_fits_check(tried: Tried, device: Device) -> None:
    """Pass unless a model in stages is too large for this one device. Raises `Conflict`."""
    if tried.whole is None:
        return
    totals = totals_at_batch(tried.whole, tried.rows)
    model = in_precision(device_model(device.kind, device.model_name), tried.whole)
    most_bytes = peak_interval(model.memory, totals).high
    room_bytes = (
        device.memory_bytes - IDLE_CUDA_BYTES
        if device.kind == DeviceKind.CUDA
        else int(device.node.memory_bytes * MEMORY_SHARE) - IDLE_CPU_BYTES
    )
    if most_bytes > room_bytes:
        raise Conflict(
            f"Its stages cannot be tried on one device: the whole model with {counted(tried.rows, 'row')} may take "
            f"{size_words(most_bytes)}, and {device.node.name} has {size_words(room_bytes)} for it.",
            code="whole_too_large",
            hint="The estimate stays as it is modelled; once it runs, its own pace shows how long it takes.",
        )
