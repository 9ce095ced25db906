"""Sample datasets made from what scikit-learn carries, so that a first job needs no download."""

from __future__ import annotations

import csv
import io
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from harness.errors import NotFound

if TYPE_CHECKING:
    from harness.accounts.models import Project, User
    from harness.datasets.models import Dataset

DIGIT_LEVELS = 16
"""Grey levels of scikit-learn's digits."""
ZIP_TIME = (2020, 1, 1, 0, 0, 0)
"""Fixed, so that the same sample has the same bytes and is stored once."""


def _digits(path: Path) -> None:
    from sklearn.datasets import load_digits

    digits = load_digits()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for row, (pixels, label) in enumerate(zip(digits.images, digits.target, strict=True)):
            picture = Image.fromarray((pixels * (255 / DIGIT_LEVELS)).round().astype("uint8"))
            body = io.BytesIO()
            picture.save(body, format="PNG")
            archive.writestr(zipfile.ZipInfo(f"{label}/{row:04d}.png", ZIP_TIME), body.getvalue())


def _table(path: Path, bunch: Any, target: str, labels: list[str] | None) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([*(str(name).replace("/", "_per_") for name in bunch.feature_names), target])
        for features, value in zip(bunch.data, bunch.target, strict=True):
            writer.writerow([*(f"{item:.10g}" for item in features), labels[value] if labels else f"{value:.10g}"])


def _wine(path: Path) -> None:
    from sklearn.datasets import load_wine

    bunch = load_wine()
    _table(path, bunch, "cultivar", [str(name) for name in bunch.target_names])


def _diabetes(path: Path) -> None:
    from sklearn.datasets import load_diabetes

    _table(path, load_diabetes(scaled=False), "progression", None)


SAMPLES: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "digits": ("digits.zip", _digits, "1,797 pictures of hand-written digits, 8 x 8, ten classes"),
    "wine": ("wine.csv", _wine, "178 wines, 13 measurements, three cultivars"),
    "diabetes": ("diabetes.csv", _diabetes, "442 patients, ten measurements, progression after a year"),
}
"""Name of each sample: file name, maker, what it is in one line."""


def sample_file(name: str, folder: Path) -> Path:
    """Make the file of a sample in `folder`; the same bytes each time. Raises `NotFound`."""
    if name not in SAMPLES:
        raise NotFound(f"There is no sample called {name}.", field="name", hint=f"Use one of: {', '.join(SAMPLES)}.")
    file_name, make, _ = SAMPLES[name]
    path = folder / file_name
    make(path)
    return path


def sample_create(*, user: User, project: Project, name: str) -> Dataset:
    """Add a sample to a project as if the person had uploaded it. Raises `NotFound`, `Forbidden`."""
    from harness.datasets.services import dataset_create_from_file

    with tempfile.TemporaryDirectory() as folder:
        path = sample_file(name, Path(folder))
        return dataset_create_from_file(user=user, project=project, name=f"{name} (sample)", path=path)
