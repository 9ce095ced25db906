"""Quotas of a replay: given one by one over those that a history carries, and held against the trace's projects."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scheduler.simulate.trace_rows import TraceError
from scheduler.simulate.traces import Trace
from scheduler.types import Quota, Quotas

KINDS = ("cpu", "cuda")
NEVER = "no-borrow"
MOST = 10**6
_NAMED_AT_MOST = 10
_HOW = f"write PROJECT=DEVICES, PROJECT:KIND=DEVICES, DEVICES,{NEVER} for a quota that is never exceeded, or none"


@dataclass(frozen=True, kw_only=True)
class Limit:
    """What a project may hold of a kind."""

    project: str
    kind: str
    """Empty: of the only kind that the pool has."""
    devices: int | None
    """None: no limit, whatever a history says."""
    borrows: bool = True
    where: str = ""
    """Where it is said, for errors."""

    @property
    def words(self) -> str:
        """`red 4 cuda`."""
        return f"{self.project} {self.devices} {self.kind}{'' if self.borrows else ' without borrowing'}"


def limit_parse(text: str) -> Limit:
    """One as it is given: `vision=8`, `vision:cpu=16,no-borrow`, `vision=none`. Raises `ValueError`."""
    where = f"--quota {text}"
    name, sign, value = (part.strip() for part in text.rpartition("="))
    project, _, kind = name.rpartition(":") if name.endswith(tuple(f":{kind}" for kind in KINDS)) else (name, "", "")
    if not sign or not project.strip():
        raise ValueError(f"{where}: {_HOW}")
    count, _, word = (part.strip() for part in value.partition(","))
    if word not in ("", NEVER) or (word and count == "none"):
        raise ValueError(f"{where}: {word!r} is no word for a quota; {_HOW}")
    devices = None if count == "none" else _devices(count, where)
    return Limit(project=project.strip(), kind=kind, devices=devices, borrows=not word, where=where)


def limits_of(trace: Trace) -> list[Limit]:
    """Those that a history in JSON carries. Raises `TraceError` that names entry and field."""
    rows = trace.extras.get("quotas") or []
    if not isinstance(rows, list):
        raise TraceError(f"{trace.name}, quotas: expected a list")
    found: dict[tuple[str, str], Limit] = {}
    for number, row in enumerate(rows, start=1):
        limit = _kept(row, f"{trace.name}, quota {number}")
        if (limit.project, limit.kind) in found:
            raise TraceError(f"{limit.where}: {limit.project} has two quotas of {limit.kind}")
        found[limit.project, limit.kind] = limit
    return list(found.values())


def _kept(row: Any, where: str) -> Limit:
    if not isinstance(row, Mapping):
        raise TraceError(f"{where}: expected an object")
    for field in ("project", "device_kind", "devices"):
        if row.get(field) in (None, ""):
            raise TraceError(f"{where}, field {field}: nothing is there")
    if row["device_kind"] not in KINDS:
        raise TraceError(f"{where}, field device_kind: {row['device_kind']!r} is none of {', '.join(KINDS)}")
    borrows = row.get("may_borrow", True)
    if not isinstance(borrows, bool):
        raise TraceError(f"{where}, field may_borrow: {borrows!r} is neither true nor false")
    devices = _devices(str(row["devices"]), f"{where}, field devices")
    return Limit(project=str(row["project"]), kind=row["device_kind"], devices=devices, borrows=borrows, where=where)


def _devices(text: str, where: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(MOST))) or int(text) > MOST:
        raise TraceError(f"{where}: {text[:20]!r} is no number of devices, from 0 to {MOST:,}")
    return int(text)


def quotas_of(
    trace: Trace, kinds: Collection[str], given: Sequence[Limit], kept: Sequence[Limit]
) -> tuple[Quotas, list[str]]:
    """(by project: those given over those that the history carries; what is to be said of them, in sentences).

    `kinds`: what the pool has. Of the history's those without a job, or a device, in the replay are left out. Raises
    `ValueError` for one given that nothing in the replay can meet.
    """
    projects = {job.project for job in trace.jobs} - {""}
    found: dict[tuple[str, str], Limit] = {}
    for limit in given:
        _project_check(limit, trace, projects)
        kind = _kind(limit, kinds)
        if (limit.project, kind) in found:
            raise ValueError(f"{limit.where}: {limit.project} has two quotas of {kind}")
        found[limit.project, kind] = replace(limit, kind=kind)
    used = [limit for limit in kept if limit.project in projects and limit.kind in kinds]
    ours = len(found)
    for limit in used:
        found.setdefault((limit.project, limit.kind), limit)
    limits = [found[key] for key in sorted(found) if found[key].devices is not None]
    said = [f"Quotas: {', '.join(limit.words for limit in limits)}"] if limits else []
    if len(found) > ours:
        said[0] += f" ({_number(len(found) - ours)} of {trace.name}, as the pool had them when it was written)"
    if left := len(kept) - len(used):
        said.append(f"{_number(left)} of {trace.name} left out: the replay has no such project, or no such device")
    nameless = sum(not job.project for job in trace.jobs)
    if limits and nameless:
        said.append(f"{nameless:,} of {len(trace.jobs):,} jobs name no project: no quota binds them")
    return _by_project(limits), said


def _number(count: int) -> str:
    return f"{count} quota" if count == 1 else f"{count} quotas"


def _by_project(limits: Sequence[Limit]) -> Quotas:
    names = dict.fromkeys(limit.project for limit in limits)
    return {
        name: Quota(
            devices={limit.kind: limit.devices or 0 for limit in limits if limit.project == name},
            hard=frozenset(limit.kind for limit in limits if limit.project == name and not limit.borrows),
            name=name,
        )
        for name in names
    }


def _project_check(limit: Limit, trace: Trace, projects: Collection[str]) -> None:
    if not projects:
        lack = "nothing is there" if "project" in trace.columns else "there is no such column"
        raise ValueError(f"{trace.name}, column project: {lack}, so {limit.where} binds nobody")
    if limit.project not in projects:
        named = sorted(projects)
        more = f" and {len(named) - _NAMED_AT_MOST:,} more" if len(named) > _NAMED_AT_MOST else ""
        there = f"{', '.join(named[:_NAMED_AT_MOST])}{more}"
        raise ValueError(
            f"{limit.where}: no job of {trace.name} that is replayed is of the project {limit.project}; "
            f"they are of {there}"
        )


def _kind(limit: Limit, kinds: Collection[str]) -> str:
    if limit.kind and limit.kind not in kinds:
        raise ValueError(f"{limit.where}: the pool has no {limit.kind}")
    if not limit.kind and len(kinds) > 1:
        both = " or ".join(f"{limit.project}:{kind}" for kind in sorted(kinds))
        raise ValueError(f"{limit.where}: the pool has {' and '.join(sorted(kinds))}: write {both}")
    return limit.kind or next(iter(kinds))
