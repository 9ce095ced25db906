"""What all families of a kind share: for tables and for pictures, where counting begins and ends, and common knobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from codegen.catalog.base import DROPOUT, IMAGE_SIZE, Cost, Facts, Family, Knob
from codegen.catalog.tally import Tally
from codegen.spec import NUMBER_TASKS, Task

Body = Callable[[Tally], int]
"""Counts the layers between input and output, and returns how many numbers per row the last one gives."""


def embedding_size(cardinality: int) -> int:
    """Numbers that stand for a value of a category, as in the templates of the perceptrons."""
    return min(16, (cardinality + 1) // 2)


def embedded(facts: Facts) -> int:
    """Numbers per row that the categories become by `embedding_size`."""
    return sum(embedding_size(values) for values in facts.cardinalities)


def table_cost(facts: Facts, body: Body, *, embedding: Callable[[int], int] = embedding_size) -> Cost:
    """Exact parameters and FLOPs of a model of rows: a vector per category, `body`, a linear output layer."""
    tally = Tally()
    tally.columns(facts.features, len(facts.cardinalities))
    for values in facts.cardinalities:
        tally.embedding(values, embedding(values))
    tally.linear(body(tally), facts.outputs)
    return tally.cost()


def picture_cost(facts: Facts, image_size: int, body: Body) -> Cost:
    """Exact parameters and FLOPs of a model of pictures: `body`, a linear output layer."""
    tally = Tally()
    tally.picture(facts.channels, image_size)
    tally.linear(body(tally), facts.outputs)
    return tally.cost()


def table_family(*, name: str, knobs: tuple[Knob, ...], **rest: Any) -> Family:
    """A family for all tasks on tables, its template named after it, with dropout as its last knob."""
    tasks = frozenset({Task.TABULAR_CLASSIFICATION, *NUMBER_TASKS})
    return Family(name=name, template=f"{name}.py", tasks=tasks, knobs=(*knobs, DROPOUT), **rest)


def picture_family(*, name: str, knobs: tuple[Knob, ...], **rest: Any) -> Family:
    """A family for pictures, its template named after it, with dropout and the picture's size as its last knobs."""
    tasks = frozenset({Task.IMAGE_CLASSIFICATION})
    return Family(name=name, template=f"{name}.py", tasks=tasks, knobs=(*knobs, DROPOUT, IMAGE_SIZE), **rest)
