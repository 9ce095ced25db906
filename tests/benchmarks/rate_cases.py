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
FURTHER = (
    Case("friedman", "mlp", 16), Case("friedman", "resmlp", 64), Case("friedman", "ft_transformer", 64),
    Case("classes", "mlp", 32), Case("classes", "resmlp", 128), Case("classes", "mlp", 256), Case("hastie", "mlp", 64),
    Case("hastie", "resmlp", 32, {"optimizer": "sgd"}), Case("cancer", "ft_transformer", 32),
    Case("wine", "resmlp", 16), Case("digits", "resmlp", 32), Case("diabetes", "resmlp", 32),
)  # fmt: skip
"""More of them, half of made-up data: six cases cannot tell lengths of trials apart."""


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


def friedman(folder: Path) -> DatasetProfile:
    """1,200 rows, 10 numbers, five of them idle; a noisy number as target."""
    values, target = datasets.make_friedman1(n_samples=1200, noise=2.0, random_state=1)
    return samples.pack_table(folder, _columns(values) | {"answer": target}, "answer")


def hastie(folder: Path) -> DatasetProfile:
    """1,500 rows, 10 numbers, 2 classes: inside or outside of a sphere."""
    values, target = datasets.make_hastie_10_2(n_samples=1500, random_state=2)
    return samples.pack_table(folder, _columns(values) | {"kind": [f"kind {label:g}" for label in target]}, "kind")


def classes(folder: Path) -> DatasetProfile:
    """1,500 rows, 20 numbers, 5 classes, one label in twenty wrong."""
    values, target = datasets.make_classification(
        n_samples=1500, n_features=20, n_informative=10, n_classes=5, flip_y=0.05, random_state=3
    )
    return samples.pack_table(folder, _columns(values) | {"kind": [f"kind {label}" for label in target]}, "kind")


def _columns(values: Any) -> dict[str, Any]:
    return {f"value_{place}": values[:, place] for place in range(values.shape[1])}


PACKERS = {
    "pictures": lambda folder: samples.digits(folder, PICTURES),
    "digits": digits_table,
    "wine": samples.wine,
    "cancer": cancer,
    "diabetes": samples.diabetes,
    "friedman": friedman,
    "hastie": hastie,
    "classes": classes,
}
