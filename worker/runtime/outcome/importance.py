"""Permutation importance: how much worse the model gets when the values of one input are shuffled among the rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from worker.runtime.data import Part
from worker.runtime.outcome.chart import Chart, chart, metric_words
from worker.words import counted

ROWS = 2000
REPEATS = 5
LEAST_ROWS, LEAST_REPEATS = 20, 3
"""With fewer nothing is told."""
INPUTS = 200
KINDS = ("numeric", "categorical")
"""Of the columns that `data.transform` makes of a table, in the order of its tensors."""
Places = dict[str, list[tuple[int, int]]]
"""Input column -> (tensor, column of it) of all that was made of it."""
Score = Callable[[Part], float]
"""How bad the model is on some rows: larger is worse."""


def input_places(part: Part, preprocess: Mapping[str, Any]) -> Places:
    """Where each input column went; empty where the program prepares rows in another way than by columns."""
    found: Places = {}
    if len(part.inputs) != len(KINDS):
        return {}
    for at, (tensor, kind) in enumerate(zip(part.inputs, KINDS, strict=True)):
        entries = preprocess.get(kind)
        if not isinstance(entries, list) or tensor.ndim != 2 or tensor.shape[1] != len(entries):
            return {}
        for column, entry in enumerate(entries):
            if not isinstance(entry, dict) or "column" not in entry:
                return {}
            found.setdefault(str(entry["column"]), []).append((at, column))
    return found


def importances(
    part: Part, places: Places, score: Score, *, budget_s: float, seed: int, clock: Callable[[], float] = time.monotonic
) -> tuple[NDArray[np.float64], int] | None:
    """([repeats, inputs] how much worse the score gets, rows); None where the time is too short to tell.

    With too little time for all rows fewer are taken, evenly spaced. After twice `budget_s` it stops in any case.
    """
    part = _fewer(part, ROWS)
    began_s = clock()
    whole = score(part)
    passes = budget_s / max(clock() - began_s, 1e-6)
    wanted = LEAST_REPEATS * len(places)
    if passes < wanted:
        part = _fewer(part, int(len(part) * passes / wanted))
    if len(part) < LEAST_ROWS:
        return None
    whole = score(part)
    rounds: list[list[float]] = []
    generator = torch.Generator().manual_seed(seed)
    while len(rounds) < REPEATS and (len(rounds) < LEAST_REPEATS or clock() - began_s < budget_s):
        worse: list[float] = []
        for columns in places.values():
            if clock() - began_s > 2 * budget_s:
                return None
            worse.append(score(_shuffled(part, columns, torch.randperm(len(part), generator=generator))) - whole)
        rounds.append(worse)
    return np.array(rounds), len(part)


def _fewer(part: Part, rows: int) -> Part:
    """Evenly spaced rows of a part that has more."""
    return part if len(part) <= rows else part.evenly(rows)


def _shuffled(part: Part, columns: list[tuple[int, int]], order: Tensor) -> Part:
    """The part with some columns taken from other rows, together."""
    inputs = list(part.inputs)
    for at, column in columns:
        if inputs[at] is part.inputs[at]:
            inputs[at] = inputs[at].clone()
        inputs[at][:, column] = part.inputs[at][order, column]
    return replace(part, inputs=tuple(inputs))


def importance_chart(
    part: Part, places: Places, score: Score, metric: str, *, budget_s: float, seed: int
) -> Chart | None:
    """The inputs, the most important first; None where there is nothing to tell. `metric`: what `score` is made of."""
    tried = dict(list(places.items())[:INPUTS])
    found = importances(part, tried, score, budget_s=budget_s, seed=seed) if tried else None
    if found is None:
        return None
    worse, rows = found
    means, spreads = worse.mean(0), 2 * worse.std(0, ddof=1)
    names = list(tried)
    lines: list[list[Any]] = [
        [names[at], float(means[at]), float(means[at] - spreads[at]), float(means[at] + spreads[at])]
        for at in np.argsort(-means, kind="stable")
    ]
    note = (
        f"How much worse the {metric_words(metric)} gets when the values of one input are shuffled among "
        f"{counted(rows, 'row')}: mean of {len(worse)} shuffles, "
        f"give or take two standard deviations. Inputs that tell the same stand in "
        "for each other: each of them looks less important than it is."
    )
    if len(places) > INPUTS:
        note += f" The first {INPUTS} of {len(places)} inputs."
    columns = ["input", "importance", "low", "high"]
    return {**chart("importance", "Importance of inputs", "intervals", columns, lines, note), "overall": 0.0}
