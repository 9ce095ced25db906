"""Which nodes and devices: a plan's gangs become placements and changes.

Where a gang starts says `gang_search`. Running jobs keep their devices; one that shrinks keeps those of its fullest
nodes; one that grows stays where it is if it can. A gang that finds no place waits, and nothing is started instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from scheduler.placing.free_devices import FreeDevices, Pick
from scheduler.placing.gang_search import GangSearch
from scheduler.types import (
    Change,
    ChangeKind,
    DeviceView,
    JobView,
    NodeView,
    Option,
    Placement,
    Plan,
    PoolView,
    Running,
)

_Own = tuple[str, DeviceView]
"""(node, device) that a running job holds."""
_PAUSED = "It makes room for jobs ahead of it."


@dataclass
class Assignment:
    """What a plan comes to."""

    placements: list[Placement] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    """Jobs that go on, resized ones included."""
    unplaced: list[str] = field(default_factory=list)
    """Jobs that the plan would start and that find no place."""


def same_gang(left: Option, right: Option) -> bool:
    """Whether going from one to the other changes nothing: an open model or mode fits any."""
    return (
        (left.kind, left.count) == (right.kind, right.count)
        and (left.model_name == right.model_name or not (left.model_name and right.model_name))
        and (left.mode == right.mode or not (left.mode and right.mode))
    )


def assign(
    jobs: Sequence[JobView], pool: PoolView, plan: Plan, now_s: float, *, limited: Collection[str] = ()
) -> Assignment:
    """Find devices for everything that the plan allots; who would be paused for nobody goes on for now.

    `limited`: projects with a quota.
    """
    goers = {job.job_id for job in jobs if job.job_id not in plan.allotments and job.is_running}
    paused = goers - plan.moves
    found = _Assigner(jobs, pool, plan, now_s, paused).run()
    if plan.moves and found.unplaced:
        # Whom a policy plans on other devices leaves his where these, and no others, are needed.
        needed = {plan.hints.get(job_id, "") for job_id in found.unplaced}
        movers = [job for job in jobs if job.running and job.job_id in plan.moves]
        near = [job for job in movers if job.running and not needed.isdisjoint(job.running.nodes)]
        paused |= {job.job_id for job in (movers if pool.spans_nodes else near)}
        found = _Assigner(jobs, pool, plan, now_s, paused).run()
    if not paused:
        return found
    by_id = {job.job_id: job for job in jobs}
    projects = _limited_that_get(found, by_id, limited)
    if idle := _idle(found, plan, by_id, projects, paused):
        # Nobody is paused for a job that cannot start even so, nor long before somebody needs the devices.
        found = _Assigner(jobs, pool, plan, now_s, paused - idle).run()
    found.changes = [_with_room(change, found, plan, by_id, projects) for change in found.changes]
    return found


def _limited_that_get(found: Assignment, by_id: Mapping[str, JobView], limited: Collection[str]) -> set[str]:
    """Projects with a quota of which some job gets devices."""
    getting = [start.job_id for start in found.placements] + [move.job_id for move in found.changes if move.option]
    return {by_id[job_id].project for job_id in getting}.intersection(limited)


def _idle(
    found: Assignment, plan: Plan, by_id: Mapping[str, JobView], projects: Collection[str], paused: Collection[str]
) -> set[str]:
    """Whose devices nobody would get."""
    unplaced = set(found.unplaced)
    used = {name for placement in found.placements for name in placement.waits_for}
    used |= {name for change in found.changes for name in change.waits_for}
    # What was given up for a job that cannot start even so is not for whoever comes next: he would give it back.
    used -= {name for name in used if plan.room_for.get(name) in unplaced}
    # Who makes room within the quota of his own project need not give devices to anybody.
    return {name for name in paused if name not in used and by_id[name].project not in projects}


def _with_room(
    change: Change, found: Assignment, plan: Plan, by_id: Mapping[str, JobView], projects: Collection[str]
) -> Change:
    """A pause with whom it is for, and why he goes first, where the policy could not tell who gets the devices."""
    if change.kind is not ChangeKind.PAUSE or change.room_for or plan.why_room is None or change.job_id in plan.moves:
        return change
    project = by_id[change.job_id].project
    starts = [start.job_id for start in found.placements if change.job_id in start.waits_for]
    takers = starts + [move.job_id for move in found.changes if change.job_id in move.waits_for]
    if not takers and project in projects:
        starts = takers = [start.job_id for start in found.placements if by_id[start.job_id].project == project]
    if not takers:
        return change
    return replace(
        change,
        reason=plan.why_room(change.job_id, takers[0]),
        room_for=starts[0] if len(takers) == 1 and starts else "",
    )


class _Assigner:
    def __init__(
        self, jobs: Sequence[JobView], pool: PoolView, plan: Plan, now_s: float, paused: Collection[str]
    ) -> None:
        self._jobs = {job.job_id: job for job in jobs}
        self._plan = plan
        self._paused = paused
        self._nodes = {node.name: node for node in pool.nodes}
        self._out = Assignment()
        held: dict[str, str] = {}
        leaving: dict[str, str] = {}
        goers = [job for job in jobs if job.running and (job.running.leaving or job.job_id in paused)]
        names = {job.job_id for job in goers}
        for job in jobs:
            if job.running:
                (leaving if job.job_id in names else held).update(dict.fromkeys(job.running.device_ids, job.job_id))
        self._free = FreeDevices(pool, now_s, held, leaving)
        self._search = GangSearch(pool, self._free)
        for job in goers:
            self._free.memory.comes(job)

    def run(self) -> Assignment:
        """Pauses, then running jobs that shrink, those that grow, those that start."""
        resized = []
        for job in self._jobs.values():
            if job.running is None or job.running.leaving:
                continue
            if job.job_id in self._paused:
                reason = self._plan.reasons.get(job.job_id, _PAUSED)
                room_for = self._plan.room_for.get(job.job_id, "")
                pause = Change(job_id=job.job_id, kind=ChangeKind.PAUSE, reason=reason, room_for=room_for)
                self._out.changes.append(pause)
                continue
            self._out.running.append(job.job_id)
            option = self._plan.allotments.get(job.job_id)
            if option is not None and not same_gang(option, job.running.option):
                resized.append((not _shrinks(job.running.option, option), job, job.running, option))
        for _, job, running, option in sorted(resized, key=lambda item: item[0]):
            self._resize(job, running, option)
        for job_id, option in self._plan.allotments.items():
            job = self._jobs[job_id]
            if job.running is None or job.running.leaving:
                self._start(job, option)
        return self._out

    def _start(self, job: JobView, option: Option) -> None:
        hint, planned = self._plan.hints.get(job.job_id, ""), self._plan.nodes.get(job.job_id, {})
        picks = self._search.planned(job, option, planned) or self._search.start(job, option, hint)
        if picks is None:
            self._out.unplaced.append(job.job_id)
            return
        self._free.take(picks, option)
        nodes, devices, waits_for = _flat(picks)
        self._out.placements.append(Placement(job.job_id, nodes[0], devices, option, nodes, waits_for))

    def _resize(self, job: JobView, running: Running, option: Option) -> None:
        """Other devices for a running job; where they cannot be had it stays as it is."""
        own = _own_devices(running, self._nodes)
        if _shrinks(running.option, option):
            shrunk = self._shrunk(job, own, option)
            if shrunk is None:
                return
            picks = shrunk
        else:
            self._free.give_back(job.job_id, own)
            self._free.memory.own(job, 1)
            found = self._search.gang(job, option, running.nodes, running.device_ids)
            if found is None:
                self._free.take_back(own)
                self._free.memory.own(job, -1)
                return
            self._free.take(found, option)
            self._free.memory.moves(job, option, {pick.node: len(pick.devices) for pick in found})
            picks = found
        nodes, devices, waits_for = _flat(picks)
        reason = self._plan.reasons.get(job.job_id)
        if reason is None:
            reason = f"It continues with {option.count} instead of {running.option.count} devices."
        self._out.changes.append(
            Change(
                job_id=job.job_id,
                kind=ChangeKind.RESIZE,
                reason=reason,
                option=option,
                node=nodes[0],
                nodes=nodes,
                device_ids=devices,
                waits_for=waits_for,
            )
        )

    def _shrunk(self, job: JobView, own: list[_Own], option: Option) -> list[Pick] | None:
        """Keep the devices on the nodes where it has most of them; None where these lack memory for what it asks."""
        order: Sequence[int] = range(len(own))
        if len({node for node, _ in own}) > 1:
            on_node = Counter(node for node, _ in own)
            order = sorted(order, key=lambda number: (-on_node[own[number][0]], own[number][0], number))
        stays = self._within_memory(job, own, order, option)
        if len(stays) < min(option.count, len(own)):
            return None
        self._free.give_back(job.job_id, [own[number] for number in order if number not in stays])
        picks: dict[str, list[DeviceView]] = {}
        for node, device in (own[number] for number in sorted(stays)):
            picks.setdefault(node, []).append(device)
        self._free.memory.shrinks(job, option, {node: len(devices) for node, devices in picks.items()})
        return [Pick(node, tuple(devices), frozenset()) for node, devices in picks.items()]

    def _within_memory(self, job: JobView, own: list[_Own], order: Sequence[int], option: Option) -> set[int]:
        """Of a job that shrinks the devices that it keeps, the first in `order`: on each node no more than the memory
        there is enough for."""
        if not option.memory_bytes:
            return set(order[: option.count])
        most = {node: option.devices_in(self._free.memory.room_bytes(job, node)) for node, _ in own}
        stays: set[int] = set()
        for number in order:
            node = own[number][0]
            if most[node] > 0 and len(stays) < option.count:
                most[node] -= 1
                stays.add(number)
        return stays


def _shrinks(before: Option, after: Option) -> bool:
    """Whether the gang becomes a part of itself."""
    return after.count < before.count and after.kind == before.kind and after.model_name in {"", before.model_name}


def _own_devices(running: Running, nodes: Mapping[str, NodeView]) -> list[_Own]:
    """(node, device) in rank order."""
    names = [name for name in running.nodes if name in nodes]
    found = {device.device_id: (name, device) for name in names for device in nodes[name].devices}
    return [found[device_id] for device_id in running.device_ids if device_id in found]


def _flat(picks: Sequence[Pick]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """(nodes, devices in rank order, jobs that must leave first)."""
    if len(picks) == 1:
        node, devices, waits_for = picks[0]
        waited_for = tuple(sorted(waits_for)) if waits_for else ()
        return (node,), tuple([device.device_id for device in devices]), waited_for
    owners: frozenset[str] = frozenset().union(*[pick.waits_for for pick in picks])
    return (
        tuple([pick.node for pick in picks]),
        tuple([device.device_id for pick in picks for device in pick.devices]),
        tuple(sorted(owners)),
    )
