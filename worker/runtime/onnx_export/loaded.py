"""A trained program ready to be exported: its model with the best weights, real rows as its data.py encodes them."""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from worker.runtime import serving
from worker.runtime.onnx_export.portable import Input, Portable, inputs_of
from worker.runtime.onnx_export.reasons import CannotExport
from worker.runtime.onnx_export.rows import ROWS, sample_rows
from worker.runtime.spec import load_spec

BYTES_MAX = 1800 << 20
"""Of weights: one ONNX file holds less than 2 GiB."""
REHEARSED = 3
"""Fewer than the rows that history.py keeps beside those that a forecast needs."""


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """What is exported, and what it is compared on."""

    task: str
    classes: list[str]
    preprocess: dict[str, Any]
    sampled: dict[str, Any]
    """The same, but of a forecast with the end of the data at which `rows` are foretold."""
    rows: Any
    """A `pyarrow.Table`, or a list of pictures."""
    tensors: tuple[Tensor, ...]
    """What data.py makes of them."""
    portable: Portable
    inputs: tuple[Input, ...]

    @property
    def given(self) -> list[Tensor]:
        """The tensors that are inputs of the model."""
        return [self.tensors[each.place] for each in self.inputs]


def load(program: Path, data: Path, weights: Path) -> Loaded:
    """Import the program in the folder `program` and give it its weights. Raises `InputError`, `CannotExport`, and what
    the program raises."""
    sys.path.insert(0, str(program))
    os.chdir(program)
    preprocess = serving.read_preprocess(weights)
    spec = load_spec(program / "spec.yaml")
    net = importlib.import_module("model").build(spec.with_shape(preprocess["shape"])).eval()
    serving.load_weights(net, weights)
    size_bytes = sum(tensor.numel() * tensor.element_size() for tensor in net.state_dict().values())
    if size_bytes > BYTES_MAX:
        raise CannotExport.too_large(size_bytes)
    sampled = preprocess
    if "forecast" in preprocess:
        sampled = {**preprocess, "forecast": with_end(preprocess["forecast"])}
        rows = importlib.import_module("history").coming(sampled["forecast"])[0].slice(0, ROWS)
    else:
        rows = sample_rows(data)
    tensors = importlib.import_module("data").transform(preprocess, rows)
    is_classification = str(spec.task).endswith("classification")
    portable = Portable(net, tensors, preprocess, is_classification=is_classification).eval()
    return Loaded(
        task=str(spec.task),
        classes=[str(name) for name in preprocess.get("classes") or ()],
        preprocess=preprocess,
        sampled=sampled,
        rows=rows,
        tensors=tensors,
        portable=portable,
        inputs=inputs_of(net, tensors, portable.output_names),
    )


def with_end(about: dict[str, Any]) -> dict[str, Any]:
    """What is known of the end of the data, so that something can be foretold: where columns are known ahead, and there
    is no row of a moment to come, the last rows of each series stand for such."""
    if not about.get("known"):
        return about
    recent, target = about["recent"], about["target"]
    names = recent[about["series"]] if about["series"] else [""] * len(recent[target])
    last = {
        row for name in dict.fromkeys(names) for row in [r for r, of in enumerate(names) if of == name][-REHEARSED:]
    }
    values = [None if row in last else value for row, value in enumerate(recent[target])]
    return {**about, "recent": recent | {target: values}}
