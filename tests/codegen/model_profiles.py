"""Small profiles made by hand, for tests of resolve, suggest and the catalog."""

from __future__ import annotations

from codegen.profile.types import ColumnProfile, ColumnType, DataKind, DatasetProfile, ImagesProfile
from codegen.types import Hardware

GIB = 2**30
TWO_CORES = Hardware(cpu_cores=2, cpu_memory_bytes=8 * GIB)
ONE_GPU = Hardware(cpu_cores=16, cpu_memory_bytes=64 * GIB, gpus=1, gpu_memory_bytes=24 * GIB)


def column(name: str, kind: ColumnType, unique: int = 100, missing: int = 0, **more) -> ColumnProfile:
    return ColumnProfile(name=name, type=kind, guessed_type=kind, reason="", missing=missing, unique=unique, **more)


def table(
    rows: int = 5000,
    *,
    target: str = "income",
    classes: tuple[tuple[str, int], ...] | None = None,
    task: str | None = "tabular_classification",
    target_column: ColumnProfile | None = None,
    given_split: tuple[tuple[str, int], ...] = (),
) -> DatasetProfile:
    """Age (some missing), city, joined (date), note (text), an identifier, a constant and the target."""
    classes = classes if classes is not None else (("low", rows * 3 // 4), ("high", rows - rows * 3 // 4))
    columns = (
        column("age", ColumnType.NUMERIC, missing=3, minimum=0.0),
        column("hours", ColumnType.NUMERIC, minimum=0.0),
        column("city", ColumnType.CATEGORY, unique=12),
        column("joined", ColumnType.DATE),
        column("note", ColumnType.TEXT, unique=rows),
        column("id", ColumnType.IDENTIFIER, unique=rows),
        column("unit", ColumnType.CONSTANT, unique=1),
        target_column or column(target, ColumnType.CATEGORY, unique=len(classes), examples=("low",)),
    )
    return DatasetProfile(
        kind=DataKind.TABLE,
        rows=rows,
        columns=columns,
        target=target,
        target_reason="last column",
        task=task,
        task_reason="few values",
        classes=classes,
        given_split=given_split,
    )


def numbers(rows: int = 4000) -> DatasetProfile:
    """A table whose target is a number."""
    target = column("price", ColumnType.NUMERIC, unique=rows, minimum=0.0)
    return table(rows, target="price", classes=(), task="tabular_regression", target_column=target)


def pictures(
    rows: int = 6000,
    size: int = 32,
    channels: int = 3,
    classes: tuple[str, ...] = ("cat", "dog", "frog"),
    given_split: tuple[tuple[str, int], ...] = (),
) -> DatasetProfile:
    """Square pictures in equally large classes."""
    images = ImagesProfile(
        width_min=size,
        width_max=size,
        width_median=size,
        height_min=size,
        height_max=size,
        height_median=size,
        channels=channels,
        formats=(("PNG", rows),),
        thumbnails=(),
    )
    return DatasetProfile(
        kind=DataKind.IMAGES,
        rows=rows,
        images=images,
        target="label",
        task="image_classification",
        classes=tuple((name, rows // len(classes)) for name in classes),
        given_split=given_split,
    )
