"""What a model family is: knobs, sizes, analytic cost, words. One module per family fills in a `Family`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from codegen.spec import NUMBER_TASKS, Metric, Task
from worker.words import counted

Params = Mapping[str, Any]
Problems = list[tuple[str, str]]
"""(knob, message with the next step)."""
SIZES = ("small", "medium", "large")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of data and machine when a model is chosen and sized."""

    task: Task
    rows: int
    train_rows: int
    outputs: int
    """Classes, or 1 for regression."""
    metric: Metric = Metric.ACCURACY
    """What the best checkpoint is chosen by."""
    rarest_share: float = 0.0
    """Rows of the rarest class over all rows; 0 where not all classes are known."""
    features: int = 0
    """Numbers a table gives per row, indicators of missing values included."""
    texts_alone: bool = False
    """Whether all of a table's inputs come from columns of text."""
    cardinalities: tuple[int, ...] = ()
    """Values per category column, the bucket for unknown and missing ones included."""
    channels: int = 0
    native_size: int = 0
    """Side in pixels of the middle picture, the shorter one."""
    photos: bool = False
    """Colour pictures, for which a mirrored picture shows the same thing."""
    device: str = "cpu"
    devices: int = 1
    memory_bytes: int = 0
    """Of one device's share."""
    time_s: float | None = None
    """Wished training time."""

    @property
    def images(self) -> bool:
        """Whether the data are pictures."""
        return self.task is Task.IMAGE_CLASSIFICATION

    @property
    def train_words(self) -> str:
        """What is trained on: `210 training rows`; a forecast is made of windows, several of them from each row."""
        one = "window" if self.task is Task.FORECAST else "picture" if self.images else "row"
        return counted(self.train_rows, f"training {one}")

    @property
    def regression(self) -> bool:
        """Whether a number is predicted."""
        return self.task in NUMBER_TASKS

    @property
    def columns(self) -> int:
        """Inputs of a table, numbers and categories."""
        return self.features + len(self.cardinalities)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a model of given knobs takes."""

    parameters: int
    flops: float
    """Forward pass of one row, a multiplication and an addition counted as two."""
    activation_bytes: float
    """Kept for the backward pass, per row."""
    input_bytes: float = 0.0
    """Of one row as it is held in memory."""


@dataclass(frozen=True, kw_only=True)
class Knob:
    """One number or word a person may turn."""

    name: str
    description: str
    kind: type = int
    low: float | None = None
    high: float | None = None
    choices: tuple[Any, ...] = ()

    def problem(self, value: Any) -> str | None:
        """Why `value` is refused, or None."""
        if self.kind is int and (isinstance(value, bool) or not isinstance(value, int)):
            return f"must be a whole number, not {value!r}"
        if self.kind is float and (isinstance(value, bool) or not isinstance(value, int | float)):
            return f"must be a number, not {value!r}"
        if self.choices and value not in self.choices:
            return f"must be one of {', '.join(map(str, self.choices))}, not {value!r}"
        if self.low is not None and not self.low <= value <= (self.high if self.high is not None else value):
            return f"must be between {self.low:g} and {self.high:g}, not {value!r}"
        return None


def no_problems(facts: Facts, params: Params) -> Problems:
    """The check of a family whose knobs do not depend on each other."""
    return []


@dataclass(frozen=True, kw_only=True)
class Family:
    """One model family."""

    name: str
    title: str
    word: str
    """As people call it within a line."""
    source: str
    """Paper it comes from."""
    tasks: frozenset[Task]
    template: str
    """File below `codegen/programs/models`; empty for a person's own model."""
    knobs: tuple[Knob, ...]
    defaults: Callable[[Facts, str], dict[str, Any]]
    """(facts, size) -> all knobs."""
    cost: Callable[[Facts, Params], Cost]
    reason: Callable[[Facts], str]
    against: Callable[[Facts], str]
    quality: Callable[[Facts], float]
    """Expected place by quality on such data: higher is better, 0 to 1, comparable within a task only."""
    learning_rate: float
    check: Callable[[Facts, Params], Problems] = no_problems
    training_overrides: Mapping[str, Any] = field(default_factory=dict)

    def knob(self, name: str) -> Knob | None:
        """The knob of that name, or None."""
        return next((knob for knob in self.knobs if knob.name == name), None)

    def problems(self, facts: Facts, params: Params) -> Problems:
        """Everything wrong with `params` (all knobs given): unknown, out of range, not going together."""
        found: Problems = []
        for name, value in params.items():
            knob = self.knob(name)
            if knob is None:
                known = ", ".join(knob.name for knob in self.knobs)
                found.append((name, f"unknown knob of {self.name}; it has: {known}"))
            elif message := knob.problem(value):
                found.append((name, message))
        return found or self.check(facts, params)


DROPOUT = Knob(name="dropout", kind=float, low=0.0, high=0.9, description="Share of nodes left out while training.")
IMAGE_SIZE = Knob(name="image_size", low=4, high=1024, description="Pictures are scaled to this many pixels a side.")
