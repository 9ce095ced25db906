"""Cases of `modes_rates`: those that count, and others of the same data for choosing constants."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sklearn import datasets

from codegen.profile.types import DatasetProfile
from tests.worker.runtime import samples

PICTURES = 600
"""Decoding more of them for every training would take longer than the training."""


@dataclass(frozen=True)
class Case:
    """Data, model and batch."""

    data: str
    family: str
    batch: int
    training: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """For the table."""
        return " ".join([self.data, self.family, str(self.batch), *map(str, self.training.values())])


CASES = (
    Case("wine", "mlp", 8), Case("wine", "resmlp", 64), Case("cancer", "mlp", 16), Case("cancer", "mlp", 256),
    Case("diabetes", "mlp", 16), Case("diabetes", "resmlp", 128), Case("diabetes", "mlp", 32, {"optimizer": "sgd"}),
    Case("digits", "mlp", 16), Case("digits", "resmlp", 128), Case("cancer", "ft_transformer", 64),
    Case("pictures", "cnn", 16), Case("pictures", "cnn", 64),
)  # fmt: skip
TUNING = (
    Case("wine", "mlp", 32), Case("cancer", "resmlp", 32), Case("diabetes", "mlp", 64), Case("digits", "mlp", 64),
    Case("cancer", "mlp", 64, {"optimizer": "sgd"}), Case("pictures", "cnn", 32),
)  # fmt: skip


def cancer(folder: Path) -> DatasetProfile:
    """569 rows, 30 numbers, 2 classes."""
    bunch = datasets.load_breast_cancer()
    columns = {name.replace(" ", "_"): bunch.data[:, i] for i, name in enumerate(bunch.feature_names)}
    return samples.pack_table(folder, columns | {"kind": [f"kind {label}" for label in bunch.target]}, "kind")


def digits_table(folder: Path) -> DatasetProfile:
    """1,797 rows, 64 numbers, 10 classes."""
    bunch = datasets.load_digits()
    columns = {f"pixel_{i}": bunch.data[:, i].astype(float) for i in range(64)}
    return samples.pack_table(folder, columns | {"digit": [f"digit {label}" for label in bunch.target]}, "digit")


PACKERS = {
    "pictures": lambda folder: samples.digits(folder, PICTURES),
    "digits": digits_table,
    "wine": samples.wine,
    "cancer": cancer,
    "diabetes": samples.diabetes,
}
