"""Residual MLP with embeddings of numbers, on a table. Template: `programs/models/resmlp.py`."""

from __future__ import annotations

from typing import Any

from codegen.catalog.base import Cost, Facts, Knob, Params
from codegen.catalog.kinds import embedded, table_cost, table_family
from codegen.catalog.tally import Tally
from worker.words import counted

PRESETS = {
    "small": {"blocks": 1, "width": 64, "frequencies": 8, "embedding": 6, "dropout": 0.2},
    "medium": {"blocks": 2, "width": 128, "frequencies": 16, "embedding": 8, "dropout": 0.3},
    "large": {"blocks": 4, "width": 256, "frequencies": 24, "embedding": 16, "dropout": 0.4},
}
MANY_ROWS = 10_000


def defaults(facts: Facts, size: str) -> dict[str, Any]:
    """Knobs of a size preset: smooth waves where few rows would let sharp ones follow noise; short embeddings
    where there are very many columns."""
    params = {**PRESETS[size], "frequency_scale": 1.0 if facts.train_rows >= MANY_ROWS else 0.2}
    if facts.features > 200:
        params |= {"frequencies": 4, "embedding": 3}
    return params


def cost(facts: Facts, params: Params) -> Cost:
    """Exact parameters and FLOPs."""
    numbers, waves, learned = facts.features, 2 * params["frequencies"], params["embedding"] - 1
    width: int = params["width"]

    def body(tally: Tally) -> int:
        tally.own(numbers * params["frequencies"] + numbers * learned)
        tally.own(numbers * waves * learned)
        tally.product(2.0 * numbers * waves * learned, numbers * (2 * waves + 2 * learned))
        size = numbers * params["embedding"] + embedded(facts)
        tally.keep(size)
        tally.linear(size, width)
        for _ in range(params["blocks"]):
            tally.norm(width)
            tally.linear(width, 2 * width)
            tally.keep(4 * width)
            tally.linear(2 * width, width)
            tally.keep(2 * width)
        tally.norm(width)
        tally.keep(width)
        return width

    return table_cost(facts, body)


def reason(facts: Facts) -> str:
    """What speaks for it on this data."""
    if not facts.features:
        return "Residual blocks train deeper than a plain MLP; there are no numeric columns to embed here."
    return (
        f"Its embeddings let the {counted(facts.features, 'number')} of a row act through thresholds and waves, which "
        f"is what plain nets lack against boosted trees; {facts.train_words} are "
        + ("enough to learn them." if facts.train_rows >= 1000 else "few to learn them.")
    )


def against(facts: Facts) -> str:
    """What speaks against it on this data."""
    if facts.train_rows < 1000:
        return "More freedom than so few rows can pin down: it overfits soon and relies on early stopping."
    return "Two to four times the cost of a plain MLP; more knobs."


def quality(facts: Facts) -> float:
    """First from a thousand rows on."""
    return 0.9 if facts.train_rows >= 1000 and facts.features else 0.65


FAMILY = table_family(
    name="resmlp",
    title="Residual MLP with numeric embeddings",
    word="residual MLP",
    source="Gorishniy et al. 2022, arXiv:2203.05556",
    knobs=(
        Knob(name="blocks", low=1, high=24, description="Residual blocks."),
        Knob(name="width", low=4, high=2048, description="Numbers carried from block to block."),
        Knob(name="frequencies", low=1, high=128, description="Waves per number."),
        Knob(
            name="frequency_scale",
            kind=float,
            low=0.001,
            high=10.0,
            description="Spread of the first frequencies: larger follows sharper thresholds, and noise.",
        ),
        Knob(name="embedding", low=2, high=128, description="Places that stand for one number."),
    ),
    defaults=defaults,
    cost=cost,
    reason=reason,
    against=against,
    quality=quality,
    learning_rate=3e-3,
)
