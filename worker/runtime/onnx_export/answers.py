"""What the outputs of model.onnx say of each row, and the CSV that it is written to; needs numpy alone."""

import csv
from pathlib import Path
from typing import Any

import numpy as np

CLASSES_NAMED = 20  # of those that a threshold may be for, in the words on a wrong one


class ThresholdError(Exception):
    """The threshold is not one for this model; the text says what to write."""


def answers_of(
    classes: list[str], outputs: list[np.ndarray], ranges: dict[str, Any] | None = None, threshold: str = ""
) -> list[dict[str, Any]]:
    """One mapping per row: the prediction, of classes also how probable each is, of a number the ends of its range.

    `threshold`: `CLASS=P`; what is of that class with a probability of P or more is called so, nothing else is. Raises
    `ThresholdError`.
    """
    if not classes:
        if threshold:
            raise ThresholdError("A threshold is for classes; this model predicts a number. Leave it out.")
        columns = {"prediction": outputs[0], **range_ends(outputs[0], ranges)}
        return [{name: float(values[row]) for name, values in columns.items()} for row in range(len(outputs[0]))]
    return [
        {"prediction": classes[called], "confidence": float(shares[called])}
        | {f"probability of {name}": float(share) for name, share in zip(classes, shares, strict=True)}
        for called, shares in zip(called_by(classes, outputs[1], threshold), outputs[1], strict=True)
    ]


def called_by(classes: list[str], probabilities: np.ndarray, threshold: str) -> list[int]:
    """Places of the classes that the rows of [N, classes] are called by: the most probable ones without a threshold."""
    if not threshold:
        return [int(place) for place in probabilities.argmax(1)]
    name, _, share = threshold.rpartition("=")
    try:
        least = float(share)
    except ValueError:
        least = -1.0
    if name not in classes or not 0 <= least <= 1:
        known = ", ".join(classes[:CLASSES_NAMED]) + (", ..." if len(classes) > CLASSES_NAMED else "")
        raise ThresholdError(
            f"The threshold {threshold!r} is not a class and a probability. Write CLASS=P with P from 0 to 1 and one "
            f"of the classes {known}."
        )
    place = classes.index(name)
    others = probabilities.copy()
    others[:, place] = -1.0
    return [int(each) for each in np.where(probabilities[:, place] >= least, place, others.argmax(1))]


def range_ends(values: np.ndarray, ranges: dict[str, Any] | None) -> dict[str, np.ndarray]:
    """Ends [N] of the range around each predicted number, by name, as wide as in its part of the predictions; none
    where the training program could find none."""
    if not ranges:
        return {}
    half = np.asarray(ranges["half_widths"])[np.searchsorted(ranges["edges"], values, side="right")]
    return {"prediction_low": values - half, "prediction_high": values + half}


def unread(error: OSError) -> str:
    """`gone.csv: No such file or directory`, where the error tells both."""
    return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)


def write_csv(answers: list[dict[str, Any]], path: Path, unread: int = 0) -> None:
    """One line per answer below their names; told on stdout, less those that are `unread` and have none."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(answers[0]) if answers else ["row"])
        writer.writeheader()
        writer.writerows(answers)
    print(f"{len(answers) - unread} predicted, written to {path}")
