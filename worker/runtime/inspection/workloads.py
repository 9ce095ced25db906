"""From two recorded steps to the JSON of a workload (`scheduler.workload.Workload.from_dict` reads it)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from worker.runtime.data import Dataset, Part
from worker.runtime.evaluation import SAMPLE_ROWS
from worker.runtime.inspection.operators import Entry
from worker.runtime.inspection.tracer import Step
from worker.runtime.spec import Spec
from worker.runtime.synced_norm import can_share

VERSION = 1
"""`scheduler.workload.WORKLOAD_VERSION`."""
ORDINARY_LOAD_S = 3.0
"""Up to here a program's own start is like those that the start of a run is fitted to, on a host that is busy."""
LOADING = {
    "image_classification": (2.0, 0), "tabular_classification": (8.0, 0), "tabular_regression": (8.0, 0),
    "forecast": (8.0, 0),
}  # fmt: skip
"""(times the rows' own memory, bytes beside it for each row) that data.py takes while it reads them: pictures are there
once more as they are shared out to the parts; a table read whole has 64 bits in each column, and lies there again.
Measured: docs/estimation.md, Memory."""
LOADING_BY_COLUMN = (1.0, 130)
"""Of a table that is read one column at a time: to share its rows out, numbers of them are sorted."""
LEARNED_LETTERS = 1 << 24
"""That the words of texts are learned from at most: `LEARN_LETTERS` of the program's words.py."""
COLUMN_TIMES, WORDS_TIMES, WORDS_BYTES, SCORE_BYTES = 3.0, 12.0, 96 << 20, 13 << 20
"""What learning words takes before rows are shared out: times the columns of text (as they are read, and as their rows
are chosen), times what is learned from, bytes beside, bytes for each score. Measured: docs/estimation.md, Memory."""
LEARNED_ROWS = 100_000
"""The same of rows: its `LEARN_ROWS`."""
WORDS_S, LEARN_LETTER_S, SCORE_LETTER_S, READ_LETTER_S = 0.5, 5e-7, 4e-8, 1e-7
"""What learning words takes of one core: seconds in any case, for each letter that is learned from, for each score of
it, and for each letter of all rows. Measured: docs/estimation.md, The whole run."""
_READS_COLUMNS = re.compile(r"^\s*(?:from|import)\s+worker\.runtime\.columns\b", re.MULTILINE)
FIXED = frozenset({"in", "out", "kernel", "size", "groups", "queries", "keys", "width"})
"""Of a shape: what belongs to the model, not to the batch."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What was seen of a program."""

    net: nn.Module
    dataset: Dataset
    share: float
    """Rows in `dataset` over all rows there are."""
    steps: Sequence[Step]
    """The same step on `batch_size` rows and on more."""
    state_bytes: int
    evaluation_bytes: int
    epochs: int
    batch_size: int
    micro_batches: int = 1
    synced: bool = False
    """Whether ranks share the statistics of batch normalisation."""
    pieces: Sequence[Mapping[str, float]] | None = ()
    """Between the places where the program can be cut into stages."""
    loading: tuple[float, int] = (0.0, 0)
    """The peak while rows are read (`LOADING`)."""
    text_bytes: float = 0.0
    """Of the columns in all rows whose words are learned."""
    scores: int = 0
    """That all these columns have together."""
    targets: int = 0
    """What each column of text has a score for."""
    load_s: float = 0.0
    """Seconds until the rows were read and the model was built."""
    precision: str = "auto"
    """In what it asks to compute."""
    compression: str = "none"
    """In what it asks to send its gradients."""


def loading_of(task: str, data_source: str) -> tuple[float, int]:
    """The figures of `LOADING` for a program: a clone of an older one may have a data.py that reads tables whole."""
    if task.startswith("tabular") and _READS_COLUMNS.search(data_source):
        return LOADING_BY_COLUMN
    return LOADING.get(task, (0.0, 0))


def words_peak(text_bytes: float, scores: int) -> float:
    """Bytes while words are learned; 0 without texts."""
    if not text_bytes:
        return 0.0
    learned = WORDS_TIMES * min(text_bytes, LEARNED_LETTERS)
    return COLUMN_TIMES * text_bytes + learned + WORDS_BYTES + SCORE_BYTES * scores


def words_s(text_bytes: float, train_rows: float, all_rows: float, targets: int) -> float:
    """Seconds of one core in which the words of texts are learned and read; 0 without texts."""
    if not text_bytes:
        return 0.0
    learned = min(text_bytes * min(train_rows, LEARNED_ROWS) / max(1.0, all_rows), LEARNED_LETTERS)
    return WORDS_S + (LEARN_LETTER_S + SCORE_LETTER_S * targets) * learned + READ_LETTER_S * text_bytes


def text_bytes(spec: Spec, program: Path, data: Path) -> int:
    """Size of the columns whose words the program learns; an older one has no words.py."""
    names, table = set(spec.shape.get("texts", ())), data / "table.parquet"
    if not names or not table.is_file() or not (program / "words.py").is_file():
        return 0
    metadata = pq.read_metadata(table)
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    columns = (group.column(place) for group in groups for place in range(group.num_columns))
    return sum(column.total_uncompressed_size for column in columns if column.path_in_schema in names)


def trained(net: nn.Module) -> list[nn.Parameter]:
    """The weights that get a gradient."""
    return [weight for weight in net.parameters() if weight.requires_grad]


def sums_of(net: nn.Module, *, synced: bool) -> dict[str, int]:
    """What ranks add up in each step: bytes of gradients, and small sums of batch statistics where these are shared."""
    return {
        "gradient_bytes": sum(weight.numel() * weight.element_size() for weight in trained(net)),
        "step_messages": 2 * sum(map(can_share, net.modules())) if synced else 0,
    }


def workload(seen: Seen) -> dict[str, Any]:
    """The fields of a `Workload`."""
    net, dataset, share, steps = seen.net, seen.dataset, seen.share, seen.steps
    weights = trained(net)
    tensors = {id(tensor): tensor for tensor in (*net.parameters(), *net.buffers())}
    sums = sums_of(net, synced=seen.synced)
    gradient_bytes = sums["gradient_bytes"]
    figures = [_figures(step, gradient_bytes + seen.state_bytes) for step in steps]
    rows = steps[1].rows - steps[0].rows
    all_parts = (dataset.train, dataset.val, dataset.test)
    dataset_bytes, dataset_rows = sum(map(_bytes, all_parts)) / share, sum(map(len, all_parts)) / share
    loading_times, loading_row_bytes = seen.loading
    shared_out = loading_times * dataset_bytes + loading_row_bytes * dataset_rows
    return {
        "version": VERSION,
        "batch_size": seen.batch_size,
        "operators": _merged(_operators(steps[0], steps[1])),
        "parameters": sum(weight.numel() for weight in net.parameters()),
        "parameter_bytes": sum(tensor.numel() * tensor.element_size() for tensor in tensors.values()),
        "optimizer_bytes": seen.state_bytes,
        **figures[0],
        "evaluation_bytes": float(seen.evaluation_bytes),
        "data_bytes": round(_bytes(dataset.train) / share),
        "dataset_bytes": round(dataset_bytes),
        "loading_bytes": round(max(shared_out, words_peak(seen.text_bytes, seen.scores))),
        "fixed_parameters_ops": len(weights),
        "train_rows": round(len(dataset.train) / share),
        "evaluated_rows": _evaluated(seen),
        "epochs": seen.epochs,
        "global_batch_size": seen.batch_size,
        "micro_batches": seen.micro_batches,
        **sums,
        **({} if seen.pieces is None else {"pieces": list(seen.pieces)}),
        "batch_norms": sum(isinstance(module, _BatchNorm) for module in net.modules()),
        "load_s": round(seen.load_s, 1) if seen.load_s > ORDINARY_LOAD_S else 0.0,
        "words_s": round(words_s(seen.text_bytes, len(dataset.train) / share, dataset_rows, seen.targets), 2),
        "precision": seen.precision,
        "compression": seen.compression,
        "per_row": {
            **{name: (figures[1][name] - figures[0][name]) / rows for name in figures[0]},
            "evaluation_bytes": seen.evaluation_bytes / seen.batch_size,
        },
    }


def _evaluated(seen: Seen) -> int:
    """All validation rows, and as many training rows up to a limit (`evaluation.train_sample`)."""
    train, val = round(len(seen.dataset.train) / seen.share), round(len(seen.dataset.val) / seen.share)
    return val + min(train, SAMPLE_ROWS, val or SAMPLE_ROWS)


def _figures(step: Step, lasting_bytes: int) -> dict[str, float]:
    """What grows with the batch."""
    return {
        "activation_bytes": float(step.activation_bytes),
        "transient_bytes": float(max(0, step.peak_bytes - lasting_bytes - step.activation_bytes)),
        "backward_flops": float(step.backward_flops),
    }


def _bytes(part: Part) -> int:
    return len(part) * (part.row_bytes + part.rows.element_size())


def _operators(small: Step, large: Step) -> list[Entry]:
    """Operators of the smaller step, each with what a further row adds to its figures."""
    names = [[operator["op"] for operator in step.operators] for step in (small, large)]
    if names[0] != names[1]:  # the program takes another path for another batch: all that is a row's grows alike
        return [{**one, "per_row": _proportional(one, small.rows)} for one in small.operators]
    rows = large.rows - small.rows
    return [
        {**one, "per_row": _slope(one, two, rows)} for one, two in zip(small.operators, large.operators, strict=True)
    ]


def _figures_of(operator: Entry) -> dict[str, float]:
    shape: dict[str, float] = operator["shape"]
    return {name: float(operator[name]) for name in ("flops", "read_bytes", "write_bytes")} | shape


def _slope(one: Entry, two: Entry, rows: int) -> dict[str, float]:
    later = _figures_of(two)
    slopes = {name: (later.get(name, value) - value) / rows for name, value in _figures_of(one).items()}
    return {name: slope for name, slope in slopes.items() if slope}


def _proportional(operator: Entry, rows: int) -> dict[str, float]:
    return {name: value / rows for name, value in _figures_of(operator).items() if value and name not in FIXED}


def _merged(operators: list[Entry]) -> list[Entry]:
    """Neighbours and repeats of the same operator as one entry with `repeat`; the order of first sight."""
    found: dict[str, Entry] = {}
    for operator in operators:
        key = repr(operator)
        if key in found:
            found[key]["repeat"] += 1
        else:
            found[key] = {**operator, "repeat": 1}
    return list(found.values())
