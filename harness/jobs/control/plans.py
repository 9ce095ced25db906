"""From a placement to what a node is told."""

from __future__ import annotations

import itertools
import secrets
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace

from django.conf import settings

from codegen.modes import MODES, ONE_PROCESS, SEVERAL, STAGED, can_lose_ranks
from harness.jobs.control.data_ways import dataset_of
from harness.jobs.control.disk import OnDisk
from harness.jobs.control.gangs import MEASURED, shared_out
from harness.jobs.control.spread import addresses_of, network_of
from harness.jobs.control.telemetry import number_of
from harness.jobs.models import Allocation, Job, JobAttempt, ResourceSample
from harness.jobs.options import wanted_devices, wanted_memory_bytes
from harness.jobs.services import minimum_sandbox_level
from harness.pool.models import Device, DeviceKind, Node
from scheduler.types import Option
from worker.events import stream_number
from worker.plan import Limits, RankPlan, RunPlan

MEMORY_SHARE = 0.9
"""Of a node's memory that jobs may take together."""
MEMORY_FLOOR_BYTES = 3 << 30
"""PyTorch itself needs room; a smaller share is raised to this where the node has it."""
WALL_FACTOR = 1.5
WALL_EXTRA_S = 900.0
"""A time budget is kept by the program itself; this much above it the node ends the run."""

UNHEARD = "Ranks meet by torch.distributed: if one is lost, all start again, whatever resources.least says."
"""Where the pool's backend has changed since the job was submitted."""
UNABLE = "On these devices and in this mode all start again if a rank is lost, whatever resources.least says."
"""Where a person has chosen such since then."""


def plan_make(
    job: Job, *, token: int, devices: Sequence[Device], backend: str, disk: OnDisk, option: Option | None = None
) -> RunPlan:
    """The plan of one attempt; `devices` in rank order, with their nodes. An option's mode wins over the spec's.

    Reads the database alone: it is called while devices are taken.
    """
    wished = job.resolved.get("spec", {}).get("mode", "auto")
    mode = (option.mode if option else "") or wished
    if mode not in MODES or (mode in SEVERAL - {"sync"} and len(devices) == 1):
        mode = "sync" if len(devices) > 1 else "single"
    backend = "torch" if STAGED & {mode, wished} else backend  # Horovod sends nothing from rank to rank
    least, most = _elastic(job, mode, devices, backend)
    unheard = _unheard(job, mode, devices, backend)
    store, limits = settings.STORE, _limits(job, devices, most, disk)
    ranks, note = shared_out(job, mode, _ranks(mode, devices), devices, memory_bytes=limits.memory_bytes)
    limits = replace(limits, memory_bytes=_kept_bytes(limits.memory_bytes, devices, ranks))
    nodes = {rank.node for rank in ranks}  # one may have none: its device would only delay the others
    meeting = [device for device in devices if device.node.name in nodes]
    addresses = addresses_of(meeting)
    network = network_of(meeting, addresses)
    return RunPlan(
        job_id=job.pk,
        token=token,
        mode=mode,
        ranks=ranks,
        job_dir=str(store.job(job.pk).root),
        dataset_dir=str(store.dataset(dataset_of(job)).packed),
        limits=limits,
        minimum_sandbox_level=minimum_sandbox_level(job),
        own_code=job.own_code,
        resume_from=disk.resume_from,
        backend=backend,
        environment={"DLH_STAGES": str(option.stages)} if option and option.stages and mode in STAGED else {},
        note=" ".join(part for part in (unheard, note, network.note) if part),
        network=network.number,
        network_port=network.port,
        addresses=addresses,
        least=least if most or least < len(ranks) else 0,
        most=most,
        word=secrets.token_hex(16) if least and addresses else "",
        weights_dir=job.weights_dir,
        event_stream=stream_number(job.pk, settings.EVENT_STREAMS),
    )


def device_ranks(plan: RunPlan, devices: Sequence[Device]) -> tuple[int, ...]:
    """Number of the rank that each device is held for; `devices` as the plan was made for.

    One that got no rank has a number beyond all that there may be: who gives a rank's device back leaves it alone.
    """
    if plan.world_size == 1:
        return (0,) * len(devices)
    ranks, beyond = deque(plan.ranks), itertools.count(max(plan.world_size, plan.most))
    return tuple(ranks.popleft().rank if ranks and _drives(ranks[0], device) else next(beyond) for device in devices)


def _drives(rank: RankPlan, device: Device) -> bool:
    """Of devices that are alike it does not matter which one it is."""
    name = f"cuda:{device.index}" if device.kind == DeviceKind.CUDA else "cpu"
    return (rank.node, rank.device, rank.slowdown) == (device.node.name, name, device.slowdown)


def _elastic(job: Job, mode: str, devices: Sequence[Device], backend: str) -> tuple[int, int]:
    """(ranks with which the run goes on when others are lost, most that it may come to have while it runs).

    Zeros where that is not wished, or not possible as placed; the second alone where its devices are not alike, or lie
    on several nodes.
    """
    least, (_, count) = job.resolved.get("spec", {}).get("resources", {}).get("least"), wanted_devices(job)
    possible = backend == "horovod" and can_lose_ranks(devices[0].kind, mode)
    if not isinstance(least, int) or not possible or not 0 < least < max(count, len(devices)):
        return 0, 0
    together = len({device.node_id for device in devices}) == 1
    alike = together and len({(device.kind, device.model_name, device.slowdown) for device in devices}) == 1
    if not alike or job.resolved["spec"]["resources"].get("split") == MEASURED:
        return least, 0
    return least, max(count, len(devices))


def _unheard(job: Job, mode: str, devices: Sequence[Device], backend: str) -> str:
    """Why `resources.least` does nothing, where it does not."""
    if backend != "horovod" and _elastic(job, mode, devices, "horovod") != (0, 0):
        return UNHEARD
    least = job.resolved.get("spec", {}).get("resources", {}).get("least")
    return UNABLE if isinstance(least, int) and not can_lose_ranks(devices[0].kind, mode) else ""


def _ranks(mode: str, devices: Sequence[Device]) -> tuple[RankPlan, ...]:
    """One rank per device; in one process one that drives all cores, or the first GPU, or all (replicated)."""
    gpu_threads = {node: _gpu_threads(node) for node in {device.node for device in devices}}
    on_node: Counter[str] = Counter()
    drivers = devices[:1] if mode in ONE_PROCESS else devices
    others = [f"cuda:{device.index}" for device in devices[1:]] if mode == "replicated" else []
    ranks = []
    for number, device in enumerate(drivers):
        is_gpu = device.kind == DeviceKind.CUDA
        cpu_threads = len(devices) if mode in ONE_PROCESS else 1
        ranks.append(
            RankPlan(
                rank=number,
                node=device.node.name,
                local_rank=on_node[device.node.name],
                device=f"cuda:{device.index}" if is_gpu else "cpu",
                threads=gpu_threads[device.node] if is_gpu else cpu_threads,
                others=tuple(others) if is_gpu else (),
            )
        )
        on_node[device.node.name] += 1
    return tuple(ranks)


def _gpu_threads(node: Node) -> int:
    return max(1, node.cpu_cores // max(1, node.devices.filter(kind=DeviceKind.CUDA).count()))


def _memory_share(node: Node, devices: Sequence[Device], most: int) -> int:
    """Bytes of a node's memory for a run that has these devices there, or comes to have `most`."""
    bytes_most = int(node.memory_bytes * MEMORY_SHARE)
    of_kind = max(1, node.devices.filter(kind=devices[0].kind).count())
    share = min(bytes_most, bytes_most * max(most, len(devices)) // of_kind)
    if devices[0].kind == DeviceKind.CPU:
        share -= _beyond_shares_bytes(node, bytes_most // of_kind)
    return max(share, min(MEMORY_FLOOR_BYTES, bytes_most))


def _beyond_shares_bytes(node: Node, core_bytes: int) -> int:
    """What runs that have become narrower use there beyond the share of the cores that they have left.

    Their limit stays that of the most ranks: fewer of them take the same batch. Who gets the cores that they gave back
    can have of their share what is there.
    """
    held = Allocation.objects.filter(device__node=node, device__kind=DeviceKind.CPU, attempt__plan__most__gt=0)
    cores = Counter(held.values_list("attempt_id", flat=True))
    beyond = 0
    for attempt in JobAttempt.objects.filter(pk__in=cores).only("job_id", "number"):
        rows = ResourceSample.objects.filter(job_id=attempt.job_id, token=attempt.number).order_by("-time_s")
        newest = rows.values_list("data", flat=True).first() or {}
        sizes = [number_of(rank.get("rss_bytes")) or 0.0 for rank in newest.get("ranks", ())]
        beyond += max(0, int(sum(sizes)) - core_bytes * cores[attempt.pk])
    return beyond


def _limits(job: Job, devices: Sequence[Device], most: int, disk: OnDisk) -> Limits:
    """Of one attempt on the node where it has most devices; the others allow it their part (`Limits`)."""
    time_s = job.resolved.get("spec", {}).get("budget", {}).get("time_s")
    budgeted = isinstance(time_s, (int, float))
    return Limits(
        memory_bytes=_memory_bytes(wanted_memory_bytes(job), devices, most),
        # What attempts before have made counts too, and is not free any more.
        disk_bytes=min(settings.JOB_DISK_BYTES, disk.held_bytes + max(disk.free_bytes // 2, 64 << 20)),
        wall_s=time_s * WALL_FACTOR + WALL_EXTRA_S if budgeted else None,
        stall_s=float(settings.STALL_S),
    )


def _memory_bytes(wanted_bytes: int, devices: Sequence[Device], most: int) -> int:
    """Of the node that has most of the devices: its part of what a person fixed for the whole run (0: nothing), as it
    was placed, or as much for each device as the tightest of the nodes allows."""
    on_node: dict[Node, list[Device]] = {}
    for device in devices:
        on_node.setdefault(device.node, []).append(device)
    there = max(map(len, on_node.values()))
    if wanted_bytes:
        return -(-wanted_bytes * there // len(devices))
    return min(_memory_share(node, held, most) * there // len(held) for node, held in on_node.items())


def _kept_bytes(memory_bytes: int, devices: Sequence[Device], ranks: Sequence[RankPlan]) -> int:
    """The same where some devices got no rank (`shared_out`): a node's ranks may take what its devices may, no more."""
    held, kept = Counter(device.node.name for device in devices), Counter(rank.node for rank in ranks)
    most_held, most_kept = max(held.values()), max(kept.values())
    return min(memory_bytes * held[node] * most_kept // (most_held * count) for node, count in kept.items())
