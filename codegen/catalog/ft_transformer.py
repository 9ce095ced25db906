"""Transformer over the columns of a table. Template: `programs/models/ft_transformer.py`."""

from __future__ import annotations

from typing import Any

from codegen.catalog.base import Cost, Facts, Knob, Params, Problems
from codegen.catalog.kinds import table_cost, table_family
from codegen.catalog.tally import Tally

PRESETS = {
    "small": {"blocks": 1, "width": 32, "heads": 4, "dropout": 0.1},
    "medium": {"blocks": 2, "width": 64, "heads": 8, "dropout": 0.1},
    "large": {"blocks": 3, "width": 192, "heads": 8, "dropout": 0.2},
}


def defaults(facts: Facts, size: str) -> dict[str, Any]:
    """Knobs of a size preset."""
    return dict(PRESETS[size])


def cost(facts: Facts, params: Params) -> Cost:
    """Exact parameters and FLOPs."""
    width: int = params["width"]
    tokens, hidden = facts.columns + 1, width * 4 // 3

    def body(tally: Tally) -> int:
        tally.own((1 + facts.features) * width + facts.columns * width)
        tally.keep(3 * tokens * width)
        for _ in range(params["blocks"]):
            tally.norm(width, places=tokens)
            tally.linear(width, 3 * width, places=tokens)
            tally.product(4.0 * tokens * tokens * width, 2 * params["heads"] * tokens * tokens + tokens * width)
            tally.linear(width, width, places=tokens)
            tally.norm(width, places=tokens)
            tally.linear(width, 2 * hidden, places=tokens)
            tally.keep(3 * hidden * tokens)
            tally.linear(hidden, width, places=tokens)
            tally.keep(2 * width * tokens)
        tally.norm(width)
        tally.keep(width)
        return width

    return table_cost(facts, body, embedding=lambda _values: width)


def check(facts: Facts, params: Params) -> Problems:
    """Heads share the width out evenly."""
    if params["width"] % params["heads"]:
        return [("heads", f"must divide width ({params['width']}) evenly; {params['heads']} does not")]
    return []


def reason(facts: Facts) -> str:
    """What speaks for it on this data."""
    return (
        f"Attention relates the {facts.columns} columns to one another row by row, which helps where columns only "
        "mean something together."
    )


def against(facts: Facts) -> str:
    """What speaks against it on this data."""
    words = f"By far the most expensive here: its cost grows with the square of the {facts.columns} columns"
    if facts.device == "cpu":
        words += ", slow without a GPU"
    return words + ("; wants ten thousand rows and more." if facts.train_rows < 10_000 else ".")


def quality(facts: Facts) -> float:
    """Good on many rows with few columns, poor on small tables."""
    if facts.train_rows < 1000:
        return 0.4
    return 0.75 if facts.train_rows >= 10_000 and facts.columns <= 100 else 0.55


FAMILY = table_family(
    name="ft_transformer",
    title="FT-Transformer",
    word="FT-Transformer",
    source="Gorishniy et al. 2021, arXiv:2106.11959",
    knobs=(
        Knob(name="blocks", low=1, high=12, description="Transformer blocks."),
        Knob(name="width", low=4, high=1024, description="Numbers per token."),
        Knob(name="heads", low=1, high=32, description="Attention heads; must divide the width."),
    ),
    defaults=defaults,
    cost=cost,
    reason=reason,
    against=against,
    quality=quality,
    check=check,
    learning_rate=7e-4,
)
