"""What short trainings at a few learning rates say: the rate to take; and whether they are worth their time.

A range test sees the training loss of a hundred steps. Trials (`worker.rate_search`) are judged by the loss of the
validation rows after runs of the program itself, so they see overfitting, and what comes after the first steps. Here
the best of the last round is taken, moved to the vertex of a parabola in log10(rate) through it and its neighbours.
Pure, deterministic, and the same for a loss in any unit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from scheduler.rates.record import RateUnclear
from worker.rate_search import HIGHEST, LOWEST, Trial, best_of, most_share

__all__ = [
    "RateUnclear", "TrialChoice", "TrialsRecord", "most_share", "trial_choice", "trials_asked_s", "trials_left_out",
    "trials_s", "trials_scale",
]  # fmt: skip

LEAST_SCALE = 0.5
"""Trials that are shortened by more say too little of the run."""
MOST_TRIALS = 40
LIMITS_S = {"auto": 60.0, "always": 900.0, "never": 0.0}
"""What all trials may take by what was wished, as foretold by the steps of the range test."""
ASK = "They would take longer than tests do by themselves: ask for them."
TOO_LONG = "They would take too long on this device."
SHORT_ALONE = (
    "Time ran out before a whole training: the best rate of short ones may be too large for the run. "
    "Ask for trials once more on an idle device, or take the centre."
)
UNKNOWN = "How long the run would take is not known."


@dataclass(frozen=True, kw_only=True)
class TrialsRecord:
    """Trials as a node made them. Raises `ValueError` where they are none."""

    centre: float
    scale: float
    done: tuple[Trial, ...]

    def __post_init__(self) -> None:
        if len(self.done) > MOST_TRIALS:
            raise ValueError(f"there are at most {MOST_TRIALS} trials")
        for trial in self.done:
            if not LOWEST <= trial.rate <= HIGHEST or not 0 < trial.share <= 1 or trial.round < 1:
                raise ValueError("a trial has a rate, a share of the run and the number of its round")
            if trial.loss is not None and not math.isfinite(trial.loss):
                raise ValueError("a loss is a finite number or none")

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> TrialsRecord:
        """Inverse of `to_dict`. Raises `ValueError`."""
        try:
            done = tuple(
                Trial(
                    round=int(one["round"]), rate=float(one["rate"]), share=float(one["share"]),
                    loss=None if one["loss"] is None else float(one["loss"]),
                )
                for one in body["done"]
            )  # fmt: skip
            return TrialsRecord(centre=float(body["centre"]), scale=float(body["scale"]), done=done)
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"this is not a record of trials: {error}") from error


@dataclass(frozen=True, kw_only=True)
class TrialChoice:
    """The rate to take."""

    rate: float
    """Peak learning rate."""
    best: float
    """The rate that was tried and had the smallest loss of the last round."""
    share: float
    """Of the run's steps, that all trials made together."""
    notes: tuple[str, ...]


def trials_scale(run_s: float, limit_s: float) -> float:
    """By how much trials are shortened, so that all of them take `limit_s` at most; 0: too much, they are not made."""
    if not (run_s > 0 and math.isfinite(run_s)):
        return 0.0
    scale = min(1.0, limit_s / (run_s * most_share()))
    return scale if scale >= LEAST_SCALE else 0.0


def trials_left_out(wish: str, run_s: float) -> str:
    """Why trials of a run of so many seconds (0: nobody knows) are not made, in a sentence; empty: they are."""
    if wish == "never":
        return "They were not asked for."
    if not (run_s > 0 and math.isfinite(run_s)):
        return UNKNOWN
    if trials_scale(run_s, LIMITS_S.get(wish, 0.0)):
        return ""
    return ASK if trials_scale(run_s, LIMITS_S["always"]) else TOO_LONG


def trials_asked_s(run_s: float) -> float:
    """What all trials take at most, about, if they are asked for; at full length where they are not made even then."""
    return trials_s(run_s, trials_scale(run_s, LIMITS_S["always"]) or 1.0)


def trials_s(run_s: float, scale: float) -> float:
    """What all trials take at most, about."""
    return run_s * most_share() * scale


def trial_choice(record: TrialsRecord) -> TrialChoice:
    """The rate to take. Raises `RateUnclear` where no trial ended with a finite loss."""
    told = [trial for trial in record.done if trial.loss is not None]
    if not told:
        raise RateUnclear(
            "no_trial",
            "No trial ended with a finite validation loss, so nothing can be concluded.",
            "Take a smaller rate, or allow the trials more time.",
        )
    last = [trial for trial in record.done if trial.round == max(trial.round for trial in told)]
    best = best_of(last)
    tried = sorted(trial.rate for trial in last)
    notes = []
    if best.round == 1:
        notes.append(_short_words([trial.rate for trial in record.done if trial.round > 1]))
    elif best.rate in (tried[0], tried[-1]):
        side = "smaller" if best.rate == tried[0] else "larger"
        notes.append(f"The best rate is the last that was tried on its side: {side} ones may be better.")
    share = sum(trial.share for trial in record.done)
    return TrialChoice(rate=_vertex(last, best), best=best.rate, share=share, notes=tuple(notes))


def _short_words(longer: Sequence[float]) -> str:
    """Of the best of short trials; `longer`: rates of whole trainings, of which none ended with a finite loss."""
    if not longer:
        return SHORT_ALONE
    return (
        f"No longer training ended with a finite loss, the one with {min(longer):.3g} neither: the best rate of short "
        "ones may be too large for the run. Take a smaller one than that."
    )


def _vertex(trials: Sequence[Trial], best: Trial) -> float:
    """Of the parabola through the best and its neighbours, half the way to them at most; else the best itself."""
    points = sorted(trials, key=lambda trial: trial.rate)
    place = points.index(best)
    if not 0 < place < len(points) - 1:
        return best.rate
    below, above = points[place - 1].loss, points[place + 1].loss
    x = [math.log10(trial.rate) for trial in points[place - 1 : place + 2]]
    if best.loss is None or below is None or above is None or not x[0] < x[1] < x[2]:
        return best.rate
    left, right = (best.loss - below) / (x[1] - x[0]), (above - best.loss) / (x[2] - x[1])
    if not (right > left and math.isfinite(right - left)):
        return best.rate
    # Both are slopes half-way to the neighbours; the vertex is where the straight line between them is 0.
    return float(10 ** ((x[0] + x[1]) / 2.0 - left * (x[2] - x[0]) / 2.0 / (right - left)))
