"""Figures of merit of one part, from logits and targets (torch on the CPU; microseconds, no scikit-learn)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from worker.events import FailureCode
from worker.merit import larger_is_better
from worker.runtime.data import Dataset, Part
from worker.runtime.failures import ProgramFailure
from worker.runtime.outcome.curves import roc_area
from worker.runtime.outcome.probabilities import Probabilities, row_blocks


def classification_metrics(logits: Tensor, targets: Tensor) -> dict[str, float]:
    """loss, log_loss, accuracy, balanced_accuracy, macro_f1, roc_auc: logits float32 [N, classes], class numbers [N].

    A row of which the logits say nothing (`says_class`) is of none of the classes, and the loss is none either.
    balanced_accuracy is the mean over classes of the share of their rows that are right, over those that occur in the
    targets; macro_f1 is the mean over those that occur in the targets or the predictions, both as in scikit-learn;
    roc_auc that over the classes of the areas under the ROC curves, each class against all others.
    """
    classes = logits.shape[1]
    known = says_class(logits)
    log_loss = sum(
        float(F.cross_entropy(logits[rows].double(), targets[rows], reduction="sum")) for rows in row_blocks(logits)
    ) / len(targets)
    predicted, there = logits.argmax(1)[known], targets[known]
    named = (there[predicted == there], targets, predicted)
    hits, true, guessed = (torch.bincount(each, minlength=classes).double() for each in named)
    occurs = (true + guessed) > 0
    f1 = 2 * hits[occurs] / (true + guessed)[occurs]
    return {
        "loss": log_loss,
        "log_loss": log_loss,
        "accuracy": float(hits.sum() / len(targets)),
        "balanced_accuracy": float((hits[true > 0] / true[true > 0]).mean()),
        "macro_f1": float(f1.mean()),
        "roc_auc": mean_roc_area(logits, targets),
    }


def says_class(logits: Tensor) -> Tensor:
    """[N]: of which rows the probabilities of classes are finite: the largest logit is, and none is no number."""
    return logits.amax(1).isfinite()


def mean_roc_area(logits: Tensor, targets: Tensor) -> float:
    """Mean area under the ROC curves of the classes that some, but not all targets are of; of two they are the same.

    0.5, as by guessing, where all targets are of one class; NaN where the logits of a row say nothing.
    """
    if not bool(says_class(logits).all()):
        return math.nan
    probabilities, true = Probabilities(logits), targets.numpy()
    counts = np.bincount(true, minlength=logits.shape[1])
    chosen = [place for place, count in enumerate(counts) if 0 < count < len(true)]
    chosen = chosen[:1] if len(counts) == 2 else chosen
    areas = [roc_area(true == place, probabilities.of_class(place)) for place in chosen]
    return sum(areas) / len(areas) if areas else 0.5


def regression_metrics(outputs: Tensor, targets: Tensor, std: float) -> dict[str, float]:
    """loss (on the standardised scale), rmse, mae and r2 (on the scale of the data) from [N, 1] and [N].

    Of targets that are all the same, but for a rounding, r2 is not defined: it is the loss below zero then, so that it
    tells epochs apart.
    """
    predicted = outputs.squeeze(1).double()
    rounding = 4 * torch.finfo(targets.dtype).eps
    targets = targets.double()
    error = predicted - targets
    square = float((error**2).mean())
    # The mean may be off by a rounding as well: the spread tells it not.
    is_flat = bool(targets.max() - targets.min() <= rounding * targets.abs().max())
    spread = float(((targets - targets.mean()) ** 2).mean())
    return {
        "loss": square,
        "rmse": square**0.5 * std,
        "mae": float(error.abs().mean()) * std,
        "r2": 0.0 - square if is_flat or not spread else 1.0 - square / spread,
    }


def metrics_of(dataset: Dataset, part: Part, outputs: Tensor) -> dict[str, float]:
    """The metrics of a part by what the model says of it."""
    targets = dataset.exact_targets(part)
    if part.base is not None:
        base = part.base / dataset.target_std
        outputs, targets = outputs.double() + base[:, None], targets.double() + base
        if part.values is not None:  # not as a sum: equal values would differ by a rounding
            targets = (part.values - dataset.target_mean) / dataset.target_std
    return part_metrics(outputs, targets, dataset.target_std)


def part_metrics(outputs: Tensor, targets: Tensor, std: float) -> dict[str, float]:
    """The metrics of a part; float targets are a regression's. No rows: no metrics."""
    if len(targets) == 0:
        return {}
    if targets.is_floating_point():
        return regression_metrics(outputs, targets, std)
    return classification_metrics(outputs, targets)


def plain_numbers(metrics: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, float]]:
    """The same with tensors and arrays of one number as numbers. Raises `ProgramFailure` that names what is none."""
    plain: dict[str, dict[str, float]] = {}
    for part, values in metrics.items():
        if not isinstance(values, Mapping):
            raise _no_metric(f"metrics[{part!r}]", values, "a dict of numbers by name")
        plain[str(part)] = numbers = {}
        for name, value in values.items():
            try:
                numbers[str(name)] = float(value)  # type: ignore[arg-type]
            except (TypeError, ValueError, RuntimeError):  # the last for tensors of several numbers
                raise _no_metric(f"metrics[{part!r}][{name!r}]", value, "one number") from None
    return plain


def _no_metric(name: str, value: object, wanted: str) -> ProgramFailure:
    shape = f" of shape {list(value.shape)}" if isinstance(value, Tensor | np.ndarray) else ""
    message = f"run.log_epoch(metrics): {name} is a {type(value).__name__}{shape}, not {wanted}."
    hint = 'Put a number of your own beside the others: metrics["val"]["mine"] = float(...).'
    return ProgramFailure(FailureCode.PROGRAM_ERROR, message, hint)


def judged_by(values: Mapping[str, float], name: str) -> float:
    """What an epoch is judged by, which points the same way as the metric `name`: that, or where a program tells none
    of the name its loss, below zero where more of the metric is better.

    Raises `ProgramFailure` where there is neither.
    """
    if name in values:
        return values[name]
    if "loss" not in values:
        message = f"run.log_epoch(metrics) has neither {name} nor loss, by which epochs are judged (objective.metric)."
        raise ProgramFailure(
            FailureCode.PROGRAM_ERROR, message, f'Put one there: metrics["val"]["{name}"] = float(...)'
        )
    return -values["loss"] if is_by_loss(values, name) else values["loss"]


def is_by_loss(values: Mapping[str, float], name: str) -> bool:
    """Whether `judged_by` tells the loss below zero, which no figure of another epoch may be compared with."""
    return name not in values and larger_is_better(name)


def judged_note(name: str) -> str:
    """What a person should know of that."""
    return (
        f"train.py tells no {name} of its epochs: they are judged by their loss, which checkpoints tell below zero, so "
        "that more is better."
    )


def told_values(metrics: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Metrics of parts under the names of curves; the optimised loss is told step by step under its own."""
    told = {f"{part}/{name}": number for part, values in metrics.items() for name, number in values.items()}
    told.pop("train/loss", None)
    return told
