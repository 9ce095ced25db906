"""How devices work together: what each mode does, and what was measured of it with this project's own benchmarks."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from django.urls import reverse

from harness.pages.charts import chart_card

FIGURES = Path(__file__).parent / "measured/modes.json"
"""Written by `make bench-modes ARGS="--keep"`."""
MODES = (
    ("single", "one", "the whole batch on one core or GPU", "it is the baseline for the others"),
    (
        "replicated", "one", "shares the rows of a batch out over replicas of the model on its devices",
        "up to rounding; on a CPU dropout drops other values in every run, whatever the seed",
    ),
    ("sync", "one per device", "shares the rows out; gradients are averaged after every step", "up to rounding"),
    (
        "async", "one per device",
        "parameter servers hold the weights; each rank pulls them and pushes its gradient without waiting",
        "no: another order of updates, never the same twice",
    ),
    (
        "pipeline", "one per device", "each holds a stage of the model; micro-batches follow one another",
        "up to rounding",
    ),
    (
        "pipeline+sync", "one per device", "several pipelines side by side, gradients averaged stage by stage",
        "up to rounding",
    ),
)  # fmt: skip
"""(mode, processes, what a step is, whether its result is that of `single`)."""
TOPICS = (
    (
        "More ranks (sync)", ("rank-throughput", "speedup"),
        "Two ranks do a step in little more than half the time, as long as each has a device of its own. Messages, and "
        "waiting for each other, keep the gain below the ideal: the shorter a step, the more. A larger batch helps.",
    ),
    (
        "Waiting or not (sync and async)", ("async-throughput", "async-accuracy"),
        "A synchronous step ends when the slowest rank has done its rows. With parameter servers nobody waits, so they "
        "do more rows a second, most of all beside a slow rank. Their gradients are older: more rows are not always "
        "more accuracy at the same time. Look at both pictures before you choose async.",
    ),
    (
        "Stages (pipeline)", ("pipeline-speedup",),
        "With one micro-batch no two stages work at the same time. With more of them the idle time at both ends of a "
        "step shrinks, until the fixed cost of each pass takes more than that saves. auto takes the number with the "
        "shortest step by the timed pieces of your model.",
    ),
    (
        "Memory", ("memory-by-mode",),
        "Every rank of sync and async holds the whole model. A stage of a pipeline holds its share of weights, "
        "gradients and moments of the optimizer, so a model may be larger than one device.",
    ),
)  # fmt: skip
"""(title, its charts, what they tell)."""


def modes_context() -> dict[str, Any]:
    """Context of the page; a topic whose charts nobody measured has none."""
    charts = {chart["id"]: chart for chart in mode_charts()}
    topics = [
        {"title": title, "told": told, "charts": [charts[name] for name in names if name in charts]}
        for title, names, told in TOPICS
    ]
    return {"modes": MODES, "topics": topics}


def mode_charts() -> list[dict[str, Any]]:
    """Each measured chart as a card."""
    return [
        chart_card(
            chart["id"], chart["title"], chart["kind"], chart["columns"], chart["rows"],
            csv=reverse("modes_chart", args=[chart["id"]]),
            note=f"{chart['note']} Measured {chart['measured_on']} on {chart['machine']}: {chart['command']}",
        )
        for chart in _figures()
    ]  # fmt: skip


@cache
def _figures() -> tuple[dict[str, Any], ...]:
    """They change with the sources only."""
    return tuple(json.loads(FIGURES.read_text(encoding="utf-8"))["charts"])
