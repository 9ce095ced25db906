"""Values that the scheduler takes and gives: jobs, pool, quotas, plan, decision. Frozen, no clock, no I/O.

Times are unix seconds (`_s`), memory is bytes, power is watts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from scheduler.data_way import Travel
from scheduler.job_view import DeviceKey as DeviceKey
from scheduler.job_view import JobView as JobView
from scheduler.job_view import Option as Option
from scheduler.job_view import Running as Running
from scheduler.pool_view import DeviceView as DeviceView
from scheduler.pool_view import NodeView as NodeView
from scheduler.pool_view import PoolView as PoolView
from scheduler.pool_view import Reserved as Reserved


class WaitCode(StrEnum):
    """Why a job waits."""

    NO_NODES = "no_nodes"
    """No node takes work at all."""
    NO_SUCH_DEVICE = "no_such_device"
    """No node that takes work has this kind of device."""
    TOO_MANY_DEVICES = "too_many_devices"
    """No node that takes work has so many of them."""
    NOT_ENOUGH_MEMORY = "not_enough_memory"
    """No node that takes work has so much memory."""
    SANDBOX_TOO_WEAK = "sandbox_too_weak"
    """The nodes that would fit cannot shut this program in well enough."""
    DEVICES_BUSY = "devices_busy"
    """It would fit, once jobs end."""
    MEMORY_BUSY = "memory_busy"
    """It would fit, once jobs give memory back."""
    BEHIND = "behind"
    """Devices are free, but kept for a job before it."""
    RESERVED = "reserved"
    """An admin keeps the devices for something else."""
    QUOTA_USED = "quota_used"
    """Its project holds all that its quota allows."""
    QUOTA_TOO_SMALL = "quota_too_small"
    """It asks for more than its project may ever hold."""
    PAUSED = "paused"
    """It ran and made room for another job; its place in the queue is kept."""
    LATER = "later"
    """It could start now; the plan starts it later, in time for its deadline."""


@dataclass(frozen=True, kw_only=True)
class WaitReason:
    """Why a job waits, and what would let it start now, in words."""

    code: WaitCode
    text: str
    """One or more whole sentences."""
    remedy: str = ""
    """A whole sentence: what would let it start now."""
    position: int = 0
    """Place in the queue, from 1, behind placements that still wait for devices; 0: not known yet (`place` fills it
    in)."""
    holders: tuple[str, ...] = ()
    """Jobs that hold what it waits for, those that are expected to end first first."""
    kept_until_s: float = 0.0
    """Until when an admin keeps some of what it waits for; infinite where nobody knows, 0 where nothing is kept."""

    @property
    def words(self) -> str:
        """All as one text, jobs by their ids."""
        return self.told(lambda job_id: f"job {job_id}")

    def told(self, name_of: Callable[[str], str]) -> str:
        """All as one text; `name_of` says what a reader may know a job by. Each name is told once."""
        names = list(dict.fromkeys(name_of(job_id) for job_id in self.holders))
        last = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)
        return " ".join(filter(None, (self.text, self.remedy, f"Expected to end first: {last}." if last else "")))


@dataclass(frozen=True, kw_only=True)
class Quota:
    """What a project may hold at once."""

    devices: Mapping[str, int]
    """Kind -> devices; a kind that is left out has no limit."""
    hard: frozenset[str] = frozenset()
    """Kinds that are never borrowed: of all others more may be used while no other project wants them."""
    name: str = ""
    """Of the project, for words."""

    def limit(self, kind: str) -> int | None:
        """Devices of the kind without borrowing; None: no limit."""
        return self.devices.get(kind)

    def borrows(self, kind: str) -> bool:
        """Whether more than `limit` may be held for a while."""
        return kind not in self.hard


Quotas = Mapping[str, Quota]
"""By project; a project that is left out has no limit."""


def ever_allowed(project: str, option: Option, quotas: Quotas) -> bool:
    """Whether the project may ever hold so many devices, borrowed ones included."""
    quota = quotas.get(project)
    limit = quota.limit(option.kind) if quota else None
    return quota is None or limit is None or option.count <= limit or quota.borrows(option.kind)


class NodeSize(NamedTuple):
    """What a policy knows of a node."""

    name: str
    sandbox_level: int
    memory_bytes: int
    memory_free_bytes: int
    """Not asked for by any running job."""
    total: Mapping[DeviceKey, int]
    """Devices that may be used, free or held by a running job, or once they are surely no longer kept from all."""
    free: Mapping[DeviceKey, int]
    near: str = ""


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """What may be planned with: devices of nodes that take work, without those that no job may use now.

    One that is kept for a project is there for its jobs alone: see `pool`.
    """

    total: Mapping[DeviceKey, int]
    """Free, or held by a job that is shown to the policy as running."""
    nodes: tuple[NodeSize, ...] = ()
    spans_nodes: bool = False
    asks_memory: bool = True
    """Whether any job asks for memory, one that is only to be admitted included; else nobody looks at it."""
    asks_one_node: bool = True
    """Whether any job asks for several devices that may not lie on several nodes, one that is only to be admitted
    included."""
    pool: PoolView = field(default_factory=PoolView)
    """For policies that look at single devices (reservations)."""

    def devices(self, option: Option) -> int:
        """How many devices of the option's kind (and model, where it names one) there are."""
        return count_of(self.total, option)

    def widest(self, option: Option) -> int:
        """Most devices of the option's kind and model that one gang can have."""
        if self.spans_nodes:
            return self.devices(option)
        return max((count_of(node.total, option) for node in self.nodes), default=0)


def count_of(devices: Mapping[DeviceKey, int], option: Option) -> int:
    """Devices of the option's kind, and model where it names one; of a mixture no more of each than it has."""
    if option.parts:
        return sum(min(count, devices.get((option.kind, name), 0)) for name, count in option.parts)
    if option.model_name:
        return devices.get(option.key, 0)
    return sum(count for (kind, _), count in devices.items() if kind == option.kind)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a policy wants, by job id. Iteration order is the policy's order of importance."""

    allotments: Mapping[str, Option]
    """What runs from now on: a running job that is missing is paused, one with another option is resized."""
    expected: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """(start_s by upper ends, finish_s by the middle of the job's own estimate), running jobs included."""
    data: Mapping[str, Travel] = field(default_factory=dict)
    """Job that does not have its devices yet -> of that, the way of its data."""
    waits: Mapping[str, WaitReason] = field(default_factory=dict)
    """Reasons that only the policy knows; `place` finds the others."""
    order: Sequence[str] = ()
    """Waiting jobs in the order they are served, for the place in the queue; missing ones come after."""
    hints: Mapping[str, str] = field(default_factory=dict)
    """Job id -> node that the policy counted on, now or later, or `level 2` for all nodes of that sandbox level
    together."""
    nodes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Where gangs span nodes: job that starts -> devices on each node, where the policy left others to later jobs."""
    moves: frozenset[str] = frozenset()
    """Jobs that are paused to go on with as many other devices, unless nobody needs just those that they hold."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why a running job is paused or resized, in words."""
    room_for: Mapping[str, str] = field(default_factory=dict)
    """Job that is paused -> the job that it makes room for, where it is one."""
    why_room: Callable[[str, str], str] | None = field(default=None, compare=False)
    """(job that is paused, job that has its devices then) -> why, a sentence; for who is not in `room_for`, as only
    `place` knows who gets them."""
    warnings: Mapping[str, str] = field(default_factory=dict)
    """Promised jobs whose slack shrinks, in words."""
    promised: frozenset[str] = frozenset()
    """Jobs with a deadline that are not promised yet and can be from now on."""


class Policy(Protocol):
    """By what rule jobs get devices: how many of which kind, not yet which ones."""

    @property
    def name(self) -> str:
        """As in `scheduler.policies.names()`."""
        ...

    def plan(self, jobs: Sequence[JobView], capacity: Capacity, now_s: float, quotas: Quotas) -> Plan:
        """Decide over all jobs at once. Jobs that cannot be changed have one option and `can_pause=False`."""
        ...


class Placement(NamedTuple):
    """A gang that starts: `device_ids` in rank order."""

    job_id: str
    node: str
    """Node of the first rank; the only one unless the pool spans nodes."""
    device_ids: tuple[str, ...]
    option: Option
    nodes: tuple[str, ...] = ()
    """All nodes, in rank order."""
    waits_for: tuple[str, ...] = ()
    """Jobs that still hold some of the devices: start once they have left."""


class ChangeKind(StrEnum):
    """What happens to a running job."""

    RESIZE = "resize"
    """It goes on from a checkpoint with other devices."""
    PAUSE = "pause"
    """It writes a checkpoint, gives its devices back and waits with its place kept."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """What happens to one running job, and why."""

    job_id: str
    kind: ChangeKind
    reason: str
    """A whole sentence."""
    option: Option | None = None
    """Of a resize."""
    node: str = ""
    nodes: tuple[str, ...] = ()
    device_ids: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()
    """Jobs that still hold some of the new devices."""
    room_for: str = ""
    """Job that it makes room for, where it is one."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What happens now: every job is in exactly one of `placements`, `running` and `waits`."""

    placements: tuple[Placement, ...]
    waits: Mapping[str, WaitReason]
    """By job id, paused jobs included."""
    running: tuple[str, ...] = ()
    """Jobs that go on, resized ones included."""
    changes: tuple[Change, ...] = ()
    expected: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Job id -> (start_s by upper ends, finish_s by the middle of its own estimate); missing: nobody can tell."""
    data: Mapping[str, Travel] = field(default_factory=dict)
    """See `Plan.data`."""
    warnings: Mapping[str, str] = field(default_factory=dict)
    promised: frozenset[str] = frozenset()
    """Jobs whose deadline can be promised from now on and was not yet: `JobView.promised` next time."""
    planned_on: Mapping[str, str] = field(default_factory=dict)
    """Waiting job -> node that it is planned on for later; missing: no single one, or nobody can tell."""


@dataclass(frozen=True, kw_only=True)
class Admission:
    """Whether the finish time that a person wishes can be promised."""

    accepted: bool
    finish_s: float | None
    """Expected finish if it is accepted."""
    earliest_finish_s: float | None
    """Earliest finish that can be kept; None: nobody can tell."""
    text: str
    earliest_told_s: float | None = None
    """The same as people are told it, where the wish is refused."""
    changes_that_would_help: tuple[str, ...] = ()
    chance: float | None = None
    """Of what is refused: probability that it is on time all the same; None: nobody can tell."""
