"""`DeviceModel`: all that is known of one kind of device. Frozen, and JSON both ways: it can be kept and shipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from scheduler.estimation.device_parts import (
    Coefficients,
    Correction,
    Corrector,
    LinkModel,
    MemoryModel,
    Moved,
    NodePace,
    PeakLessons,
    PowerModel,
    RunOverheads,
    Spread,
    Transfer,
)
from scheduler.estimation.device_table import figures_for
from scheduler.estimation.features import LAYOUTS
from scheduler.estimation.precision import AUTO, Precision
from scheduler.estimation.values import Basis
from scheduler.kinds import declared_name

DEVICE_MODEL_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class DeviceModel:
    """One kind of device: (`kind`, `model_name`)."""

    kind: str
    model_name: str
    precision: Precision
    """In which the products were computed that it was fitted to, or is assumed of."""
    usual: Precision
    """What `auto` takes there: as points tell that asked for nothing else, else by the device table."""
    members: tuple[Coefficients, ...]
    """The ensemble; the geometric mean of its members counts."""
    spread: Spread
    memory: MemoryModel
    power: PowerModel
    link: LinkModel
    overheads: RunOverheads
    basis: Basis
    """Of step times."""
    contention: float = 0.1
    """Share by which a step gets slower per further rank on the same node (shared caches and memory)."""
    contention_basis: Basis = Basis.ASSUMED
    parallel_share: float = 0.75
    """Share of a step that the CPU threads of one process share out."""
    parallel_basis: Basis = Basis.ASSUMED
    fingerprints: tuple[tuple[float, ...], ...] = ()
    """Summaries of the calibration points, to tell whether a program is like one of them."""
    corrector: Corrector | None = None
    correction: Correction = field(default_factory=Correction)
    corrections: Mapping[str, Correction] = field(default_factory=dict)
    """Precision -> what jobs teach of steps in it, in place of `correction`: of others than `precision`."""
    stages: Correction = field(default_factory=Correction)
    """What finished runs in stages teach of steps in stages, beside `correction`."""
    paces: Mapping[str, NodePace] = field(default_factory=dict)
    """Node -> its own pace; only nodes that surely differ from the others, whose middle `correction` is of."""
    n_points: int = 0
    noise: float = 0.0
    """Median relative spread of visits to the same point: no estimate can be better."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """Held-out errors found while fitting, for the page that shows them: mape, p90, and so on."""
    transferred: Transfer | None = None
    """Set where steps and memory come from another device (`scheduler.estimation.transfer`), bent to `n_points` of its
    own if there are any."""
    version: int = DEVICE_MODEL_VERSION
    slowdown: float = 1.0
    """Declared of the devices that are asked about: their steps take so many times as long. Never part of a fit."""
    message_link: LinkModel | None = None
    """What a message between two ranks takes by itself, as it was timed or assumed before `link` was fitted to whole
    steps, in which sums wait for wake-ups that stages of a pipeline do not; None: as `link`."""
    nodes_link: LinkModel | None = None
    """Between the nodes on which the ranks that are asked about lie; None: all lie on one. Never part of a fit."""
    host_link: LinkModel | None = None
    """Over which these ranks add up where they do so through the memory of their hosts, and nothing was measured; None:
    as their devices do. Stages of a pipeline send from device to device all the same. Never part of a fit."""
    host_why: str = ""
    """Why they do, in words."""
    moved: Moved | None = None
    """Set where the program that is asked about computes in another precision than what was measured
    (`scheduler.estimation.in_precision`). Never part of a fit."""

    @property
    def n_finished(self) -> int:
        """Finished jobs that correct its steps."""
        return sum(taught.n_jobs for taught in (self.correction, self.stages, *self.corrections.values()))

    @property
    def key(self) -> tuple[str, str]:
        """Kind and name of the devices that it describes."""
        return (self.kind, declared_name(self.model_name, self.slowdown))

    @property
    def pace_range(self) -> tuple[float, float]:
        """The least and the largest factor on a step among the nodes that may run it: 1 at most, 1 at least."""
        there = [pace.factor for pace in self.paces.values() if pace.takes_work]
        return min([1.0, *there]), max([1.0, *there])

    def pace_on(self, node: str) -> float:
        """Factor on a step there."""
        return self.paces[node].factor if node in self.paces else 1.0

    @property
    def ranks_link(self) -> LinkModel:
        """Between the ranks that are asked about."""
        return self.nodes_link or self.link

    @property
    def stages_link(self) -> LinkModel:
        """Over which stages of a pipeline hand on."""
        return self.message_link or self.ranks_link

    @property
    def sums_link(self) -> LinkModel:
        """Over which these ranks add up."""
        return self.host_link or self.ranks_link

    @property
    def measured_key(self) -> tuple[str, str]:
        """What it is kept under, and probes as well: they are made at the device's own speed."""
        return (self.kind, self.model_name)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> DeviceModel:
        """Inverse of `to_dict`. Raises `ValueError` for another version or a missing field."""
        if body.get("version") != DEVICE_MODEL_VERSION:
            raise ValueError(f"device model has version {body.get('version')!r}, this one is {DEVICE_MODEL_VERSION}")
        try:
            return _read(body)
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a device model: {error}") from error


def _tuples(rows: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(value) for value in row) for row in rows)


def _coefficients(group: str, row: Sequence[float]) -> tuple[float, ...]:
    """Of one group. What a model from before does not say of a newer column counts nothing."""
    missing = len(LAYOUTS[group].columns) - len(row)
    return (*map(float, row), *[0.0] * missing)


def _based(kind: Any, body: Mapping[str, Any]) -> Any:
    return kind(**{**body, "basis": Basis(body["basis"])})


def _lessons(told: Mapping[str, Any] | None) -> PeakLessons:
    """Of a model from before there were any: none."""
    if not told:
        return PeakLessons()
    return PeakLessons(
        makeups=_tuples(told["makeups"]),
        log_ratios=tuple(map(float, told["log_ratios"])),
        ran_out=tuple(map(bool, told["ran_out"])),
        n_left_out=int(told["n_left_out"]),
    )


def _usual_precision(body: Mapping[str, Any]) -> Precision:
    """Of a model from before it was told: all that was measured asked for nothing."""
    return figures_for(body["kind"], body["model_name"]).computes_in(AUTO)


def _memory(body: Mapping[str, Any]) -> MemoryModel:
    taught = {name: _lessons(body.get(name)) for name in ("lessons", "reading")}
    return MemoryModel(**{**body, "basis": Basis(body["basis"]), **taught})


def _read(body: Mapping[str, Any]) -> DeviceModel:
    fields = dict(body)
    members = ({name: _coefficients(name, row) for name, row in member.items()} for member in body["members"])
    spread, corrector = body["spread"], body["corrector"]
    fields["members"] = tuple(members)
    fields["spread"] = Spread(**{**spread, "near": tuple(spread["near"]), "far": tuple(spread["far"])})
    fields["memory"] = _memory({"reads": body["kind"] == "cpu", **body["memory"]})
    fields["power"] = PowerModel.from_dict(body["power"])
    for name, kind in {"link": LinkModel, "overheads": RunOverheads}.items():
        fields[name] = _based(kind, body[name])
    fields["basis"], fields["contention_basis"] = Basis(body["basis"]), Basis(body["contention_basis"])
    for name in ("message_link", "nodes_link", "host_link"):
        fields[name] = _based(LinkModel, link) if (link := body.get(name)) else None
    fields["parallel_basis"] = Basis(body["parallel_basis"])
    fields["fingerprints"] = _tuples(body["fingerprints"])
    fields["correction"] = Correction(**body["correction"])
    fields["stages"] = Correction(**body.get("stages", {}))
    fields["corrections"] = {name: Correction(**told) for name, told in body.get("corrections", {}).items()}
    told = body.get("precision")
    fields["precision"] = Precision(told) if told else _usual_precision(body)
    fields["usual"] = Precision(body.get("usual", fields["precision"]))
    fields["paces"] = {node: NodePace(**told) for node, told in body.get("paces", {}).items()}
    fields["corrector"] = corrector and Corrector(
        inputs=_tuples(corrector["inputs"]), alpha=tuple(corrector["alpha"]), length=corrector["length"]
    )
    transferred = body.get("transferred")
    fields["transferred"] = Transfer(**transferred) if transferred else None
    return DeviceModel(**fields)
