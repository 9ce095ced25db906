"""Which steps of a timed run count: those in which the host worked for nobody else (`worker.quiet`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

LEAST_CALM = 5
"""Steps of a quiet host that say enough of a run."""


def quiet_steps(looks: Iterable[Sequence[bool]], steps: Iterable[int]) -> list[int]:
    """Of these steps those with a quiet look before and after, on all ranks.

    `looks` has one sequence a rank: look number n lies between steps n - 1 and n.
    """
    ranks = list(looks)
    return [step for step in steps if all(rank[step] and rank[step + 1] for rank in ranks)]


def calm_steps(looks: Iterable[Sequence[bool]], steps: Sequence[int]) -> Sequence[int]:
    """The quiet ones; all of them where those are too few."""
    quiet = quiet_steps(looks, steps)
    return quiet if len(quiet) >= LEAST_CALM else steps


def typical_s(step_s: Sequence[float], looks: Iterable[Sequence[bool]], steps: Sequence[int]) -> float:
    """Median over those steps."""
    return median(step_s[step] for step in calm_steps(looks, steps))
