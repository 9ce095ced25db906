"""Programs of a sweep's points, rendered as for people's jobs, and made data of the shape they want."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from codegen.profile.types import ColumnProfile, ColumnType, DataKind, DatasetProfile, ImagesProfile
from codegen.render import render
from codegen.resolve import resolve
from codegen.spec import Task, TaskSpec
from codegen.types import Hardware
from scheduler.estimation.sweep import DataShape, SweepPoint

HARDWARE = Hardware(cpu_cores=1, cpu_memory_bytes=8 << 30)


def write_program(point: SweepPoint, root: Path) -> tuple[Path, Path]:
    """(program folder, data folder) of a point below `root`; made once."""
    data, profile = write_data(point, root)
    return write_spec(point.spec, profile, root / "programs" / point.point_id), data


def write_spec(parts: dict[str, Any], profile: DatasetProfile, folder: Path) -> Path:
    """Render the program of a spec into `folder`."""
    if not (folder / "train.py").is_file():
        spec = TaskSpec.model_validate({**parts, "resources": {"device": "cpu", "count": 1}})
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in render(resolve(spec, profile, HARDWARE), profile).files.items():
            (folder / name).write_text(text, encoding="utf-8")
    return folder


def write_data(point: SweepPoint, root: Path) -> tuple[Path, DatasetProfile]:
    """Made rows of the point's shape; random, since no step's time depends on what the rows say."""
    if point.task is Task.IMAGE_CLASSIFICATION:
        return _pictures(root / "data", point.data, int(point.params["image_size"]))
    return _table(root / "data", point.data)


@cache
def _pictures(root: Path, shape: DataShape, size: int) -> tuple[Path, DatasetProfile]:
    folder = root / f"pictures-{shape.channels}-{size}-{shape.rows}"
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    labels = [f"class {number % shape.outputs}" for number in range(shape.rows)]
    blobs = []
    for _ in range(shape.rows):
        out = io.BytesIO()
        Image.fromarray(generator.integers(0, 255, (size, size, shape.channels), dtype=np.uint8)).save(
            out, "PNG", compress_level=1
        )
        blobs.append(out.getvalue())
    names = [f"{number}.png" for number in range(shape.rows)]
    sizes = {"width": [size] * shape.rows, "height": [size] * shape.rows}
    pq.write_table(pa.table({"image": blobs, "label": labels, "name": names, **sizes}), folder / "images.parquet")
    sides = {f"{side}_{what}": size for side in ("width", "height") for what in ("min", "max", "median")}
    images = ImagesProfile(
        **sides,
        channels=shape.channels,
        formats=(("PNG", shape.rows),),
        thumbnails=(),
        channel_mean=(0.5,) * shape.channels,
        channel_std=(0.29,) * shape.channels,
    )
    classes = tuple((name, labels.count(name)) for name in sorted(set(labels)))
    profile = DatasetProfile(
        kind=DataKind.IMAGES,
        rows=shape.rows,
        images=images,
        target="label",
        task=Task.IMAGE_CLASSIFICATION.value,
        classes=classes,
    )
    return folder, profile


@cache
def _table(root: Path, shape: DataShape) -> tuple[Path, DatasetProfile]:
    folder = root / f"table-{shape.features}-{len(shape.cardinalities)}-{shape.rows}"
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    columns: dict[str, Any] = {f"number {i}": generator.normal(size=shape.rows) for i in range(shape.features)}
    for number, count in enumerate(shape.cardinalities):
        values = generator.integers(0, count - 1, shape.rows)
        columns[f"word {number}"] = [f"w{value}" for value in values]
    columns["target"] = [f"class {value}" for value in generator.integers(0, shape.outputs, shape.rows)]
    table = pa.table(columns)
    pq.write_table(table, folder / "table.parquet")
    profiles = []
    for name in table.column_names:
        values = table[name].to_pylist()
        kind = ColumnType.CATEGORY if isinstance(values[0], str) else ColumnType.NUMERIC
        counts = {value: values.count(value) for value in dict.fromkeys(values)} if kind is ColumnType.CATEGORY else {}
        top = tuple((str(value), count) for value, count in counts.items())
        profiles.append(
            ColumnProfile(
                name=name,
                type=kind,
                guessed_type=kind,
                reason="made",
                missing=0,
                unique=len(set(values)),
                top_values=top,
            )
        )
    classes = tuple((name, columns["target"].count(name)) for name in sorted(set(columns["target"])))
    profile = DatasetProfile(
        kind=DataKind.TABLE,
        rows=shape.rows,
        columns=tuple(profiles),
        target="target",
        task=Task.TABULAR_CLASSIFICATION.value,
        classes=classes,
    )
    return folder, profile
