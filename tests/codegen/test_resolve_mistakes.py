"""Resolving: each mistake names its field and what would do."""

from __future__ import annotations

import pytest

from codegen.profile.types import ColumnType
from tests.codegen.model_profiles import column, numbers, pictures, table
from tests.codegen.resolving import problems

MISTAKES = {
    "target unknown": ("data: {target: incme}", table(), "data.target", "income"),
    "feature unknown": ("data: {features: [age, towm]}", table(), "data.features", "'towm'"),
    "exclude unknown": ("data: {exclude: [towm]}", table(), "data.exclude", "'towm'"),
    "target among features": ("data: {features: [age, income]}", table(), "data.features", "target"),
    "constant wanted": ("data: {features: [unit]}", table(), "data.features", "unit"),
    "nothing left": (
        "data: {exclude: [age, hours, city, joined, note]}",
        table(),
        "data.features",
        "no column is left",
    ),
    "words as amount": ("task: tabular_regression", table(), "task", "tabular_classification"),
    "pictures as table": ("task: tabular_regression", pictures(), "task", "image_classification"),
    "table as pictures": ("task: image_classification", table(), "task", "table"),
    "one class": ("", table(classes=(("low", 5000),)), "data.target", "only one value"),
    "a class each": (
        "task: tabular_classification",
        table(target_column=column("income", ColumnType.CATEGORY, unique=4000), classes=()),
        "data.target",
        "4,000 classes",
    ),
    "one picture class": ("", pictures(classes=("cat",)), "data.target", "only one class"),
    "too few rows": ("", table(6, classes=(("a", 3), ("b", 3))), "data.dataset", "only 6"),
    "empty test part": (
        "data: {split: {validation: 0.2, test: 0.01}}",
        table(50),
        "data.split.test",
        "less than one row",
    ),
    "no rows left to train on": (
        "data: {split: {validation: 0.98, test: 0.01}}",
        table(100),
        "data.split",
        "leaves 1 to train on; at least 2",
    ),
    "one row per rank": (
        "{data: {split: {validation: 0.49, test: 0.48}}, resources: {count: 2}}",
        table(100),
        "data.split",
        "at least 4 are needed for 2 ranks",
    ),
    "no memory": ("resources: {memory_gib: 0.05}", table(), "resources.memory_gib", "0.5 GiB"),
    "metric of numbers": (
        "objective: {metric: r2}",
        table(),
        "objective.metric",
        "r2 is a metric of numbers, and the task predicts a class",
    ),
    "metric of classes": (
        "objective: {metric: accuracy}",
        numbers(),
        "objective.metric",
        "(tabular_regression); use r2, rmse, mae",
    ),
    "stratified numbers": ("data: {split: {stratify: true}}", numbers(), "data.split.stratify", "classification"),
    "unknown family": ("model: {family: forest}", table(), "model.family", "resmlp"),
    "family of another task": ("model: {family: cnn}", table(), "model.family", "resmlp"),
    "unknown knob": ("model: {family: mlp, params: {depth: 3}}", table(), "model.params.depth", "layers"),
    "knob out of range": ("model: {family: mlp, params: {layers: 99}}", table(), "model.params.layers", "between"),
    "kernel too big": (
        "model: {family: cnn, params: {image_size: 8, kernel: 9, conv_layers: 2}}",
        pictures(),
        "model.params.kernel",
        "bigger than the picture",
    ),
    "no gpu": ("resources: {device: cuda}", pictures(), "resources.device", "no GPU"),
    "too many cores": ("resources: {count: 64}", table(), "resources.count", "2 CPU cores"),
    "too much memory": ("resources: {memory_gib: 4096}", table(), "resources.memory_gib", "8 GiB"),
    "batch above rows": ("training: {batch_size: 100000}", table(), "training.batch_size", "training rows"),
    "a row for two": (
        "mode: sync\nresources: {count: 2}\ntraining: {batch_size: 1}",
        table(),
        "training.batch_size",
        "2 ranks",
    ),
    "table mirrored": ("training: {augment: shift}", table(), "training.augment", "pictures"),
    "numbers smoothed": ("training: {label_smoothing: 0.1}", numbers(), "training.label_smoothing", "classes"),
    "numbers weighted": ("training: {class_weights: balanced}", numbers(), "training.class_weights", "classes"),
    "servers for one": ("mode: async\nresources: {count: 1}", table(), "mode", "2 devices or more"),
    "parts of a row": ("training: {batch_size: 8, accumulate: 5}", table(), "training.accumulate", "at most 4"),
    "statistics of parts": (
        "mode: sync\ntraining: {accumulate: 2, batch_norm: synced}",
        table(),
        "training.batch_norm",
        "2 parts",
    ),
    "columns of pictures": ("data: {features: [a]}", pictures(), "data.features", "pictures"),
}


@pytest.mark.parametrize(("text", "profile", "field", "word"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_names_its_field_and_the_next_step(text, profile, field, word):
    assert word in problems(text, profile)[field]


def test_several_mistakes_come_at_once():
    found = problems("data: {exclude: [nope], features: [neither]}", table())
    assert set(found) == {"data.exclude", "data.features"}
