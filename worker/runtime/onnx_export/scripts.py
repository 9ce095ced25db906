"""The scripts that go with the model, and whether they prepare rows exactly as the program's data.py does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from worker.runtime import moments, pictures, row_text, series_checks, unseen
from worker.runtime.onnx_export import answers, predict_pictures, predict_series, predict_table, table_rows

SCRIPT_FILE = "predict_onnx.py"
WINDOWS_FILE = "windows.py"
SCRIPT_FILES = (
    SCRIPT_FILE, "answers.py", "table_rows.py", "pictures.py", "predict_table.py", "series_checks.py", "moments.py",
    "unseen.py", "row_text.py", WINDOWS_FILE,
)  # fmt: skip
"""What may go with a model: the script, and what it imports."""
_OURS = re.compile(r"^from worker\.runtime\.(?:onnx_export\.)?(\w+) import", re.MULTILINE)
EXACT = 1e-5
"""Numbers may differ by so much: the last digits of a float32."""


def scripts_for(preprocess: dict[str, Any], rows: Any, tensors: Sequence[np.ndarray]) -> dict[str, str]:
    """Name -> text; none where they do not make `tensors` of `rows`: a data.py of a person's own."""
    is_table = isinstance(rows, pa.Table)
    module = predict_table if is_table else predict_pictures
    try:
        made = module.encode(preprocess, _plain_rows(rows) if is_table else rows)
    except Exception:  # whatever it meets in a preprocess.json that is not of our making
        return {}
    if len(made) != len(tensors) or not all(map(_same, made, tensors)):
        return {}
    beside = (answers, *((table_rows, row_text, unseen) if is_table else (pictures,)))
    return {SCRIPT_FILE: _text(module), **{Path(str(each.__file__)).name: _text(each) for each in beside}}


def series_scripts_for(preprocess: dict[str, Any], tensors: Sequence[np.ndarray], program: Path) -> dict[str, str]:
    """Of a forecast: name -> text, with the windows.py of the `program`, which can be imported; none where they do not
    make `tensors` [N] of the end of the data, or the program is an older one without that file."""
    windows = program / WINDOWS_FILE
    if not windows.is_file():
        return {}
    try:
        made = predict_table.encode(preprocess, predict_series.coming(preprocess["forecast"]).rows[: len(tensors[0])])
    except Exception:  # whatever it meets in files that may be a person's own
        return {}
    if len(made) != len(tensors) or not all(map(_same, made, tensors)):
        return {}
    beside = (answers, table_rows, row_text, predict_table, series_checks, moments, unseen)
    texts = {Path(str(each.__file__)).name: _text(each) for each in beside}
    return {SCRIPT_FILE: _text(predict_series), **texts, WINDOWS_FILE: windows.read_text(encoding="utf-8")}


def _text(module: ModuleType) -> str:
    """Its source as it lies beside the others of them."""
    return _OURS.sub(r"from \1 import", Path(str(module.__file__)).read_text(encoding="utf-8"))


def _plain_rows(table: pa.Table) -> list[dict[str, str]]:
    """The rows as a CSV would have them; lists and the like, never trained on, left out."""
    kept = [field.name for field in table.schema if not pa.types.is_nested(field.type)]
    columns = {name: table[name].cast(pa.string()).to_pylist() for name in kept}
    return [{name: columns[name][at] or "" for name in kept} for at in range(table.num_rows)]


def _same(made: np.ndarray, given: np.ndarray) -> bool:
    alike = made.shape == given.shape and made.dtype == given.dtype
    return alike and bool(np.allclose(made, given, rtol=EXACT, atol=EXACT))
