"""What a threshold for a class must be like."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import Invalid

CLASSES_NAMED = 20
"""Of those that a threshold may be for, in the words on a wrong one."""


def threshold_check(threshold: str, classes: Sequence[str], *, taken: bool) -> None:
    """Raise `Invalid` unless it is `CLASS=P`, of one of the classes and from 0 to 1.

    `classes`: none where only the program knows them. `taken`: whether the program takes a threshold.
    """
    if not taken:
        hint = "A threshold is for classes; a clone of a job from before has a program that takes one."
        raise Invalid("The predict.py of this job takes no threshold.", field="threshold", hint=hint)
    name, _, share = threshold.rpartition("=")
    known = ", ".join(classes[:CLASSES_NAMED]) + (", ..." if len(classes) > CLASSES_NAMED else "")
    if not _is_share(share) or not name:
        classes_said = f" and one of the classes {known}." if known else ", like yes=0.3."
        hint = f"Write CLASS=P with P from 0 to 1{classes_said}"
        raise Invalid(f"The threshold {threshold!r} is not a class and a probability.", field="threshold", hint=hint)
    if classes and name not in classes:
        raise Invalid(f"{name!r} is no class of this model.", field="threshold", hint=f"Its classes are {known}.")


def _is_share(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False
