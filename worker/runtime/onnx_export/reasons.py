"""Why a model has no ONNX form, in words for its owner."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from pathlib import Path

_OTHERWISE = "The weights and the program can be downloaded as before."
_BY_VALUE = (
    "data-dependent",
    "DataDependent",
    "Could not guard",
    "Could not extract specialized",
    "_local_scalar_dense",
)
_FIXED_ROWS = ("Constraints violated", "specialized", "ConstraintViolation", "is invalid for input of size")
_FAKE = (".numpy() is not supported", "Cannot access data pointer", "can't call numpy")
_OPERATOR = re.compile(
    r"No (?:ONNX function|decompositions?)[^.]*?(?:found )?for [`'<]?(?:OpOverload\(op=)?[`']?([\w.:]+)"
)
_LINE_CHARS = 300


class CannotExport(Exception):
    """The model has no ONNX form; `message` says why, `hint` what may help."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, f"{hint} {_OTHERWISE}".strip()

    @staticmethod
    def different(difference: float, rows: int) -> CannotExport:
        """The check failed."""
        return CannotExport(
            f"The ONNX model does not match the trained one: its answers for {rows} rows of the data differ by up "
            f"to {difference:.2g}.",
            "So it is not offered. A step of model.py that ONNX computes differently is to blame.",
        )

    @staticmethod
    def other_shape(rows: int) -> CannotExport:
        """The check failed: another number of answers."""
        return CannotExport(
            f"The ONNX model gives another number of answers than the trained one for {rows} rows.", _ANY_ROWS
        )

    @staticmethod
    def fixed_rows() -> CannotExport:
        """The exporter took the number of rows for a constant."""
        return CannotExport("The model works for one number of rows only.", _ANY_ROWS)

    @staticmethod
    def by_chance() -> CannotExport:
        """Two answers for the same rows."""
        return CannotExport(
            "The model answers differently each time: something in it is random, even in predictions.",
            "Make model.py use randomness only while `self.training` is true.",
        )

    @staticmethod
    def too_large(size_bytes: int) -> CannotExport:
        """Protocol buffers end at 2 GiB."""
        return CannotExport(f"The weights take {size_bytes / 2**30:.1f} GiB; one ONNX file holds less than 2 GiB.")


_ANY_ROWS = (
    "Let forward() take the number of rows from its input, as in `x.reshape(len(x), -1)`; write no fixed number for it."
)


def why_not(error: BaseException, program: Path) -> CannotExport:
    """What an error of the exporter means for whoever wrote model.py. `program`: the folder of its files."""
    if isinstance(error, CannotExport):
        return error
    reason = _reason(error, program)
    if reason.message.startswith("the "):  # no line of the program is known
        reason.message = f"T{reason.message[1:]}"
    return reason


def _reason(error: BaseException, program: Path) -> CannotExport:
    if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0].startswith(("onnx", "ml_dtypes")):
        return CannotExport(
            f"This node lacks the package {error.name}.", "Ask an admin to run the set-up again on the node."
        )
    causes = list(_causes(error))
    told = "\n".join(str(cause) for cause in causes)
    place = _place(causes, program)
    if any(text in told for text in _BY_VALUE):
        return CannotExport(
            f"{place}the model decides by the values of its input, and ONNX's exporter records one way only.",
            "Take `if`, `while`, `.item()` and `int(...)` on tensors out of forward(): torch.where chooses by value.",
        )
    if any(text in told for text in _FIXED_ROWS):
        return CannotExport(f"{place}the model works for one number of rows only.", _ANY_ROWS)
    if any(text in told for text in _FAKE):
        return CannotExport(
            f"{place}the model leaves PyTorch along the way, for numpy or its own code.",
            "Let forward() use operations of torch alone.",
        )
    if (found := _OPERATOR.search(told)) is not None:
        return CannotExport(f"{place}the operation {found[1]} has no ONNX equivalent in this version of PyTorch.")
    first = next((line.strip() for line in str(causes[-1]).splitlines() if line.strip()), "")
    return CannotExport(
        f"{place}PyTorch cannot turn the model into ONNX: {type(causes[-1]).__name__}: {first[:_LINE_CHARS]}"
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what led to it, the first cause last."""
    seen: set[int] = set()
    now: BaseException | None = error
    while now is not None and id(now) not in seen:
        seen.add(id(now))
        yield now
        now = now.__cause__ or now.__context__


def _place(causes: list[BaseException], program: Path) -> str:
    """`model.py, line 7: ` where the innermost line of the program's own is known."""
    for cause in reversed(causes):
        own = [
            frame
            for frame in traceback.extract_tb(cause.__traceback__)
            if Path(frame.filename).resolve().parent == program.resolve()
        ]
        if own:
            return f"{Path(own[-1].filename).name}, line {own[-1].lineno}: "
    return ""
