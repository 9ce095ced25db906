"""Input and output of predict.py: weights, rows, pictures (one or a zip of them), predictions."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor, nn

from worker.cells import cell
from worker.events import finite
from worker.plan import EXIT_REPORTED
from worker.runtime.columns import BLOCK_ROWS, VALUES_AT_ONCE
from worker.runtime.hashed import file_sha256
from worker.runtime.manifest import STATE_FILE, manifest_read
from worker.runtime.onnx_export.predict_table import alike
from worker.runtime.own_file import answer_added
from worker.runtime.picture_input import read_pictures as read_pictures
from worker.runtime.ranges import NOTED
from worker.runtime.ranges import range_limits as range_limits
from worker.runtime.ranges import range_said as range_said
from worker.runtime.seen import planned_tell as planned_tell
from worker.runtime.seen import unseen_tell
from worker.runtime.series_rows import read_series as read_series
from worker.runtime.series_rows import series_coming as series_coming
from worker.runtime.series_rows import series_end as series_end
from worker.runtime.sheets import SHEETS
from worker.runtime.spelling import as_trained, columns_known, unread_value
from worker.runtime.tables import InputError as InputError
from worker.runtime.tables import form_noted
from worker.runtime.tables import read_rows as read_rows
from worker.runtime.threshold import answers as answers
from worker.runtime.threshold import threshold_said as threshold_said

CHUNK = 512
"""Rows or pictures predicted at once."""
INPUTS_KEPT = 1000
"""Rows of the input that a .json repeats, for a page to show; the CSV has them all."""
INPUT_VALUES_KEPT = 200_000
"""Of wide inputs fewer rows."""
ANSWERED = "answered"  # beside `output.json` lies `output-answered.csv`, the person's own file with the answer


def read_preprocess(weights: Path) -> dict[str, Any]:
    """preprocess.json of the results that `weights` belong to. Raises `InputError` if there is none.

    Of a checkpoint without ranges: they are taken from what the best weights say.
    """
    places = [weights.parent, weights, weights.parent.parent / "results", weights.parent.parent.parent / "results"]
    for folder in places:
        if (folder / "preprocess.json").is_file():
            body: dict[str, Any] = json.loads((folder / "preprocess.json").read_text(encoding="utf-8"))
            return {name: value for name, value in body.items() if name != NOTED or weights.suffix == ".safetensors"}
    hint = "Train first: python train.py. The zip of *Download the model* has one where the program writes it."
    raise InputError(f"No preprocess.json beside {weights}.", hint)


def load_weights(net: nn.Module, weights: Path) -> None:
    """Load model.safetensors, or the (averaged) weights of a checkpoint folder. Raises `InputError`."""
    path = _state_file(weights) if weights.is_dir() else weights
    if not path.is_file():
        raise InputError(f"There are no weights at {weights}.", "Train first, or name them by --weights.")
    if path.suffix == ".safetensors":
        state: dict[str, Tensor] = load_file(path)
    else:
        parts = torch.load(path, map_location="cpu", weights_only=True, mmap=True)["parts"]
        state = parts["ema"]["net"] if "ema" in parts else parts["net"]
    try:
        net.load_state_dict(state)
    except RuntimeError as error:
        raise InputError(f"The weights do not fit model.py: {error}", "Use the weights of this program.") from None


def _state_file(checkpoint: Path) -> Path:
    """Of a checkpoint whose file is what was saved: torch loads a flipped bit silently. Raises `InputError`."""
    path = checkpoint / STATE_FILE
    try:
        manifest = manifest_read(checkpoint)
        if manifest is not None and file_sha256(path)[1] == manifest["files"][STATE_FILE]["sha256"]:
            return path
    except FileNotFoundError:
        pass  # removed meanwhile: a run keeps only a few
    except OSError as error:  # which says nothing of the checkpoint
        hint = "Try again; if it lasts, look at that disk, or choose another checkpoint."
        raise InputError(f"The checkpoint {checkpoint.name} cannot be read: {error.strerror or error}.", hint) from None
    raise InputError(f"The checkpoint {checkpoint.name} is damaged, or was removed.", "Choose another checkpoint.")


Transform = Callable[[dict[str, Any], Any], tuple[Tensor, ...]]


def table_inputs(
    transform: Transform, preprocess: dict[str, Any], table: pa.Table, tell: Callable[[str], None] = print
) -> Iterator[tuple[Tensor, ...]]:
    """Inputs of the rows, chunk by chunk, of which many are prepared at a time; `tell` is told which values count as
    missing though something is there, and which lie outside of what training has seen.

    Raises `InputError` naming the column, and the first row at fault.
    """
    if table.num_rows == 0:
        raise InputError("The input has no rows.", "Give a header line and at least one row.")
    table = as_trained(preprocess, table, tell)
    unseen_tell(preprocess, table, tell)
    _try(transform, preprocess, table.slice(0, 0), "", alike(*_lacking(preprocess, table)))
    rows_at_once = CHUNK * max(1, min(BLOCK_ROWS, VALUES_AT_ONCE // max(1, table.num_columns)) // CHUNK)
    for start in range(0, table.num_rows, rows_at_once):
        block = table.slice(start, rows_at_once)
        try:
            inputs = transform(preprocess, block)
        except Exception:
            _row_at_fault(transform, preprocess, block, start)
            raise
        yield from zip(*(torch.split(tensor, CHUNK) for tensor in inputs), strict=True)


def _row_at_fault(transform: Transform, preprocess: dict[str, Any], block: pa.Table, before: int) -> None:
    """Raise `InputError` that names the first row of the block, with so many before it, that cannot be prepared."""
    for start in range(0, block.num_rows, CHUNK):
        chunk = block.slice(start, CHUNK)
        try:
            transform(preprocess, chunk)
        except Exception:
            for row in range(chunk.num_rows):
                _try(transform, preprocess, chunk.slice(row, 1), f"Row {before + start + row + 1}: ")


def picture_inputs(
    transform: Transform, preprocess: dict[str, Any], pictures: Iterator[Image.Image]
) -> Iterator[tuple[Tensor, ...]]:
    """Inputs of the pictures, chunk by chunk."""
    chunk: list[Image.Image] = []
    for picture in pictures:
        chunk.append(picture)
        if len(chunk) == CHUNK:
            yield transform(preprocess, chunk)
            chunk = []
    if chunk:
        yield transform(preprocess, chunk)


def _lacking(preprocess: dict[str, Any], table: pa.Table) -> tuple[list[str], set[str]]:
    """(columns that the program knows and the input lacks, columns of the input that it does not know)."""
    known = columns_known(preprocess)
    return sorted(known - set(table.column_names)), set(table.column_names) - known


def _try(transform: Transform, preprocess: dict[str, Any], rows: pa.Table, where: str, hint: str = "") -> None:
    try:
        transform(preprocess, rows)
    except Exception as error:
        said, remedy = unread_value(preprocess, rows) or (
            str(error), f"{hint} Give the columns the model was trained on, with the same names in the first line."
        )  # fmt: skip
        text = f"{where}{said}"
        raise InputError(text[0].upper() + text[1:], remedy.lstrip()) from None


def write_output(
    path: Path,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    inputs: pa.Table | None = None,
    notes: Sequence[str] = (),
    ranges: str = "",
    source: Path | None = None,
    history: dict[str, Any] | None = None,
) -> None:
    """A .json path gets {columns, rows} and a CSV of the same name beside it; any other path gets CSV.

    The columns of `inputs`, what was predicted for, stand behind the answer in the CSV, and their first rows as
    `inputs` in the .json; so do `notes` on how they were read, what `ranges` of the answer mean, and the `history` that
    a forecast goes on from. Texts that a
    spreadsheet would take for a formula are quoted in the CSV. `source`, the file of the `inputs`, is written with the
    answer added (`own_file`): to the path, where that ends as it does and not in .json, else beside a .json.
    Raises `InputError` for the name of a spreadsheet, which is read, but not written, and for one in a folder that is
    not there.
    """
    if not path.parent.is_dir():
        raise InputError(
            f"There is no folder {path.parent} to write {path.name} to.", "Make it, or name another --output."
        )
    if path.suffix in SHEETS:
        hint = f"Name a CSV, which spreadsheets open: --output {path.with_suffix('.csv').name}"
        raise InputError(f"{path.name} is not written: no spreadsheets are.", hint)
    names = [] if inputs is None else inputs.column_names
    form = None if inputs is None else form_noted(inputs)
    own = columns[1:], [row[1:] for row in rows]  # the own file has its rows in their order, without a number
    if path.suffix == ".json":
        body: dict[str, Any] = {"columns": list(columns), "rows": [list(row) for row in rows]}
        if notes:
            body["notes"] = list(notes)
        if ranges:
            body["ranges"] = ranges
        if history:
            body["history"] = history
        if inputs is not None:
            kept = min(INPUTS_KEPT, INPUT_VALUES_KEPT // max(1, len(names)))
            body["inputs"] = {"columns": names, "rows": list(_input_rows(inputs.slice(0, kept)))}
        path.write_text(json.dumps(finite(body)), encoding="utf-8")
        if source is not None:
            answer_added(source, path.with_name(f"{path.stem}-{ANSWERED}{source.suffix}"), *own, form)
        path = path.with_suffix(".csv")
    elif source is not None and path.suffix == source.suffix and answer_added(source, path, *own, form):
        return
    beside = repeat(()) if inputs is None else _input_rows(inputs)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([cell(name) for name in (*columns, *_apart(names, columns))])
        writer.writerows([cell(value) for value in (*row, *more)] for row, more in zip(rows, beside, strict=False))


def _input_rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    for batch in table.to_batches(max_chunksize=CHUNK):
        yield from zip(*(map(_plain, _values(column)) for column in batch.columns), strict=True)


def _values(column: pa.Array) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):  # a time with nanoseconds, or beyond the years that Python has
        values = column.cast(pa.string()).to_pylist()
    return values


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _apart(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """The names, those of the answer marked as the input's."""
    return [f"{name} (input)" if name in taken else name for name in names]


def fail(error: InputError) -> None:
    """Say in one line what is wrong and in a second what to do, and exit with EXIT_REPORTED.

    The process ends at once: threads of readers that are still open would crash it on the way out.
    """
    for line in (error.message, error.hint or "Compare the input with the data the model was trained on."):
        print(" ".join(line.split()), file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_REPORTED)
