"""Multilayer perceptron on a table. Template: `programs/models/mlp.py`."""

from __future__ import annotations

from typing import Any

from codegen.catalog.base import Cost, Facts, Knob, Params
from codegen.catalog.kinds import embedded, table_cost, table_family
from codegen.catalog.tally import Tally
from worker.words import counted

WIDTHS = {"small": 64, "medium": 192, "large": 512}
LAYERS = {"small": 1, "medium": 3, "large": 3}


def defaults(facts: Facts, size: str) -> dict[str, Any]:
    """Knobs of a size preset."""
    dropout = {"small": 0.2, "medium": 0.2, "large": 0.3}[size]
    return {"layers": LAYERS[size], "width": WIDTHS[size], "dropout": dropout}


def cost(facts: Facts, params: Params) -> Cost:
    """Exact parameters and FLOPs."""

    def body(tally: Tally) -> int:
        size: int = facts.features + embedded(facts)
        tally.keep(size)
        for _ in range(params["layers"]):
            tally.linear(size, params["width"])
            tally.keep(2 * params["width"])
            size = params["width"]
        return size

    return table_cost(facts, body)


def reason(facts: Facts) -> str:
    """What speaks for it on this data."""
    if facts.texts_alone:
        return (
            f"The {counted(facts.features, 'number')} of a row tell what its texts are about, without thresholds: "
            "a plain net learns them better, and faster, than one that embeds each number."
        )
    if facts.train_rows < 1000:
        return (
            f"With {facts.train_words} a small, strongly regularised net generalises at least as well "
            "as bigger ones, and it trains in seconds."
        )
    return "The cheapest net for a table: a quick baseline that shows what the bigger ones must beat."


def against(facts: Facts) -> str:
    """What speaks against it on this data."""
    if facts.texts_alone:
        return "Which words a text has is read, not their order: 'not good, but cheap' is 'good, but not cheap'."
    if facts.train_rows < 1000:
        return "Cannot follow sharp thresholds in single columns; gains little from more rows later."
    return "Handles thresholds in single columns badly; usually one or two points behind the residual MLP here."


def quality(facts: Facts) -> float:
    """First on small tables and on texts alone, behind the others on large tables."""
    if facts.texts_alone:
        return 0.95
    return 0.8 if facts.train_rows < 1000 else 0.6


FAMILY = table_family(
    name="mlp",
    title="Multilayer perceptron",
    word="MLP",
    source="Kadra et al. 2021, arXiv:2106.11189",
    knobs=(
        Knob(name="layers", low=1, high=12, description="Hidden layers."),
        Knob(name="width", low=4, high=4096, description="Nodes per hidden layer."),
    ),
    defaults=defaults,
    cost=cost,
    reason=reason,
    against=against,
    quality=quality,
    learning_rate=2e-3,
)
