"""Intervals from held-out errors (CV+ in spirit, Barber et al. 2021; normalised scores, Lei et al. 2018; by group, Vovk
et al. 2003 "Mondrian"): a program like those measured gets the errors of held-out architectures, one unlike all of them
the errors of held-out groups of programs.

Errors of one group lie on one side together, so that a few groups are a few draws however many programs they hold: of
less than four no quantile is sure to hold 80 % of a next one's, of more only one of their sizes (hierarchical conformal
prediction: Lee, Barber & Willett 2023; Dunn, Wasserman & Ramdas 2023). Hence Student's distribution, as for the next
study of a random-effects meta-analysis (Higgins, Thompson & Spiegelhalter 2009)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.device_parts import Spread
from scheduler.estimation.features import Vector

LEVEL = 0.8
LEAST_SCORES = 10
UNLIKE_FACTOR = 2.0
"""Times the usual range, for a program unlike all measured ones where no group of programs could be left out."""


def scale(spread: Spread, disagreement: float) -> float:
    """Expected size of log(measured / predicted), up to the factor that the scores carry."""
    return math.hypot(spread.floor, disagreement)


def quantiles(scores: Sequence[float], level: float) -> tuple[float, float]:
    """Ends of the range that holds a new score with probability `level`: conformal ranks, the rest on both sides."""
    ordered = np.sort(np.asarray(scores, dtype=float))
    count = len(ordered)
    rank = math.ceil((1 + level) / 2 * (count + 1))
    if rank > count:
        edge = float(np.abs(ordered).max())
        return -edge, edge
    return float(ordered[count - rank]), float(ordered[rank - 1])


_quantiles_known = lru_cache(maxsize=64)(quantiles)
"""A model's scores come again with each of its estimates."""


def of_new_groups(scores: Vector, groups: int) -> tuple[float, ...]:
    """Scores of a program of a group never seen, from those of `groups` that were left out; none of too few.

    The sizes count on both sides, since the side of one group says nothing about the next one's, and are wider by
    Student's quantile of so many degrees of freedom (the middle is known to be 0) over the normal one.
    """
    from scipy.special import ndtri, stdtrit

    if len(scores) < LEAST_SCORES:
        return ()
    end = (1.0 + LEVEL) / 2.0
    sizes = np.abs(scores) * float(stdtrit(groups, end) / ndtri(end))
    return tuple(np.sort(np.concatenate([-sizes, sizes])).tolist())


def log_range(model: DeviceModel, near: bool, disagreement: float, level: float = LEVEL) -> tuple[float, float]:
    """(low, high) of log(true / predicted); holds 0, so that the estimate lies inside.

    `near`: whether the program is like a calibration point. Raises `ValueError` where too few programs were held out.
    """
    spread = model.spread
    few = len(spread.far) < LEAST_SCORES
    scores = spread.near if near or few else spread.far
    if len(scores) < LEAST_SCORES:
        raise ValueError(f"{len(scores)} held-out scores are too few for an interval")
    low, high = _quantiles_known(scores, level)
    size = scale(spread, disagreement) * (UNLIKE_FACTOR if few and not near else 1.0)
    return min(0.0, low * size), max(0.0, high * size)


def are_near(model: DeviceModel, summaries: Vector) -> npt.NDArray[np.bool_]:
    """By summaries of programs: of each, whether a calibration point is about as close as they are to each other."""
    if not model.fingerprints:
        return np.zeros(len(summaries), dtype=bool)
    known = np.array(model.fingerprints)
    squares = ((known[None, :, :] - summaries[:, None, :]) ** 2).sum(axis=2)
    return np.asarray(np.sqrt(squares.min(axis=1)) <= model.spread.near_distance)


def nearest(known: Vector, point: Vector) -> float:
    """Distance to the nearest of `known`."""
    return float(np.sqrt(((known - point) ** 2).sum(axis=1)).min())


def near_distance(known: Vector, groups: Sequence[str], share: float = 0.9) -> float:
    """Distance that `share` of the points keep to the nearest point of another group (architecture)."""
    names = np.array(groups)
    distances = [
        nearest(known[names != names[number]], known[number])
        for number in range(len(known))
        if (names != names[number]).any()
    ]
    return float(np.quantile(distances, share)) if distances else 0.0
