"""How nodes with devices of one name compare: another clock, a loud host, a limit on power. From their finished jobs.

    log(measured / predicted) = common + node + program + noise

Common is anything; node, program and noise are normal. All are found together (a mixed model with crossed effects, by
best linear unbiased prediction: Henderson 1975), so that a node is not blamed for the programs that run there: where
two nodes never ran the same ones, the ranges say how little is known. How far programs and noise spread is that of a
few guesses under which the jobs are likeliest.

Nodes are held against those about as fast as the one in the middle. One has a pace of its own where it is surely away
from these, by `FROM`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scheduler.estimation.device_parts import NodePace
from scheduler.estimation.features import Vector
from scheduler.estimation.outliers import believable

NEWEST = 16
"""Jobs of a node that count: it is soon told when it changes."""
LEAST = 5
"""Fewer say nothing of a node."""
FROM = 1.15
"""A node that is closer to the others than this is within the range of their estimates."""
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
    """Jobs with the same are off by the same: a program, shared out so."""
    error: float
    """log(measured / predicted), no pace of a node counted."""


def node_paces(seen: Sequence[Seen], before: Mapping[str, NodePace]) -> dict[str, NodePace]:
    """Node -> its pace, of those that surely differ from the others. `seen`: oldest first.

    `before`: what was known of nodes. It stays where their jobs are too few by now, and of all where only such nodes
    have enough, which cannot tell what the others take.
    """
    jobs = [one for node in sorted({one.node for one in seen} - {""}) for one in _newest(seen, node)]
    counts = Counter(one.node for one in jobs)
    nodes = list(counts)
    places = [place for place, node in enumerate(nodes) if counts[node] >= LEAST]
    compared = {nodes[place] for place in places}
    if len(places) < 2 or compared <= before.keys():
        return dict(before)
    effects, spread = _effects(jobs, nodes)
    alike = _alike(effects, places)
    found = {node: pace for node, pace in before.items() if node not in compared}
    for place in places:
        beside = np.zeros(len(nodes))
        beside[alike] = -1.0 / len(alike)
        beside[place] += 1.0
        middle, half = float(beside @ effects), SURE * math.sqrt(max(0.0, float(beside @ spread @ beside)))
        if place not in alike and abs(middle) > max(half, math.log(FROM)):
            found[nodes[place]] = NodePace(
                factor=math.exp(middle), low=math.exp(middle - half), high=math.exp(middle + half),
                n_jobs=counts[nodes[place]],
            )  # fmt: skip
    return found


def _newest(seen: Sequence[Seen], node: str) -> list[Seen]:
    """What counts of a node, without jobs that say more about themselves."""
    jobs = [one for one in seen if one.node == node][-NEWEST:]
    kept = believable(np.array([one.error for one in jobs]))
    return [one for one, good in zip(jobs, kept, strict=True) if good]


def _alike(effects: Vector, places: Sequence[int]) -> list[int]:
    """The nodes that all are held against: those about as fast as the one in the middle, of two the faster."""
    middle = effects[sorted(places, key=lambda place: float(effects[place]))[(len(places) - 1) // 2]]
    return [place for place in places if abs(effects[place] - middle) < math.log(FROM)]


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
