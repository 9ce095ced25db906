"""What overdue jobs wait for: `deadline_energy` promises it to nobody else, and spares it where it can."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from scheduler.kinds import Parts
from scheduler.policies.gang_sites import GangSites
from scheduler.types import DeviceKey, JobView, Option


class Wanted:
    """Devices that some jobs could use."""

    def __init__(self, options: Iterable[Option] = ()) -> None:
        """Those of these options."""
        self._options: dict[tuple[DeviceKey, Parts], Option] = {}
        for option in options:
            self.add(option)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._options)

    def add(self, option: Option) -> None:
        """Its devices, too."""
        self._options.setdefault((option.key, option.parts), option)

    def meet(self, option: Option) -> bool:
        """Whether the option may need one of them."""
        return bool(self._options) and any(_share_devices(option, other) for other in self._options.values())


@dataclass
class Bars:
    """What is promised to nobody in one pass. A promise is planned before overdue jobs at every later decision, so it
    must not need what one of them waits for; all else may be promised."""

    _devices: Wanted = field(default_factory=Wanted)
    _quotas: set[tuple[str, str]] = field(default_factory=set)
    """(project, kind) of overdue jobs that wait for the quota of their project: others' promises take nothing of it."""
    _busy: set[tuple[DeviceKey, Parts, int, int]] = field(default_factory=set)
    """(devices, count, sandbox level) of which not enough are free, whatever the memory."""
    _memory: bool = False
    """An overdue job waits for memory of hosts, which any kind of devices may take from it."""

    def add(self, job: JobView, seconds: Iterable[tuple[Option, float]], sites: GangSites) -> None:
        """An overdue job that cannot start now, and is not planned yet; `seconds`: what each option takes."""
        for option, run_s in seconds:
            if not sites.quotas.fit(job, option):
                continue
            tokens = sites.quotas.binding(job, option, borrow=False)
            if tokens is not None and tokens.earliest(option.count, run_s, sites.now_s, sites.now_s) > sites.now_s:
                self._quotas.add((job.project, option.kind))
            elif self._waits_for_memory(job, option, run_s, sites):
                self._memory = True
            else:
                self._devices.add(option)

    def _waits_for_memory(self, job: JobView, option: Option, run_s: float, sites: GangSites) -> bool:
        wish = (option.key, option.parts, option.count, job.minimum_sandbox_level)
        if not option.memory_bytes or wish in self._busy:
            return False
        if sites.find(job, replace(option, memory_bytes=0), run_s, sites.now_s):
            return True
        self._busy.add(wish)
        return False

    def allow(self, job: JobView, option: Option) -> bool:
        """Whether the overdue ones get what they wait for if the job is promised a finish in this way."""
        return not (
            (self._memory and option.memory_bytes)
            or (job.project, option.kind) in self._quotas
            or self._devices.meet(option)
        )


def _share_devices(one: Option, other: Option) -> bool:
    """Whether there may be devices that both could use."""
    return one.kind == other.kind and (
        any(other.takes(name) for name, _ in one.by_model) or any(one.takes(name) for name, _ in other.by_model)
    )
