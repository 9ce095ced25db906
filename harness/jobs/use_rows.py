"""Hours, kWh and CO2 by device, job, person or project, as the person who asks may know them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, overload

import numpy as np

from harness.accounts.access import is_admin, visible_projects
from harness.accounts.models import User
from harness.jobs.idle import DeviceIdle, devices_idle
from harness.jobs.uses import Places, Sums, Uses, uses_read
from harness.jobs.windows import KWH_J, Window, basis_of
from harness.pool.models import DeviceKind

HIDDEN = "of other projects"
USE_COLUMNS = ("name", "job", "device hours", "kWh", "CO2 g", "basis")
IDLE_COLUMNS = ("idle hours", "idle kWh", "idle CO2 g", "idle basis", "kWh together", "CO2 g together")
"""Beside them by device: what it drew while nobody held it is no job's, person's or project's."""


@dataclass(kw_only=True, slots=True)
class UseRow:
    """What one device, job, person or project used; of a device what it drew idle stands apart."""

    name: str
    job_id: str = ""
    """Where the row is a job that still exists."""
    device_s: float = 0.0
    energy_j: float = 0.0
    basis: str = ""
    """Where most of the energy's figure comes from."""
    idle_s: float = 0.0
    """Of a device: how long it was there and nobody held it."""
    idle_bases: dict[str, float] = field(default_factory=dict)
    """Joules that it drew meanwhile, by what they rest on."""

    @property
    def device_hours(self) -> float:
        """Hours times devices."""
        return self.device_s / 3600

    @property
    def kwh(self) -> float:
        """Energy in kWh."""
        return self.energy_j / KWH_J

    @property
    def idle_hours(self) -> float:
        """Hours that it stood idle."""
        return self.idle_s / 3600

    @property
    def idle_j(self) -> float:
        """Energy that it drew meanwhile."""
        return sum(self.idle_bases.values())

    @property
    def idle_kwh(self) -> float:
        """Energy in kWh that it drew meanwhile."""
        return self.idle_j / KWH_J

    @property
    def idle_basis(self) -> str:
        """Where most of that figure comes from; empty where there is none."""
        return basis_of(self.idle_bases)

    def idle_add(self, idle_s: float, idle_j: float, basis: str) -> None:
        """So long it stood idle, and drew so much."""
        self.idle_s += idle_s
        self.idle_bases[basis] = self.idle_bases.get(basis, 0.0) + idle_j

    @property
    def together_kwh(self) -> float:
        """At work and idle."""
        return self.kwh + self.idle_kwh


class GroupKey(NamedTuple):
    """What a row stands for."""

    key: str
    name: str
    job_id: str


def _job_key(job_id: str | None, name: str, *_: object) -> GroupKey:
    return GroupKey(job_id or f"gone:{name}", name, job_id or "")


def _device_key(node: str, kind: str, index: int) -> GroupKey:
    name = device_name(node, kind, index)
    return GroupKey(name, name, "")


def _project_key(name: str, project_id: str | None, is_pools: str) -> GroupKey:
    """What a deleted project used stays, under the name it had."""
    if project_id or is_pools:
        return GroupKey(project_id or f"pool:{name}", name, "")
    return GroupKey(f"gone:{name}", f"{name} (deleted)", "")


_KEYS: Mapping[str, Callable[..., GroupKey]] = {
    "device": _device_key,
    "job": _job_key,
    "person": lambda name, *_: GroupKey(name, name, ""),
    "project": _project_key,
}
"""Of the fields of `GROUPS`."""


@dataclass(kw_only=True)
class Grouped:
    """Uses by what they belong to, as a person may know it."""

    uses: Uses
    keys: list[str]
    names: list[str]
    job_ids: list[str]
    """Columns of what `GroupKey` has: of tens of thousands of jobs, rows would take as long as all else."""
    of_piece: Places
    """Place among the keys."""

    def key(self, at: int) -> GroupKey:
        """What stands at that place."""
        return GroupKey(self.keys[at], self.names[at], self.job_ids[at])

    @cached_property
    def sums(self) -> Sums:
        """Of each key."""
        return self.uses.sums(self.of_piece, len(self.keys))

    @cached_property
    def ranked(self) -> list[int]:
        """Places of the keys with use, most energy first."""
        # Those that used the same stay in order of their names whatever the window, so that pages make up the whole.
        energy_j = np.round(self.sums.energy_j, 3).tolist()
        used = np.flatnonzero(self.sums.seconds > 0).tolist()
        for values in (self.job_ids, self.names):
            used.sort(key=values.__getitem__)
        used.sort(key=lambda at: -energy_j[at])
        return used


def use_grouped(user: User, uses: Uses) -> Grouped:
    """What belongs to projects the person does not see has one nameless key."""
    sees_all, seen = is_admin(user), set(visible_projects(user).values_list("pk", flat=True))
    numbers: dict[str, int] = {}
    names: list[str] = []
    job_ids: list[str] = []
    of_value: list[int] = []
    for value in uses.keys.values:
        hidden = not (uses.by == "device" or sees_all or value[-2] in seen or value[-1])
        key = GroupKey("", HIDDEN, "") if hidden else _KEYS[uses.by](*value)
        at = numbers.setdefault(key.key, len(numbers))
        of_value.append(at)
        if at == len(names):
            names.append(key.name)
            job_ids.append(key.job_id)
    of_piece = np.array(of_value, dtype=int)[uses.keys.of_piece]
    return Grouped(uses=uses, keys=[*numbers], names=names, job_ids=job_ids, of_piece=of_piece)


class RankedRows(Sequence[UseRow]):
    """A row of each key, most energy first; made when it is asked for, as a page shows few of many."""

    def __init__(self, grouped: Grouped) -> None:
        self._grouped, self._ranked, self._sums = grouped, grouped.ranked, grouped.sums

    def __len__(self) -> int:
        return len(self._ranked)

    @overload
    def __getitem__(self, index: int) -> UseRow: ...

    @overload
    def __getitem__(self, index: slice) -> list[UseRow]: ...

    def __getitem__(self, index: int | slice) -> UseRow | list[UseRow]:
        if isinstance(index, slice):
            return [self._row(at) for at in self._ranked[index]]
        return self._row(self._ranked[index])

    def _row(self, at: int) -> UseRow:
        key, sums = self._grouped.key(at), self._sums
        return UseRow(
            name=key.name,
            job_id=key.job_id,
            device_s=float(sums.seconds[at]),
            energy_j=sums.energy_j[at],
            basis=sums.basis[at],
        )


def use_rows(*, user: User, window: Window, by: str) -> Sequence[UseRow]:
    """Use by device, job, person or project, most energy first; of devices what they drew idle, too.

    What belongs to projects the person does not see is one nameless row. Raises `Invalid`.
    """
    uses = uses_read(window, by)
    return rows_of(use_grouped(user, uses), devices_idle(uses) if by == "device" else ())


def rows_of(grouped: Grouped, idle: Sequence[DeviceIdle]) -> Sequence[UseRow]:
    """The same. `idle`: to stand beside rows of devices."""
    return _with_idle(RankedRows(grouped), idle) if idle else RankedRows(grouped)


def _with_idle(rows: Sequence[UseRow], idle: Sequence[DeviceIdle]) -> list[UseRow]:
    """The same rows with what devices drew idle, and those of devices that did nothing else."""
    found = {row.name: row for row in rows}
    for one in idle:
        idle_s = float(one.idle_s.sum())
        if idle_s > 0:
            name = idle_name(one)
            row = found.setdefault(name, UseRow(name=name))
            row.idle_add(idle_s, float(one.idle_j.sum()), one.basis)
    return sorted(found.values(), key=lambda row: (-round(row.energy_j + row.idle_j, 3), row.name))


def device_name(node: str, kind: str, index: int) -> str:
    """What a device is called here."""
    return f"{node} {'GPU' if kind == DeviceKind.CUDA else 'CPU'} {index}"


def idle_name(idle: DeviceIdle) -> str:
    """The same of one of today's pool."""
    return device_name(idle.device.node.name, idle.device.kind, idle.device.index)


def use_columns(by: str) -> tuple[str, ...]:
    """Names of the cells of a row."""
    return (*USE_COLUMNS, *IDLE_COLUMNS) if by == "device" else USE_COLUMNS


def use_cells(row: UseRow, by: str, co2_g_per_kwh: float) -> tuple[str | float, ...]:
    """A row of `use_columns`."""
    used = (row.name, row.job_id, row.device_hours, row.kwh, row.kwh * co2_g_per_kwh, row.basis)
    return (*used, *idle_cells(row, co2_g_per_kwh)) if by == "device" else used


def idle_cells(row: UseRow, co2_g_per_kwh: float) -> tuple[str | float, ...]:
    """A row of `IDLE_COLUMNS`."""
    idle = (row.idle_hours, row.idle_kwh, row.idle_kwh * co2_g_per_kwh, row.idle_basis)
    return (*idle, row.together_kwh, row.together_kwh * co2_g_per_kwh)
