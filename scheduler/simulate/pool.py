"""The pool of a replay: made of a spec such as `64x8:A100`, decided on by the scheduler's own `place`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.estimation.device_table import figures_for
from scheduler.place import place
from scheduler.simulate.tables import Power
from scheduler.types import ChangeKind, DeviceView, JobView, NodeView, Option, Policy, PoolView, Quotas

_SPEC = re.compile(r"(?P<nodes>\d+)x(?P<each>\d+)(?::(?P<model>[^,]+))?")
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

    @property
    def power(self) -> Power:
        """From the device table."""
        figures = figures_for(self.kind, self.model)
        return Power(idle_w=figures.idle_w, busy_w=figures.busy_w, note=f"{figures.source}; assumed")


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

    def __post_init__(self) -> None:
        """Name nodes and devices."""
        if not self.parts or not 0 < self.devices <= MOST_DEVICES:
            raise ValueError(f"a pool of {self.devices} devices; from 1 to {MOST_DEVICES} can be replayed")
        nodes = tuple(
            _node(f"p{row}n{number:05d}", part) for row, part in enumerate(self.parts) for number in range(part.nodes)
        )
        self.view = PoolView(nodes=nodes, spans_nodes=self.spans_nodes)

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
            parts.append(Part(nodes=int(found["nodes"]), each=int(found["each"]), kind=kind, model=model))
        return SimPool(parts, spans_nodes=spans_nodes)

    @property
    def devices(self) -> int:
        """Of all kinds."""
        return sum(part.nodes * part.each for part in self.parts)

    @property
    def idle_w(self) -> float:
        """Power of the whole pool while nothing runs."""
        return sum(part.nodes * part.each * part.power.idle_w for part in self.parts)

    def idle_each_w(self, option: Option) -> float:
        """Power of one idle device of the option's kind and model."""
        fitting = (part for part in self.parts if part.kind == option.kind and option.model_name in {"", part.model})
        return next((part.power.idle_w for part in fitting), 0.0)

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


def _node(name: str, part: Part) -> NodeView:
    devices = tuple(
        DeviceView(device_id=f"{name}d{index}", kind=part.kind, index=index, free=True, model_name=part.model)
        for index in range(part.each)
    )
    return NodeView(name=name, takes_work=True, sandbox_level=3, memory_bytes=NODE_BYTES, devices=devices)
