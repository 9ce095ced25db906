"""From which probability on a row is called by a class; without a threshold it is called by the most probable one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from worker.runtime.tables import InputError

CLASSES_NAMED = 20
"""Of those that a threshold may be for, in the words on a wrong one."""


def answers(probabilities: Tensor, classes: Sequence[str], threshold: str = "") -> Tensor:
    """Numbers of the classes that the rows of [N, classes] are called by: the most probable ones.

    `threshold`: `CLASS=P`; rows of that class with a probability of P or more are called by it, no others. Raises
    `InputError`.
    """
    if not threshold:
        return probabilities.argmax(1)
    name, _, share = threshold.rpartition("=")
    try:
        least = float(share)
    except ValueError:
        least = -1.0
    if name not in classes or not 0 <= least <= 1:
        known = ", ".join(classes[:CLASSES_NAMED]) + (", ..." if len(classes) > CLASSES_NAMED else "")
        raise InputError(
            f"The threshold {threshold!r} is not a class and a probability.",
            f"Write CLASS=P with P from 0 to 1 and one of the classes {known}.",
        )
    number = list(classes).index(name)
    others = probabilities.clone()
    others[:, number] = -1.0
    return torch.where(probabilities[:, number] >= least, number, others.argmax(1))


def threshold_said(threshold: str) -> list[str]:
    """What a threshold makes of the answer, in a sentence; none without one."""
    name, _, share = threshold.rpartition("=")
    return [f"What is {name!r} with a probability of {share} or more is called so, nothing else."] if threshold else []
