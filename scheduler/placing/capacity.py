"""What policies are shown: the pool as counts, and jobs with only those options that some present node could run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter

from scheduler.types import (
    Capacity,
    DeviceKey,
    DeviceView,
    JobView,
    NodeSize,
    NodeView,
    Option,
    PoolView,
    Quotas,
    count_of,
    ever_allowed,
)

_Shape = tuple[str, str, int, int, str, int]


@dataclass
class Shown:
    """What a policy decides on."""

    jobs: list[JobView]
    """Without those that no present node could run; who leaves is queued; who cannot be changed has one option."""
    capacity: Capacity
    hopeless: set[str] = field(default_factory=set)
    """Jobs left out."""


def shown(jobs: Sequence[JobView], pool: PoolView, now_s: float, quotas: Quotas) -> Shown:
    """Prepare jobs and pool for a policy."""
    left = _without_leavers(jobs, pool)
    sizes = _Sizes(left)
    fixed = _fixed_devices(left, now_s)
    fitting = [sizes.fitting(job) for job in jobs]
    view = Shown(jobs=[], capacity=_capacity(jobs, left, now_s, sizes=sizes))
    for job, options in zip(jobs, fitting, strict=True):
        if job.project in quotas:
            options = tuple(option for option in options if ever_allowed(job.project, option, quotas))
        if job.running is not None and not job.running.leaving:
            view.jobs.append(_as_running(job, options, fixed))
        elif not options:
            view.hopeless.add(job.job_id)
        elif options == job.options and job.running is None:
            view.jobs.append(job)
        else:
            view.jobs.append(replace(job, options=options, running=None))
    return view


def _as_running(job: JobView, options: tuple[Option, ...], fixed: Mapping[str, str | None]) -> JobView:
    """A running job; one that cannot be changed, or whose devices nobody else may have, stays as it is.

    `options`: those that it would have if it waited. Now it has no others but what it holds: else it would be planned
    in another way than once it is paused.
    """
    running = job.running
    if running is None:
        return job
    is_free_to = not fixed or all(fixed.get(device, job.project) == job.project for device in running.device_ids)
    if job.can_pause and is_free_to:
        if len(options) == len(job.options):
            return job
        return replace(job, options=_with_held(job, options, running.option))
    if not job.can_pause and len(job.options) == 1 and job.options[0] is running.option:
        return job
    return replace(job, options=(running.option,), can_pause=False)


def _with_held(job: JobView, options: tuple[Option, ...], running: Option) -> tuple[Option, ...]:
    """`options`, and what it holds where none of them is that: in the job's own order, or last."""

    def is_held(option: Option) -> bool:
        return (option.key, option.count) == (running.key, running.count)

    if any(map(is_held, options)):
        return options
    found = tuple(option for option in job.options if option in options or is_held(option))
    return found if any(map(is_held, found)) else (*found, running)


def _fixed_devices(pool: PoolView, now_s: float) -> dict[str, str | None]:
    """Devices that are of no use to most now: their node drains or is down, or an admin keeps them.

    Each with the project that alone could use it; None: nobody could.
    """
    return {
        device.device_id: (device.keeper(now_s) or None) if node.takes_work else None
        for node in pool.nodes
        if not node.takes_work or node.is_kept
        for device in node.devices
        if not node.takes_work or device.keeper(now_s) is not None
    }


class _Sizes:
    """Which nodes there are, busy or not; alike questions are answered once."""

    def __init__(self, pool: PoolView) -> None:
        self._spans, self._span_level = pool.spans_nodes, pool.span_level
        self._nodes = [(node, node.counts) for node in pool.nodes if node.takes_work]
        self._levels: dict[int, dict[DeviceKey, int]] = {}
        for node, counts in self._nodes if self._spans else ():
            _add(self._levels.setdefault(node.sandbox_level, {}), counts)
        self._known: dict[_Shape, bool] = {}
        self.ask_memory = False
        """Whether an option that was asked for needs any."""
        self.ask_one_node = False
        """Whether one needs several devices of one node, though gangs may span nodes."""

    def fitting(self, job: JobView) -> tuple[Option, ...]:
        """Options by which the job could run if the pool were idle: the same tuple where those are all."""
        level, known = job.minimum_sandbox_level, self._known
        found = []
        for option in job.options:
            shape = (option.kind, option.model_name, option.count, option.memory_bytes, option.mode, level)
            fits = known.get(shape)
            if fits is None:
                fits = known[shape] = self._fits(level, option)
                self.ask_memory = self.ask_memory or option.memory_bytes > 0
            if fits:
                found.append(option)
        return job.options if len(found) == len(job.options) else tuple(found)

    def _fits(self, least_level: int, option: Option) -> bool:
        if self._spans and option.may_span(least_level, self._span_level):
            return any(
                count_of(counts, option) >= option.count and self._has_memory(level, option)
                for level, counts in self._levels.items()
                if level >= least_level
            )
        self.ask_one_node = self.ask_one_node or (self._spans and option.count > 1)
        return any(
            node.memory_bytes >= option.memory_bytes and count_of(counts, option) >= option.count
            for node, counts in self._nodes
            if node.sandbox_level >= least_level
        )

    def _has_memory(self, level: int, option: Option) -> bool:
        """Whether the nodes of a level have memory for as many devices as the gang needs, each for those it has."""
        if not option.memory_bytes:
            return True
        here = ((node, counts) for node, counts in self._nodes if node.sandbox_level == level)
        each = (min(count_of(counts, option), option.devices_in(node.memory_bytes)) for node, counts in here)
        return sum(each) >= option.count


def _add(total: dict[DeviceKey, int], counts: Mapping[DeviceKey, int]) -> None:
    for key, count in counts.items():
        total[key] = total.get(key, 0) + count


def _counted(devices: Iterable[DeviceView]) -> dict[DeviceKey, int]:
    counts: dict[DeviceKey, int] = {}
    for device in devices:
        key = (device.kind, device.model_name)
        counts[key] = counts.get(key, 0) + 1
    return counts


def _without_leavers(jobs: Sequence[JobView], pool: PoolView) -> PoolView:
    """The pool as it will be when those have left that leave."""
    gone = [job.running for job in jobs if job.running and job.running.leaving]
    if not gone:
        return pool
    devices = {device for running in gone for device in running.device_ids}
    freed: Counter[str] = Counter()
    for running in gone:
        freed.update(running.memory_on)
    touched = {name for running in gone for name in running.nodes}
    return replace(
        pool,
        nodes=tuple(_freed(node, devices, freed[node.name]) if node.name in touched else node for node in pool.nodes),
    )


def _freed(node: NodeView, devices: set[str], memory_bytes: int) -> NodeView:
    return replace(
        node,
        memory_held_bytes=max(0, node.memory_held_bytes - memory_bytes),
        devices=tuple(replace(device, free=True) if device.device_id in devices else device for device in node.devices),
    )


def _capacity(jobs: Sequence[JobView], pool: PoolView, now_s: float, *, sizes: _Sizes) -> Capacity:
    staying = [job.running.device_ids for job in jobs if job.running and not job.running.leaving]
    taken = frozenset(chain.from_iterable(staying))
    total: dict[DeviceKey, int] = {}
    node_sizes = []
    for node in pool.nodes:
        both, free = _usable(node, taken, now_s)
        _add(total, both)
        if node.takes_work:
            node_sizes.append(_size(node, _with_kept(node, both, taken, now_s) if node.is_kept else both, free))
    return Capacity(
        total=total,
        nodes=tuple(sorted(node_sizes, key=attrgetter("name"))),
        spans_nodes=pool.spans_nodes,
        asks_memory=sizes.ask_memory,
        asks_one_node=sizes.ask_one_node,
        pool=pool,
    )


def _usable(
    node: NodeView, taken: frozenset[str], now_s: float
) -> tuple[Mapping[DeviceKey, int], Mapping[DeviceKey, int]]:
    """(devices that may be planned with, those of them that nobody holds) of one node."""
    if node.device_ids <= taken:
        return node.counts, {}
    if node.takes_work and node.all_free and not node.is_kept and node.device_ids.isdisjoint(taken):
        return node.counts, node.counts
    free = _counted(
        device
        for device in (node.devices if node.takes_work else ())
        if device.free and device.device_id not in taken and device.keeper(now_s) != ""
    )
    both = _counted(device for device in node.devices if device.device_id in taken)
    _add(both, free)
    return both, free


def _with_kept(
    node: NodeView, both: Mapping[DeviceKey, int], taken: frozenset[str], now_s: float
) -> Mapping[DeviceKey, int]:
    """And those that are kept from all jobs now: they come back when that ends, if it is known when."""
    free = (device for device in node.devices if device.free and device.device_id not in taken)
    found = _counted(device for device in free if device.keeper(now_s) == "" and not device.is_open_ended(now_s))
    _add(found, both)
    return found


def _size(node: NodeView, total: Mapping[DeviceKey, int], free: Mapping[DeviceKey, int]) -> NodeSize:
    free_bytes = max(0, node.memory_bytes - node.memory_held_bytes)
    return NodeSize(node.name, node.sandbox_level, node.memory_bytes, free_bytes, total, free, node.near)
