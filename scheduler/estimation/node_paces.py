"""How nodes with devices of one name compare: another clock, a loud host, a limit on power. From their finished jobs.

    log(measured / predicted) = common + node + program + noise

Common is anything; node, program and noise are normal. All are found together (a mixed model with crossed effects, by
best linear unbiased prediction: Henderson 1975), so that a node is not blamed for the programs that run there: where
two nodes never ran the same ones, the ranges say how little is known. How far programs and noise spread is that of a
few guesses under which the jobs are likeliest.

Plans count with coarse steps that are slow to change, since each step is a name of a kind of device: a node leaves 1
when it is surely away from it, by `FROM`, and comes back below `BACK`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scheduler.estimation.features import Vector
from scheduler.estimation.outliers import believable
from scheduler.estimation.values import NodePace

NEWEST = 16
"""Jobs of a node that count: it is soon told when it changes."""
LEAST = 5
"""Fewer say nothing of a node."""
FROM, BACK = 1.15, 1.08
"""A node that is closer to the others than this is within the range of their estimates."""
KEEP = 0.1
"""Of the logarithm: a step stays while what is measured is that close to it. Steps are a tenth apart."""
SURE = 2.576
"""Standard deviations to either side that hold 99 of 100."""
COMMON_SPREAD, NODE_SPREAD = 1.0, 0.25
PROGRAM_SPREADS = (0.2, 0.4, 0.8)
"""An estimate of a program is taken to be off by a fifth at least: a few jobs cannot show that it is better."""
NOISES = (0.05, 0.1, 0.2, 0.4)
_Matrix = npt.NDArray[np.float64]


class Seen(NamedTuple):
    """A job that ran on one node."""

    node: str
    program: Hashable
    """Jobs with the same are off by the same: a program, on so many ranks."""
    error: float
    """log(measured / predicted), no pace of a node counted."""


def node_paces(seen: Sequence[Seen], in_force: Mapping[str, float]) -> dict[str, NodePace]:
    """Node -> its pace, of those nodes of `in_force` that have enough jobs. `seen`: oldest first.

    `in_force`: the step that plans count with now, of each node of the pool that has such devices. Where fewer than two
    have enough jobs nothing can be compared, and nothing is told.
    """
    jobs = [one for node in sorted(in_force) for one in _newest(seen, node)]
    nodes = list(dict.fromkeys(one.node for one in jobs))
    counts = [sum(one.node == node for one in jobs) for node in nodes]
    places = [place for place, count in enumerate(counts) if count >= LEAST]
    if len(places) < 2:
        return {}
    effects, spread = _effects(jobs, nodes)
    alike = _alike(effects, places, [in_force[node] for node in nodes])
    found = {}
    for place in places:
        beside = np.zeros(len(nodes))
        beside[alike] = -1.0 / len(alike)
        beside[place] += 1.0
        middle, half = float(beside @ effects), SURE * math.sqrt(max(0.0, float(beside @ spread @ beside)))
        now = in_force[nodes[place]]
        found[nodes[place]] = NodePace(
            factor=math.exp(middle), low=math.exp(middle - half), high=math.exp(middle + half), n_jobs=counts[place],
            step=_step(math.exp(middle), now, is_sure=abs(middle) > half),
        )  # fmt: skip
    return found


def coarse(factor: float) -> float:
    """The step next to it that is not 1: 1.2, 1.3 and so on, or one over that."""
    size = max(1.2, round(max(factor, 1.0 / factor), 1))
    return size if factor > 1.0 else 1.0 / size


def _newest(seen: Sequence[Seen], node: str) -> list[Seen]:
    """What counts of a node, without jobs that say more about themselves."""
    jobs = [one for one in seen if one.node == node][-NEWEST:]
    kept = believable(np.array([one.error for one in jobs]))
    return [one for one, good in zip(jobs, kept, strict=True) if good]


def _alike(effects: Vector, places: Sequence[int], in_force: Sequence[float]) -> list[int]:
    """The nodes that the others are held against: those about as fast as the one in the middle, of two the faster."""
    middle = effects[sorted(places, key=lambda place: float(effects[place]))[(len(places) - 1) // 2]]
    limits = {place: math.log(FROM if in_force[place] == 1.0 else BACK) for place in places}
    return [place for place in places if abs(effects[place] - middle) < limits[place]]


def _step(factor: float, now: float, *, is_sure: bool) -> float:
    """What plans are to count with, where they count with `now`."""
    size = max(factor, 1.0 / factor)
    if now == 1.0:
        return coarse(factor) if is_sure and size >= FROM else 1.0
    if size < BACK or (factor > 1.0) != (now > 1.0):
        return 1.0
    return now if abs(math.log(factor / now)) <= KEEP else coarse(factor)


def _effects(jobs: Sequence[Seen], nodes: Sequence[str]) -> tuple[Vector, _Matrix]:
    """(log pace of each node, covariance), by the likeliest spreads."""
    programs = list(dict.fromkeys(one.program for one in jobs))
    parts = [
        [1.0, *(one.node == node for node in nodes), *(one.program == known for known in programs)] for one in jobs
    ]
    inside, errors = np.array(parts, dtype=float), np.array([one.error for one in jobs])
    errors -= np.median(errors)
    best = -math.inf
    for program, noise in product(PROGRAM_SPREADS, NOISES):
        spreads = np.array([COMMON_SPREAD] + [NODE_SPREAD] * len(nodes) + [program] * len(programs))
        precision = inside.T @ inside / noise**2 + np.diag(spreads**-2)
        pull = inside.T @ errors / noise**2
        middle = np.linalg.solve(precision, pull)
        _, volume = np.linalg.slogdet(precision)
        scales = len(jobs) * math.log(noise) + float(np.log(spreads).sum()) + 0.5 * float(volume)
        likelihood = 0.5 * float(pull @ middle - errors @ errors / noise**2) - scales
        if likelihood > best:
            best, effects, chosen = likelihood, middle, precision
    own = slice(1, 1 + len(nodes))
    return effects[own], np.linalg.inv(chosen)[own, own]
