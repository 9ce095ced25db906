"""From a point of the sweep's plan to a program: the same generator as for people's jobs, on data that is made up."""

from __future__ import annotations

from codegen.profile.types import ColumnProfile, ColumnType, DataKind, DatasetProfile, ImagesProfile
from codegen.spec import Task
from codegen.types import Hardware, Program
from harness.jobs.programs import program_render, resolve_spec, spec_read
from scheduler.estimation.sweep import DataShape, SweepPoint

TARGET = "target"
_HARDWARE = Hardware(cpu_cores=1, cpu_memory_bytes=1 << 40, gpus=1, gpu_memory_bytes=1 << 40)
"""Enough for any point: the node itself says when one does not fit."""


def point_program(point: SweepPoint) -> tuple[Program, DatasetProfile]:
    """The program of a point and the profile of its data. Raises `SpecInvalid`."""
    profile = point_profile(point)
    spec = spec_read({**point.spec, "resources": {"device": "cpu", "count": 1}})
    return program_render(resolve_spec(spec, profile, _HARDWARE), profile, None), profile


def point_profile(point: SweepPoint) -> DatasetProfile:
    """What a dataset of the point's shape would be profiled as."""
    return _pictures(point) if point.task is Task.IMAGE_CLASSIFICATION else _table(point)


def _classes(data: DataShape) -> tuple[tuple[str, int], ...]:
    each, more = divmod(data.rows, data.outputs)
    return tuple((f"class {number}", each + (number < more)) for number in range(data.outputs))


def _pictures(point: SweepPoint) -> DatasetProfile:
    size, channels = int(point.params["image_size"]), point.data.channels
    images = ImagesProfile(
        width_min=size, width_max=size, width_median=size, height_min=size, height_max=size, height_median=size,
        channels=channels, formats=(("PNG", point.data.rows),), thumbnails=(),
        channel_mean=(0.5,) * channels, channel_std=(0.25,) * channels,
    )  # fmt: skip
    classes = _classes(point.data)
    return DatasetProfile(
        kind=DataKind.IMAGES, rows=point.data.rows, images=images, task=point.task.value, classes=classes
    )


def _table(point: SweepPoint) -> DatasetProfile:
    data = point.data
    numbers = [_column(f"number {index}", ColumnType.NUMERIC, data.rows) for index in range(data.features)]
    # The program adds a bucket for unknown values to each category.
    categories = [
        _column(f"category {index}", ColumnType.CATEGORY, count - 1) for index, count in enumerate(data.cardinalities)
    ]
    classes = _classes(data)
    regression = point.task is Task.TABULAR_REGRESSION
    kind = ColumnType.NUMERIC if regression else ColumnType.CATEGORY
    target = _column(TARGET, kind, data.rows if regression else data.outputs, () if regression else classes)
    return DatasetProfile(
        kind=DataKind.TABLE, rows=data.rows, columns=(*numbers, *categories, target), target=TARGET,
        task=point.task.value, classes=() if regression else classes,
    )  # fmt: skip


def _column(name: str, kind: ColumnType, unique: int, top_values: tuple[tuple[str, int], ...] = ()) -> ColumnProfile:
    return ColumnProfile(
        name=name, type=kind, guessed_type=kind, reason="made up", missing=0, unique=unique, top_values=top_values
    )
