"""Which programs a calibration sweep measures: customised CNNs spread over their knobs, samples of the other families.

How large they become goes by what the device does (`Extent`), so that steps take about as long on one as on another.

The points are a scrambled Sobol sequence over the logarithms of the knobs (Sobol 1967; Owen 1998), so that any first
part of it covers the whole space: a sweep that is stopped early is a smaller sweep, and one that goes on skips what is
done.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from codegen.catalog import FAMILIES
from codegen.catalog.base import Facts
from codegen.spec import Task
from scheduler.estimation.extent import CORE, Extent

MOST_POINTS = 300
STATES = 4
"""Copies of the weights: themselves, gradients, two of the optimizer."""
MOST_STEP_S = 0.4
"""Wider programs are left out: their steps would eat the budget, and what they are made of is in the others."""
BACKWARD_FACTOR = 3.0
OTHERS_SHARE = 0.2
TRAIN_SHARE = 0.7
"""Of the rows of a point."""
SEED = 20


@dataclass(frozen=True)
class Knob:
    """Values that one dimension of the design takes."""

    low: float = 1.0
    high: float = 1.0
    choices: tuple[Any, ...] = ()
    grows: float = 0.0
    """Power of `Extent.growth` by which its upper end grows, and its lower one by half of it: people try small programs
    on large devices, too."""

    def grown(self, growth: float, most: float | None) -> Knob:
        """The same with higher ends, which stay within what a program may have."""
        if not self.grows:
            return self
        high = self.high * growth**self.grows
        return replace(
            self,
            low=self.low * growth ** (self.grows / 2),
            high=high if most is None else max(self.high, min(high, most)),
        )

    def at(self, share: float) -> Any:
        """The value at `share` of the way, evenly in the logarithm."""
        if self.choices:
            return self.choices[min(int(share * len(self.choices)), len(self.choices) - 1)]
        return round(math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low))))


@dataclass(frozen=True, kw_only=True)
class DataShape:
    """The made data that a point is measured on."""

    channels: int = 0
    """Of pictures; 0: a table."""
    features: int = 0
    cardinalities: tuple[int, ...] = ()
    outputs: int = 10
    rows: int = 256
    """Before the split."""


@dataclass(frozen=True, kw_only=True)
class SweepPoint:
    """One program to measure: parts of a TaskSpec and the shape of its data."""

    family: str
    task: Task
    params: Mapping[str, Any]
    batch_size: int
    data: DataShape
    training: Mapping[str, Any] = field(default_factory=dict)
    steps: int = 5
    """Timed per visit, after a warm-up."""
    visits: int = 2
    """Visits at different times; how far they differ is the noise of the machine."""
    forward_flops: float = 0.0

    @property
    def point_id(self) -> str:
        """Stable name of what is measured."""
        body = {**self.to_dict(), "steps": 0, "visits": 0, "forward_flops": 0}
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        return f"{self.family}-{digest[:12]}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> SweepPoint:
        """Inverse of `to_dict`."""
        data = {**body["data"], "cardinalities": tuple(body["data"]["cardinalities"])}
        return SweepPoint(**{**body, "task": Task(body["task"]), "data": DataShape(**data)})

    @property
    def spec(self) -> dict[str, Any]:
        """Parts of a TaskSpec."""
        training = {"batch_size": self.batch_size, "epochs": 1, "augment": "none", **self.training}
        return {
            "task": self.task.value,
            "model": {"family": self.family, "params": dict(self.params)},
            "training": training,
        }

    def cost_s(self, extent: Extent = CORE) -> float:
        """Roughly what measuring it takes."""
        return self.visits * (extent.point_s + (self.steps + 1) * self.step_s(extent))

    def step_s(self, extent: Extent = CORE) -> float:
        """Roughly what a step takes."""
        return 0.003 + BACKWARD_FACTOR * self.forward_flops / extent.flops_per_s


PICTURE = {"image_size": Knob(16, 48, grows=0.15), "batch": Knob(8, 128, grows=0.3)}
TABLE = {
    "features": Knob(4, 150),
    "categories": Knob(choices=(0, 0, 2, 6)),
    "batch": Knob(32, 1024, grows=0.35),
}
SPACES: dict[str, dict[str, Knob]] = {
    "cnn": PICTURE
    | {
        "conv_layers": Knob(choices=(1, 2, 3, 4, 5, 6)),
        "filters": Knob(8, 64, grows=0.15),
        "kernel": Knob(choices=(3, 3, 5)),
        "fc_layers": Knob(choices=(0, 1, 2, 3)),
        "fc_nodes": Knob(32, 512, grows=0.2),
    },
    "resnet": PICTURE | {"blocks": Knob(choices=(1, 2, 3)), "width": Knob(8, 48, grows=0.15)},
    "convnext": PICTURE
    | {"patch": Knob(choices=(1, 2, 4)), "blocks": Knob(choices=(1, 2)), "width": Knob(12, 64, grows=0.15)},
    "mlp": TABLE | {"layers": Knob(choices=(1, 2, 3, 4, 5, 6)), "width": Knob(32, 1024, grows=0.25)},
    "resmlp": TABLE
    | {
        "blocks": Knob(choices=(1, 2, 3, 4)),
        "width": Knob(32, 384, grows=0.25),
        "frequencies": Knob(4, 32),
        "embedding": Knob(3, 16),
    },
    "ft_transformer": TABLE
    | {
        "features": Knob(4, 40),
        "batch": Knob(16, 256, grows=0.35),
        "blocks": Knob(choices=(1, 2, 3)),
        "heads": Knob(choices=(2, 4, 8)),
        "head_width": Knob(4, 24, grows=0.15),
    },
}
"""Ranges of a design that one core can measure; the fit knows none of these names."""
OPTIMIZERS = ("adamw", "adamw", "adamw", "sgd")


def plan_sweep(
    *,
    budget_s: float = math.inf,
    most: int = MOST_POINTS,
    others_share: float = OTHERS_SHARE,
    done: Collection[str] = (),
    extent: Extent = CORE,
    seed: int = SEED,
) -> list[SweepPoint]:
    """Points in the order to measure them, without those `done`; all of them together fit `budget_s` and `most`.

    `done` counts against both, so that a sweep that is taken up again ends where it would have ended.
    """
    left_s, plan = budget_s, []
    for number, point in enumerate(_interleaved(others_share, extent, seed)):
        left_s -= point.cost_s(extent)
        if number >= most or left_s < 0:
            break
        if point.point_id not in done:
            plan.append(point)
    return plan


def _interleaved(others_share: float, extent: Extent, seed: int) -> Iterator[SweepPoint]:
    """CNNs, and one of the other families as often as their share asks, in turns; the same point never twice."""
    streams = {family: design(family, extent=extent, seed=seed) for family in SPACES}
    others = [family for family in SPACES if family != "cnn"]
    owed, turn = 0.0, 0
    seen: set[str] = set()
    while True:
        owed += others_share
        family = "cnn"
        if owed >= 1.0:
            family, owed, turn = others[turn % len(others)], owed - 1.0, turn + 1
        point = next(point for point in streams[family] if point.point_id not in seen)
        seen.add(point.point_id)
        yield point


def design(family: str, *, extent: Extent = CORE, seed: int = SEED) -> Iterator[SweepPoint]:
    """Endless points of one family that can be built, that fit, and whose steps are short."""
    from scipy.stats import qmc

    space = {name: knob.grown(extent.growth, _most(family, name)) for name, knob in SPACES[family].items()}
    sequence = qmc.Sobol(d=len(space) + 1, scramble=True, seed=seed)
    while True:
        for row in sequence.random(64):
            values = {name: knob.at(share) for (name, knob), share in zip(space.items(), row, strict=False)}
            optimizer = OPTIMIZERS[min(int(row[-1] * len(OPTIMIZERS)), len(OPTIMIZERS) - 1)]
            point = _point(family, values, optimizer, extent)
            if point is not None and point.step_s(extent) <= MOST_STEP_S:
                yield point


def _most(family: str, name: str) -> float | None:
    """The largest value that a person may give it; None: it is no knob of the family."""
    knob = FAMILIES[family].knob(name)
    return knob.high if knob else None


def _point(family: str, values: dict[str, Any], optimizer: str, extent: Extent) -> SweepPoint | None:
    """The point with these values, or None where the family refuses them or the device has no room."""
    batch = values.pop("batch")
    pictures = "image_size" in values
    if pictures:
        task, data = Task.IMAGE_CLASSIFICATION, DataShape(channels=3, rows=_rows(256, batch))
    else:
        cardinalities = tuple(4 + 3 * number for number in range(values.pop("categories")))
        features = values.pop("features")
        task = Task.TABULAR_CLASSIFICATION
        data = DataShape(features=features, cardinalities=cardinalities, outputs=3, rows=_rows(2048, batch))
    if "head_width" in values:
        values["width"] = values["heads"] * values.pop("head_width")
    facts = Facts(
        task=task,
        rows=data.rows,
        train_rows=round(TRAIN_SHARE * data.rows),
        outputs=data.outputs,
        features=data.features,
        cardinalities=data.cardinalities,
        channels=data.channels,
        native_size=32 if pictures else 0,
    )
    params = {**FAMILIES[family].defaults(facts, "small"), **values, "dropout": 0.1}
    if FAMILIES[family].problems(facts, params):
        return None
    cost = FAMILIES[family].cost(facts, params)
    if STATES * 4 * cost.parameters + batch * (cost.activation_bytes + cost.input_bytes) > extent.memory_bytes:
        return None
    flops, training = cost.flops * batch, {"optimizer": optimizer}
    return SweepPoint(
        family=family, task=task, params=params, batch_size=batch, data=data, training=training, forward_flops=flops
    )


def _rows(usual: int, batch: int) -> int:
    """Rows of a point: at least a whole batch to train on."""
    return max(usual, math.ceil(batch / TRAIN_SHARE) + 1)
