"""The pool of a replay: made of a spec such as `64x8:A100`, decided on by the scheduler's own `place`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from scheduler.estimation.estimate import worst
from scheduler.estimation.values import Basis
from scheduler.place import place
from scheduler.simulate.power import SHIPPED, Power, PowerTable
from scheduler.types import ChangeKind, DeviceView, JobView, NodeView, Option, Policy, PoolView, Quotas

_SPEC = re.compile(r"(?P<nodes>\d+)x(?P<each>\d+)(?::(?P<model>[^,:]+))?")
MOST_DEVICES = 100_000
NODE_BYTES = 2**40
DEFAULT_MODEL = "A100"


@dataclass(frozen=True, kw_only=True)
class Part:
    """Like nodes."""

    nodes: int
    each: int
    """Devices of a node."""
    kind: str = "cuda"
    model: str = DEFAULT_MODEL
    named: bool = False
    """Somebody named the model; else its devices stand for those that a job ran on."""
    table: PowerTable = SHIPPED

    @property
    def power(self) -> Power:
        """Of one device. Raises `ValueError`."""
        return self.table.power(self.kind, self.model, named=self.named)


@dataclass(frozen=True)
class Gang:
    """What a job holds."""

    option: Option
    nodes: tuple[str, ...]
    device_ids: tuple[str, ...]


@dataclass(frozen=True)
class Decided:
    """A decision as the engine needs it."""

    gangs: Mapping[str, Gang]
    """Who runs from now on."""
    promised: frozenset[str]


@dataclass
class SimPool:
    """Nodes of a replay. A gang may span nodes, as in the published simulators, unless that is switched off."""

    parts: Sequence[Part]
    spans_nodes: bool = True
    quotas: Quotas = field(default_factory=dict)
    view: PoolView = field(init=False)
    idle_by_basis: Mapping[Basis, float] = field(init=False, repr=False)
    """Power of the whole pool while nothing runs, by what it rests on."""
    _powers: Sequence[Power] = field(init=False, repr=False)
    """Of one device of each part."""
    _power_at: dict[str, Power] = field(init=False, repr=False)
    """Of one device, by node."""
    _unlike: frozenset[str] = field(init=False, repr=False)
    """Kinds of which there are several models: a gang whose option names none may get any of them."""

    def __post_init__(self) -> None:
        """Name nodes and devices."""
        if not self.parts or not 0 < self.devices <= MOST_DEVICES:
            raise ValueError(f"a pool of {self.devices} devices; from 1 to {MOST_DEVICES} can be replayed")
        nodes = tuple(
            _node(f"p{row}n{number:05d}", part) for row, part in enumerate(self.parts) for number in range(part.nodes)
        )
        self.view = PoolView(nodes=nodes, spans_nodes=self.spans_nodes)
        self._powers = [part.power for part in self.parts]
        idle: dict[Basis, float] = defaultdict(float)
        for part, power in zip(self.parts, self._powers, strict=True):
            idle[power.idle_basis] += part.nodes * part.each * power.idle_w
        self.idle_by_basis = idle
        each = [power for part, power in zip(self.parts, self._powers, strict=True) for _ in range(part.nodes)]
        self._power_at = {node.name: power for node, power in zip(nodes, each, strict=True)}
        models = {kind: {part.model for part in self.parts if part.kind == kind} for kind in ("cpu", "cuda")}
        self._unlike = frozenset(kind for kind, names in models.items() if len(names) > 1)

    def bound(self, *, quotas: Quotas, table: PowerTable) -> SimPool:
        """The same with quotas and watts. Raises `ValueError`."""
        return replace(self, parts=[replace(part, table=table) for part in self.parts], quotas=quotas)

    @staticmethod
    def parse(text: str, *, spans_nodes: bool = True) -> SimPool:
        """`NODESxDEVICES[:MODEL]`, several with commas; the model `cpu` means cores. Raises `ValueError`."""
        parts = []
        for piece in text.split(","):
            found = _SPEC.fullmatch(piece.strip())
            if found is None:
                raise ValueError(
                    f"{piece.strip()!r} is not a pool: write NODESxDEVICES, such as 64x8 or 2x8:V100,1x4:cpu"
                )
            model = found["model"] or DEFAULT_MODEL
            kind = "cpu" if model.lower() == "cpu" else "cuda"
            named = found["model"] is not None and kind != "cpu"
            nodes, each = int(found["nodes"]), int(found["each"])
            if not nodes * each:
                raise ValueError(f"{piece.strip()!r} of the pool has no devices: write at least 1 of each, such as 1x8")
            parts.append(Part(nodes=nodes, each=each, kind=kind, model=model, named=named))
        return SimPool(parts, spans_nodes=spans_nodes)

    @property
    def devices(self) -> int:
        """Of all kinds."""
        return sum(part.nodes * part.each for part in self.parts)

    @property
    def idle_w(self) -> float:
        """Power of the whole pool while nothing runs."""
        return sum(part.nodes * part.each * power.idle_w for part, power in zip(self.parts, self._powers, strict=True))

    def power(self, kind: str) -> Power:
        """Of one device of the kind, in the mean of those there are: what a plan counts before it knows which."""
        pairs = zip(self.parts, self._powers, strict=True)
        like = [(part.nodes * part.each, power) for part, power in pairs if part.kind == kind]
        count = sum(number for number, _ in like) or 1
        return Power(
            idle_w=sum(number * power.idle_w for number, power in like) / count,
            busy_w=sum(number * power.busy_w for number, power in like) / count,
        )

    def held_w(self, gang: Gang, *, told: bool) -> float:
        """What its devices draw. `told`: as its option says, else by the table where the option names no model."""
        option = gang.option
        if told or option.model_name or option.kind not in self._unlike:
            return option.power_w
        return sum(self._power_at[_node_of(device)].busy_w for device in gang.device_ids)

    def held_basis(self, gang: Gang, told: Basis | None) -> Basis:
        """What that rests on. `told`: what the trace's figure does, where it has one of the option."""
        if told is not None:
            return told
        if gang.option.kind not in self._unlike:
            return self._power_at[_node_of(gang.device_ids[0])].held_basis
        return worst(*(self._power_at[_node_of(device)].held_basis for device in gang.device_ids))

    def idle_held_w(self, gang: Gang) -> float:
        """What they would draw if nobody held them."""
        if gang.option.kind not in self._unlike:
            return gang.option.count * self._power_at[_node_of(gang.device_ids[0])].idle_w
        return sum(self._power_at[_node_of(device)].idle_w for device in gang.device_ids)

    def most(self, kind: str, model: str = "") -> int:
        """Most devices of the kind that one gang can have."""
        parts = [part for part in self.parts if part.kind == kind and model in {"", part.model}]
        if self.spans_nodes:
            return max((sum(p.nodes * p.each for p in parts if p.model == part.model) for part in parts), default=0)
        return max((part.each for part in parts), default=0)

    def decide(self, views: Sequence[JobView], now_s: float, policy: Policy) -> Decided:
        """Ask `place`. Who has to wait for devices of a job that leaves starts at once: the rules price the change."""
        decision = place(views, self.view, now_s, policy=policy, quotas=self.quotas)
        gangs = {
            view.job_id: Gang(view.running.option, view.running.nodes, view.running.device_ids)
            for view in views
            if view.running
        }
        for change in decision.changes:
            if change.kind is ChangeKind.PAUSE:
                gangs.pop(change.job_id, None)
            elif change.option:
                gangs[change.job_id] = Gang(change.option, change.nodes, change.device_ids)
        for start in decision.placements:
            gangs[start.job_id] = Gang(start.option, start.nodes, start.device_ids)
        return Decided(gangs, decision.promised)


def _node_of(device_id: str) -> str:
    """Of a device as `_node` names it."""
    return device_id.rpartition("d")[0]


def _node(name: str, part: Part) -> NodeView:
    devices = tuple(
        DeviceView(device_id=f"{name}d{index}", kind=part.kind, index=index, free=True, model_name=part.model)
        for index in range(part.each)
    )
    return NodeView(name=name, takes_work=True, sandbox_level=3, memory_bytes=NODE_BYTES, devices=devices)
