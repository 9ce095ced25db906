"""Made-up rows for a program whose data are not at hand: from the shape in its spec.yaml, packed as usual."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from worker.runtime.moments import MEAN_MONTH_S, MONTH_S
from worker.runtime.series_checks import WHEN_MADE
from worker.runtime.spec import Spec
from worker.runtime.split import split_rows

ROWS = 256
SEED = 3


def make_rows(spec: Spec, folder: Path, rows: int = ROWS) -> Path:
    """Write the packed file that the program of `spec` reads into `folder`, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(SEED)
    if "height" in spec.shape:
        pq.write_table(_pictures(spec.shape, rows, generator), folder / "images.parquet")
    elif "windows" in spec.shape:
        pq.write_table(_series(spec, rows, generator), folder / "table.parquet")
    else:
        table = _table(spec.shape, rows, generator)
        if "column" in (split := spec.get("data", {}).get("split", {})):
            table = table.append_column("__split__", pa.array(_parts(split, rows)))
        pq.write_table(table, folder / "table.parquet")
    return folder


def _labels(shape: Spec, rows: int) -> list[str]:
    names = [str(name) for name in shape.get("classes") or range(int(shape.outputs))]
    return [names[row % len(names)] for row in range(rows)]


def _pictures(shape: Spec, rows: int, generator: np.random.Generator) -> pa.Table:
    height, width, channels = int(shape.height), int(shape.width), int(shape.channels)
    blobs = []
    for _ in range(rows):
        pixels = generator.integers(0, 256, (height, width, channels), dtype=np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels).save(buffer, "PNG", compress_level=0)
        blobs.append(buffer.getvalue())
    names = [f"{row}.png" for row in range(rows)]
    sizes = {"width": [width] * rows, "height": [height] * rows}
    return pa.table({"image": blobs, "label": _labels(shape, rows), "name": names, **sizes})


def _table(shape: Spec, rows: int, generator: np.random.Generator) -> pa.Table:
    """Every input changes from row to row, and nothing else: what does not would be left out of the model."""
    features = shape.get("features", [])
    makers: dict[str, Callable[[str], Any]] = {
        "numeric": lambda _: generator.normal(size=rows),
        "dates": lambda name: _moments(name, features, rows, generator),
        "texts": lambda name: _texts(name, features, 2 * int(shape.get("topics", 1)), rows, generator),
    }
    gaps, none = np.arange(rows) % 7 == 0, np.zeros(rows, dtype=bool)
    columns: dict[str, Any] = {
        name: pa.array(make(name), mask=gaps if name in shape.get("indicators", []) else none)
        for kind, make in makers.items()
        for name in shape.get(kind, [])
    }
    for name, size in zip(shape.get("categorical", []), shape.get("cardinalities", []), strict=True):
        columns[name] = [f"value {row % max(1, int(size) - 1)}" for row in range(rows)]
    columns[str(shape.target)] = _labels(shape, rows) if shape.get("classes") else generator.normal(size=rows)
    return pa.table(columns)


def _series(spec: Spec, rows: int, generator: np.random.Generator) -> pa.Table:
    """Of a forecast: so many rows more that some look back as far as all do, and others not; two series if any."""
    data, shape = spec.data, spec.shape
    reach = max(int(data.history), *(int(window.get("steps", 0)) for window in shape.windows))
    each, names = rows + 2 * reach + int(data.horizon), [f"series {number}" for number in range(2)]
    count = each * len(names) if data.get("series") else each
    made = {window["name"] for window in shape.windows}
    made |= {WHEN_MADE.format(name) for name in data.get("known", [])}
    columns: dict[str, Any] = {str(data.time): np.resize(_steps(float(shape.step_s), each), count)}
    for name in shape.numeric:
        if name not in made:
            gaps = np.arange(count) % 7 == 0
            columns[name] = pa.array(generator.normal(size=count), mask=gaps & (name in shape.indicators))
    for name, size in zip(shape.categorical, shape.cardinalities, strict=True):
        if name not in made:
            columns[name] = [f"value {number}" for number in generator.integers(0, max(1, int(size) - 1), count)]
    columns |= {str(data.series): np.repeat(names, each)} if data.get("series") else {}
    return pa.table(columns | {str(shape.target): generator.normal(size=count)})


def _steps(step_s: float, count: int) -> Any:
    """Moments a step apart: the first days of months, where it is one or several."""
    if step_s >= MONTH_S:
        months = np.arange(count) * round(step_s / MEAN_MONTH_S)
        return (np.datetime64("1900-01", "M") + months).astype("datetime64[us]")
    return np.datetime64("2000-01-03", "us") + np.arange(count) * np.timedelta64(round(step_s * 1e6), "us")


def _moments(name: str, features: list[str], rows: int, generator: np.random.Generator) -> Any:
    """Without what no input is made of: the hour of plain dates, the weekday where there is one date a week."""

    def some(part: str, count: int) -> Any:
        return generator.integers(0, count, rows) if f"{name}: {part}" in features else np.zeros(rows, np.int64)

    months = np.datetime64("2000-01", "M") + 12 * some("year", 30) + some("month", 12)
    days = months.astype("datetime64[D]").astype(np.int64) + 6 + generator.integers(0, 22, rows)
    if f"{name}: weekday" not in features:
        days -= days % 7
    return days.astype("datetime64[D]").astype("datetime64[us]") + some("hour", 24) * np.timedelta64(1, "h")


def _texts(name: str, features: list[str], words: int, rows: int, generator: np.random.Generator) -> Any:
    """Of so many words in any order, twice as many as there are topics."""
    counts = generator.integers(1, 9, rows)
    lengths = counts if f"{name}: characters" in features else np.full(rows, 9)
    gap = " " if f"{name}: words" in features else "-"
    texts = []
    for count, length in zip(counts.tolist(), lengths.tolist(), strict=True):
        said = "".join(f"a{word}{gap}" for word in generator.integers(0, words, count))
        texts.append(said + "b" * (20 * length - len(said)))
    return np.array(texts, dtype=object)


def _parts(split: Spec, rows: int) -> list[str]:
    """The part of each row, given, as there are no groups or times to split by."""
    names = np.full(rows, "train", dtype="<U5")
    for part, chosen in split_rows(rows, split.validation, split.test, SEED).items():
        names[chosen] = part
    return [str(name) for name in names]
