"""Who of a gang takes how many rows of a step, from what is known of each device before it starts. Reads only."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from harness.calibration.known import device_model, device_models
from harness.jobs.asked import WORKLOAD
from harness.jobs.models import Job
from harness.pool.idle import IDLE_CPU_BYTES, IDLE_CUDA_BYTES
from harness.pool.models import Device, DeviceKind
from scheduler.estimation.in_precision import of_gang
from scheduler.estimation.split import LEAST_ROWS, Member, gang_split, most_rows, rank_line
from scheduler.workload import Workload
from worker.plan import RankPlan
from worker.shares import Line

_log = logging.getLogger(__name__)
EVEN, MEASURED = "even", "measured"


@dataclass(frozen=True, kw_only=True)
class Gang:
    """How the batch is shared out; devices in rank order."""

    shares: tuple[int, ...]
    """0: the device is left out. All 0: the devices are alike, and are watched for one that is lastingly slower."""
    most: tuple[int, ...]
    lines: tuple[Line | None, ...]
    words: str
    """What was decided, in sentences; empty: nothing to say."""


def shared_out(
    job: Job, mode: str, ranks: Sequence[RankPlan], devices: Sequence[Device], *, memory_bytes: int
) -> tuple[tuple[RankPlan, ...], str]:
    """(the ranks with the rows and the declared slowdown of each, what was decided in words).

    A device that would only delay the others gets no rank. `memory_bytes`: of all ranks on one node together.
    """
    slowest = max((device.slowdown for device in devices), default=1.0)
    drivers = list(devices) if len(ranks) == len(devices) else []
    factors = [device.slowdown for device in drivers] or [slowest] * len(ranks)
    ranks = tuple(replace(rank, slowdown=factor) for rank, factor in zip(ranks, factors, strict=True))
    words = " ".join(_declared(devices))
    rank_bytes = memory_bytes // max(Counter(rank.node for rank in ranks).values())
    gang = gang_of(job, drivers, threads=ranks[0].threads, rank_bytes=rank_bytes) if mode == "sync" else None
    if gang is None:
        return ranks, words
    kept = [
        replace(rank, rows=rows, rows_most=most, line=line)
        for rank, rows, most, line in zip(ranks, gang.shares, gang.most, gang.lines, strict=True)
        if rows or not any(gang.shares)
    ]
    return _renumbered(kept), f"{gang.words} {words}".strip()


def _renumbered(ranks: Sequence[RankPlan]) -> tuple[RankPlan, ...]:
    """Ranks count from 0 without gaps, over all nodes and on each."""
    on_node: Counter[str] = Counter()
    found = []
    for number, rank in enumerate(ranks):
        found.append(replace(rank, rank=number, local_rank=on_node[rank.node]))
        on_node[rank.node] += 1
    return tuple(found)


def gang_of(job: Job, devices: Sequence[Device], *, threads: int, rank_bytes: int) -> Gang | None:
    """The first split over devices that are not alike; None: even shares that stay.

    `rank_bytes`: what one rank on a CPU may take; a GPU has its own memory.
    """
    spec = job.resolved.get("spec", {})
    wish = spec.get("resources", {}).get("split", "by_speed")
    rows = spec.get("training", {}).get("batch_size")
    if wish == EVEN or len(devices) < 2 or not isinstance(rows, int):
        return None
    factors = _factors(devices)
    named = [(device.kind, device.model_name) for device in devices]
    alike = wish != MEASURED and len(set(zip(named, factors, strict=True))) == 1
    workload = _workload_of(job)
    workload = workload and of_gang(workload, set(named))
    if alike and workload is None:
        return None  # what fits in their memory is not known
    lines = _lines(workload, devices, factors, threads)
    most = _most(workload, devices, rank_bytes)
    if alike:
        return _watched(rows, most, lines)
    members = [
        Member(name=_name(device), seconds_of=line, most=cap)
        for device, line, cap in zip(devices, lines, most, strict=True)
    ]
    try:
        found = gang_split(rows, members)
    except ValueError as error:
        _log.warning("job %s: even shares over unlike devices: %s", job.pk, error)
        return None
    basis = "" if workload else " Nothing is known about its program: only slowdowns and paces were counted."
    words = " ".join(found.words) + (basis if found.words else "")
    known: tuple[Line | None, ...] = tuple(lines) if workload else (None,) * len(devices)
    return Gang(shares=found.shares, most=tuple(most), lines=known, words=words)


def _watched(rows: int, most: Sequence[int], lines: Sequence[Line]) -> Gang | None:
    """Like devices: even shares until one is lastingly slower. None: their memory, as estimated, leaves no choice."""
    if min(most) < LEAST_ROWS or sum(most) < rows:
        return None
    return Gang(shares=(0,) * len(lines), most=tuple(most), lines=tuple(lines), words="")


def _workload_of(job: Job) -> Workload | None:
    """What the program does in a step, where somebody estimated it."""
    told = next(filter(None, WORKLOAD.ask(job)), None)
    if told is None:
        return None
    try:
        return Workload.from_dict(told)
    except ValueError as error:
        _log.warning("job %s: its workload is none: %s", job.pk, error)
        return None


def _factors(devices: Sequence[Device]) -> list[float]:
    """How many times as long each takes as its kind does: as declared, and by its node's pace, where nodes differ."""
    declared = [device.slowdown for device in devices]
    if len({device.node_id for device in devices}) == 1:
        return declared
    models = device_models({(device.kind, device.model_name) for device in devices})
    paces = [models[device.kind, device.model_name].pace_on(device.node.name) for device in devices]
    return [slowdown * pace for slowdown, pace in zip(declared, paces, strict=True)]


def _lines(workload: Workload | None, devices: Sequence[Device], factors: Sequence[float], threads: int) -> list[Line]:
    """Seconds by rows per device; without a workload all are alike but for their factors."""
    on_node = Counter(device.node_id for device in devices)

    @lru_cache
    def line_of(kind: str, model_name: str, together: int) -> Line:
        if workload is None:
            return Line(0.0, 1e-3)
        model = device_model(kind, model_name)
        return rank_line(workload, model, ranks=len(devices), together=together, threads=threads)

    return [
        line_of(device.kind, device.model_name, on_node[device.node_id]).scaled(factor)
        for device, factor in zip(devices, factors, strict=True)
    ]


def _most(workload: Workload | None, devices: Sequence[Device], rank_bytes: int) -> list[int]:
    """Rows that fit in each rank's memory; 0: not known."""
    if workload is None:
        return [0] * len(devices)

    @lru_cache
    def rows_of(kind: str, model_name: str, limit_bytes: int) -> int:
        return most_rows(workload, device_model(kind, model_name), limit_bytes) if workload else 0

    return [
        rows_of(device.kind, device.model_name, device.memory_bytes - IDLE_CUDA_BYTES)
        if device.kind == DeviceKind.CUDA
        else rows_of(device.kind, device.model_name, rank_bytes - IDLE_CPU_BYTES)
        for device in devices
    ]


def _name(device: Device) -> str:
    return f"{'GPU' if device.kind == DeviceKind.CUDA else 'Core'} {device.index} of {device.node.name}"


def _declared(devices: Sequence[Device]) -> list[str]:
    """Emulated devices are named as such wherever they are spoken of."""
    slowed = [f"{_name(device)} {device.slowdown:g} times" for device in devices if device.slowdown > 1.0]
    return [f"Emulated: an admin declared devices slower than they are ({', '.join(slowed)})."] if slowed else []
