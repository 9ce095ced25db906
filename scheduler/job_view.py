"""A job as the scheduler sees it: the ways to run it, what is left of it, where it runs. Part of `scheduler.types`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import repeat

from codegen.modes import ONE_PROCESS
from scheduler.data_way import HERE, DataWay, Travel
from scheduler.kinds import Parts, checked_parts

SPAN_LEVEL = 2
"""Sandbox level that a run on several nodes reaches at most where it shares the network of its hosts."""
DeviceKey = tuple[str, str]
"""(kind, model name) of a device."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """One way to run a job: a gang of like devices, or of a mixture of models."""

    kind: str
    """`cpu` or `cuda`."""
    count: int
    """Devices of the gang: all or none."""
    model_name: str = ""
    """Kind of device as its maker names it; empty: any of `kind`."""
    mode: str = ""
    """`single`, `sync` ...; empty: the default for `count`."""
    rate_per_s: float = 0.0
    """Share of the whole run done per second, 1 / run_s by the middle of the estimate; 0: no estimate."""
    power_w: float = 0.0
    """All devices of the gang while it runs."""
    memory_bytes: int = 0
    """Memory of the hosts for the whole gang, of each by its devices; 0: the share that goes with the devices."""
    parts: Parts = ()
    """Of a mixture: (model, devices) each, and `model_name` is the name of the mixture."""
    slowdown: float = 0.0
    """Upper end over middle of this way's run time, >= 1; 0: that of the job."""
    start_s: float = 0.0
    """Of the run, until its first step: its imports, and its data read; paid again after a pause. 0: not known."""
    stages: int = 0
    """Into which each pipeline cuts the model; 0: as the program says, or none does."""

    def __post_init__(self) -> None:
        """Refuse a gang of nothing, and rates that are no rates."""
        if self.count < 1:
            raise ValueError(f"an option asks for {self.count} devices")
        if not (math.isfinite(self.rate_per_s) and self.rate_per_s >= 0):
            raise ValueError(f"a job does not progress by {self.rate_per_s} per second")
        if not (math.isfinite(self.power_w) and self.power_w >= 0) or self.memory_bytes < 0:
            raise ValueError(f"not a power or memory: {self.power_w} W, {self.memory_bytes} bytes")
        if self.slowdown and not 1 <= self.slowdown < math.inf:
            raise ValueError(f"an option has a slowdown of {self.slowdown}")
        if not 0 <= self.start_s < math.inf:
            raise ValueError(f"an option starts in {self.start_s} s")
        object.__setattr__(self, "parts", checked_parts(self.parts, self.count) if self.parts else ())

    @property
    def key(self) -> DeviceKey:
        """Kind and model."""
        return (self.kind, self.model_name)

    @property
    def by_model(self) -> Parts:
        """(model, devices) of each, whether it is a mixture or not."""
        return self.parts or ((self.model_name, self.count),)

    def may_span(self, minimum_sandbox_level: int, span_level: int) -> bool:
        """Whether its devices may lie on several nodes: it has a process for each, and needs no strict isolation."""
        return self.mode not in ONE_PROCESS and minimum_sandbox_level <= span_level

    def takes(self, model_name: str) -> bool:
        """Whether devices of this model may be part of the gang."""
        if self.parts:
            return any(name == model_name for name, _ in self.parts)
        return self.model_name in {"", model_name}

    def devices_in(self, memory_bytes: int) -> int:
        """Devices of the gang for whose part of its memory so much of one node is enough."""
        return memory_bytes * self.count // self.memory_bytes if self.memory_bytes else self.count

    def part_options(self) -> tuple[Option, ...]:
        """Of a mixture: each part as an option of its own, with its share of the memory."""
        found = []
        for name, count in self.parts:
            share = -(-self.memory_bytes * count // self.count)
            found.append(replace(self, model_name=name, count=count, parts=(), memory_bytes=share))
        return tuple(found)

    @property
    def run_s(self) -> float:
        """Middle of the estimated time of the whole run; infinite without an estimate."""
        return 1.0 / self.rate_per_s if self.rate_per_s else math.inf


def memory_by_node(memory_bytes: int, counts: Mapping[str, int]) -> dict[str, int]:
    """Node -> its part of the memory of a gang that has so many devices there; nothing where none is asked for."""
    if not memory_bytes:
        return {}
    total = sum(counts.values())
    return {node: -(-memory_bytes * count // total) for node, count in counts.items()}


@dataclass(frozen=True, kw_only=True)
class Running:
    """Where a job runs now."""

    option: Option
    nodes: tuple[str, ...]
    device_ids: tuple[str, ...]
    """In rank order."""
    started_s: float
    """Start of this stretch: since when it holds devices without a pause."""
    last_change_s: float
    """When it last started, grew or shrank; `JobView.work_left` is as of now."""
    leaving: bool = False
    """It was told to pause (or ends) and gives its devices back soon: they may be planned for others, who start once
    it has left. The job itself is planned like a queued one."""
    counts: tuple[int, ...] = ()
    """Devices on each of the nodes; empty: on all of them as many."""

    @property
    def memory_on(self) -> Mapping[str, int]:
        """Node -> bytes of its memory that were asked for; empty where none was."""
        if not self.option.memory_bytes:
            return {}
        return memory_by_node(self.option.memory_bytes, dict(zip(self.nodes, self.counts or repeat(1), strict=False)))


@dataclass(frozen=True, kw_only=True)
class JobView:
    """One job at one moment: queued, running or leaving."""

    job_id: str
    options: tuple[Option, ...]
    """In order of preference; one option is a fixed wish."""
    submitted_s: float
    """When it was first queued; a pause keeps it."""
    project: str = ""
    priority: int = 0
    """Higher goes first."""
    rank: int = 0
    """An admin's own order among jobs of one priority: lower goes first."""
    work_left: float = 1.0
    """Share of the whole run that is still to do, now: 1 = all of it."""
    deadline_s: float | None = None
    promised: bool = False
    """Admitted with its deadline: the promise is kept before anything else."""
    promised_s: float | None = None
    """When that was; None: at its submission."""
    running: Running | None = None
    minimum_sandbox_level: int = 0
    slowdown: float = 1.0
    """Upper end over middle of the estimated run time, >= 1, of options that tell none of their own."""
    can_pause: bool = False
    """It goes on from a checkpoint, so that it may be paused or get other devices: while it holds devices, now; else
    once it runs."""
    avoid: Mapping[str, int] = field(default_factory=dict)
    """Node -> how often it was lost there without getting on. It starts elsewhere where it can, and waits for no other
    node: how it runs is chosen as ever, and this says only where."""
    data_on: frozenset[str] = frozenset()
    """Nodes that have its data already: of places that are equally good they go first. Empty: it makes no difference,
    or nobody knows."""
    data: DataWay | None = None
    """The way of its data to nodes that do not have them; None: they are everywhere, or there in no time."""
    bringing: Travel = HERE
    """Of a job that has its devices: what is left of bringing its data to them, before it begins."""

    def __post_init__(self) -> None:
        """Refuse what no policy could plan with."""
        if not self.options:
            raise ValueError(f"job {self.job_id} has no option")
        if not math.isfinite(self.submitted_s):
            raise ValueError(f"job {self.job_id} was submitted at {self.submitted_s}")
        if not 0 <= self.work_left <= 1:
            raise ValueError(f"job {self.job_id} has {self.work_left} of its run left")
        if not self.slowdown >= 1:
            raise ValueError(f"job {self.job_id} has a slowdown of {self.slowdown}")
        if not 0 <= self.bringing.mid_s <= self.bringing.high_s < math.inf:
            raise ValueError(f"job {self.job_id} waits for its data: {self.bringing}")

    @property
    def is_running(self) -> bool:
        """Whether it holds devices and continues."""
        return self.running is not None and not self.running.leaving

    @property
    def has_begun(self) -> bool:
        """Whether it has run, so that a start comes on top of what is left of it."""
        return self.running is not None or self.work_left < 1

    @property
    def counts_from_s(self) -> float:
        """When its promise was given, if it has one."""
        return self.submitted_s if self.promised_s is None else self.promised_s

    def left_s(self, option: Option) -> float:
        """Middle of the time that the rest of the run takes on the option, once its data are there where it does not
        have its devices yet; infinite without an estimate."""
        return self.work_left * option.run_s + self.bringing.mid_s if self.work_left else 0.0

    def left_high_s(self, option: Option) -> float:
        """Upper end of `left_s`: that of the way of its data and that of the run, as in `Slot.end_s`."""
        if not self.work_left:
            return 0.0
        return self.work_left * option.run_s * (option.slowdown or self.slowdown) + self.bringing.high_s

    def slowdown_at(self, run_s: float) -> float:
        """Upper end over middle where that is the middle of the rest, without what brings its data: plans tell times,
        and these tell the option."""
        told = [option for option in self.options if option.rate_per_s]
        option = min(told, key=lambda option: abs(self.work_left * option.run_s - run_s), default=None)
        return (option.slowdown if option else 0.0) or self.slowdown
