"""`Workload`: what one training step of a program does, operator by operator. Read off the program itself.

Made on meta tensors by `worker.runtime.inspection.trace` inside a node's sandbox; nothing here knows a model family.
What a program tells is not to be trusted: figures that are no figures are refused here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

from scheduler.fields import fields_check, figures_check
from worker.shares import epoch_steps
from worker.stages import MOST_PIECES

WORKLOAD_VERSION = 1
MOST_OPERATORS = 200_000
MOST_KINDS = 2_000
"""Different operators of one step. A trace holds some hundred at most, and the time to price a way grows with them."""
COUNTS = (
    "batch_size", "global_batch_size", "micro_batches", "train_rows", "evaluated_rows", "epochs", "step_messages",
    "batch_norms",
)  # fmt: skip
"""Fields that count something: shared out among ranks, and no halves of anything."""
MOST_COUNTED = 10**15
PRECISIONS = ("auto", "float32", "bf16", "fp16")
"""Of `training.precision`."""
COMPRESSIONS = ("none", "bf16", "fp16")
"""Of `training.compression`."""
WORDS = {"precision": PRECISIONS, "compression": COMPRESSIONS}
"""Fields that are one of some words."""
_NO_FIGURES = ("operators", "per_row", "pieces", *WORDS)


class OpClass(StrEnum):
    """Operators whose cost per FLOP or byte behaves alike."""

    CONV = "conv"
    DEPTHWISE = "depthwise"
    """Convolution with as many groups as channels: bound by memory, not by arithmetic."""
    GEMM = "gemm"
    """Matrix products: linear layers, batched products."""
    ATTENTION = "attention"
    NORM = "norm"
    POOL = "pool"
    ELEMENTWISE = "elementwise"
    EMBEDDING = "embedding"
    OTHER = "other"


@dataclass(frozen=True, kw_only=True)
class Operator:
    """One forward operator at the traced batch size."""

    op: OpClass
    flops: float
    """Of the forward pass; a multiply-add counts as 2."""
    read_bytes: float
    write_bytes: float
    shape: Mapping[str, float] = field(default_factory=dict)
    """What its efficiency depends on. conv: batch, in, out, kernel, size (output pixels along an edge), groups; gemm:
    batch (rows), in, out, count (matrices of a batched product); attention: elements, count, queries, keys, width;
    others: elements."""
    input_gradient: bool = True
    """False where no gradient flows on (the first layer): its backward pass costs one forward pass, else two."""
    weight_gradient: bool = True
    """False where the weights (or the other factor) get none: frozen layers."""
    per_row: Mapping[str, float] = field(default_factory=dict)
    """What one more row in the batch adds to `flops`, `read_bytes`, `write_bytes` and the entries of `shape`."""

    def __post_init__(self) -> None:
        """Refuse what is no figure."""
        figures_check({"flops": self.flops, "read_bytes": self.read_bytes, "write_bytes": self.write_bytes})
        figures_check(self.shape, within="shape.")
        figures_check(self.per_row, within="per_row.", signed=True)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**vars(self), "shape": dict(self.shape), "per_row": dict(self.per_row)}

    @property
    def backward_flops(self) -> float:
        """FLOPs of its backward pass: one forward pass for each factor that gets a gradient."""
        return self.flops * (int(self.input_gradient) + int(self.weight_gradient))


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A part of the model between two places where it can be cut into stages."""

    parameter_bytes: float
    output_bytes: float
    """Per row: what it hands on."""

    def __post_init__(self) -> None:
        """Refuse what is no figure."""
        figures_check({"parameter_bytes": self.parameter_bytes, "output_bytes": self.output_bytes})


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One training step at one batch size, and how many of them a run makes."""

    batch_size: int
    """Rows of the traced step."""
    operators: tuple[Operator, ...]
    parameters: int
    parameter_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    """State of the optimizer, and the averaged copy of the weights where there is one."""
    activation_bytes: float
    """Saved for the backward pass at `batch_size`."""
    transient_bytes: float
    """At the peak of a step of `batch_size` rows: what lives beside weights, gradients, optimizer and activations."""
    data_bytes: int
    """Training rows as they lie in memory."""
    fixed_parameters_ops: int
    """Tensors the optimizer updates: each costs some time whatever its size."""
    train_rows: int
    evaluated_rows: int
    """Rows evaluated after each epoch (forward only)."""
    epochs: int
    global_batch_size: int
    backward_flops: float = 0.0
    """Of the backward pass as it was traced, recomputation included."""
    evaluation_bytes: float = 0.0
    """Peak of a forward pass without gradients on `batch_size` rows, above the weights."""
    dataset_bytes: int = 0
    """Rows of all parts as they lie in memory."""
    loading_bytes: int = 0
    """At the peak while the rows are read and shared out to the parts, in the memory of the host; 0: nobody looked."""
    per_row: Mapping[str, float] = field(default_factory=dict)
    """What one more row in the batch adds to the fields named: activation_bytes, transient_bytes, backward_flops,
    evaluation_bytes."""
    micro_batches: int = 1
    """Parts in which a rank works off its rows of a step, as the spec says; the figures above are of a whole step."""
    step_messages: int = 0
    """Small sums over the ranks in each step besides that of the gradients: two for each layer of batch normalisation
    whose statistics are synced."""
    pieces: tuple[Piece, ...] | None = None
    """In the order of the forward pass; empty: the program cannot be cut into stages; None: nobody looked."""
    batch_norms: int = 0
    """Layers that train by statistics of the rows at hand: in other micro-batches they learn something else."""
    load_s: float = 0.0
    """Seconds that its own code took to read the rows and build the model when the program was read, of a large dataset
    a few of the rows; 0: no longer than others take, or nobody looked."""
    words_s: float = 0.0
    """Seconds of one core in which it learns and reads the words of texts before its first step, modelled by the size
    of the texts; 0: it has none, or nobody looked."""
    precision: str = "auto"
    """In what it asks to compute (`PRECISIONS`). Its FLOPs and bytes are those of float32 all the same: what a device
    makes of them, its model knows."""
    compression: str = "none"
    """In what the gradients travel where ranks with the whole model add them up (`COMPRESSIONS`); stages and parameter
    servers send float32 whatever it says."""
    version: int = WORKLOAD_VERSION

    def __post_init__(self) -> None:
        """Refuse what is no figure."""
        figures_check({item.name: getattr(self, item.name) for item in fields(self) if item.name not in _NO_FIGURES})
        figures_check(self.per_row, within="per_row.", signed=True)
        for name in COUNTS:
            if not isinstance(value := getattr(self, name), int) or value > MOST_COUNTED:
                raise ValueError(f"{name} is {value!r}; it must be a whole number up to {MOST_COUNTED:g}")
        for name, words in WORDS.items():
            if (word := getattr(self, name)) not in words:
                raise ValueError(f"{name} is {word!r}; it must be one of {', '.join(words)}")
        if self.batch_size < 1 or self.global_batch_size < 1 or self.micro_batches < 1:
            raise ValueError("a step needs a row")
        if self.epochs < 1:
            raise ValueError(f"epochs is {self.epochs}; a run has one at least")

    @property
    def flops(self) -> float:
        """Forward FLOPs of the traced step."""
        return sum(operator.flops for operator in self.operators)

    def parts(self, rows: int) -> int:
        """Parts of `rows` rows of one rank; none has a single row, which batch normalisation cannot take."""
        return max(1, min(self.micro_batches, rows // 2))

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps of one epoch at the global batch size, as a run makes them on ranks of four rows or more.

        The last may have more or fewer rows: `last_rows`.
        """
        return epoch_steps(self.train_rows, self.global_batch_size)

    @property
    def last_rows(self) -> int:
        """Rows of the last step of an epoch."""
        return max(1, self.train_rows - (self.steps_per_epoch - 1) * self.global_batch_size)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON. Equal operators are one entry with `repeat`, so their order is that of first sight."""
        counts: dict[str, tuple[Operator, int]] = {}
        keys: dict[int, str] = {}
        for operator in self.operators:
            key = keys.get(id(operator)) or keys.setdefault(id(operator), repr(operator))
            counts[key] = (operator, counts[key][1] + 1 if key in counts else 1)
        merged = [operator.to_dict() | {"repeat": count} for operator, count in counts.values()]
        pieces = None if self.pieces is None else [asdict(piece) for piece in self.pieces]
        return {**{item.name: getattr(self, item.name) for item in fields(self)}, "operators": merged, "pieces": pieces}

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> Workload:
        """Inverse of `to_dict`. Raises `ValueError` for another version, a missing field, or values that are none."""
        if not isinstance(body, Mapping) or body.get("version") != WORKLOAD_VERSION:
            version = body.get("version") if isinstance(body, Mapping) else None
            raise ValueError(f"workload has version {version!r}, this one is {WORKLOAD_VERSION}")
        try:
            fields_check(Workload, body)
            chain = {"operators": _operators(body["operators"]), "pieces": _pieces(body.get("pieces"))}
            return Workload(**{**body, **chain})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"not a workload: {error}") from error


def at_batch(workload: Workload, rows: int) -> Workload:
    """The same step on `rows` rows (those of one rank): every figure goes linearly with the batch.

    `batch_size` becomes `rows`; the global batch size and with it the number of steps stay.
    """
    more = rows - workload.batch_size
    moved: dict[int, Operator] = {}
    for operator in workload.operators:
        if id(operator) not in moved:
            moved[id(operator)] = _moved(operator, more)
    operators = tuple(moved[id(operator)] for operator in workload.operators)
    return replace(totals_at_batch(workload, rows), operators=operators)


def totals_at_batch(workload: Workload, rows: int) -> Workload:
    """The same step on `rows` rows without its operators: what its memory is told from. Raises `ValueError`
    for less than one."""
    if rows < 1:
        raise ValueError(f"a step of {rows} rows")
    more = rows - workload.batch_size
    changed = {name: max(0.0, getattr(workload, name) + more * slope) for name, slope in workload.per_row.items()}
    return with_figures(workload, batch_size=rows, operators=(), **changed)


def with_figures(workload: Workload, *, operators: tuple[Operator, ...], **figures: float) -> Workload:
    """`replace` that looks at these figures alone, and not at all others again: an offer makes hundreds.

    Raises `ValueError` for what is no figure.
    """
    figures_check(figures)
    found = copy(workload)
    vars(found).update(figures, operators=operators)
    return found


def _moved(operator: Operator, more: int) -> Operator:
    if not operator.per_row:
        return operator

    def value(name: str, now: float) -> float:
        return max(0.0, now + more * operator.per_row.get(name, 0.0))

    return replace(
        operator,
        flops=value("flops", operator.flops),
        read_bytes=value("read_bytes", operator.read_bytes),
        write_bytes=value("write_bytes", operator.write_bytes),
        shape={name: value(name, number) for name, number in operator.shape.items()},
    )


def _operators(items: Iterable[Mapping[str, Any]]) -> tuple[Operator, ...]:
    """One object per entry, as often as it occurs. Raises `ValueError` for too many."""
    operators: list[Operator] = []
    for number, item in enumerate(items):
        given = dict(item)
        repeat = given.pop("repeat", 1)
        if not isinstance(repeat, int) or repeat < 1 or number >= MOST_KINDS:
            raise ValueError("too many operators" if number >= MOST_KINDS else f"an operator {repeat!r} times")
        if len(operators) + repeat > MOST_OPERATORS:
            raise ValueError(f"more than {MOST_OPERATORS:,} operators")
        fields_check(Operator, given)
        if given["op"] not in list(OpClass):
            raise ValueError(f"op is {str(given['op'])[:40]!r}; it must be one of {', '.join(OpClass)}")
        operators += [Operator(**{**given, "op": OpClass(given["op"])})] * repeat
    return tuple(operators)


def _pieces(items: Iterable[Mapping[str, Any]] | None) -> tuple[Piece, ...] | None:
    """Raises `ValueError` for too many."""
    pieces = None if items is None else tuple(Piece(**item) for item in items)
    if pieces is not None and len(pieces) > MOST_PIECES:
        raise ValueError("too many pieces")
    return pieces
