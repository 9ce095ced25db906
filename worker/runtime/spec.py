"""Reading of `spec.yaml`: plain values with attribute access."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from worker.events import FailureCode
from worker.runtime.failures import ProgramFailure

_EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
"""A number to YAML 1.2 and the form; YAML 1.1 wants 1.0e-3, and takes 1e-3 for a word."""
_OF_NAMES = ("name", "task", "data", "shape")
"""Parts with names out of the data, in which a word stays a word: a column or class may be called 1e5."""


class Spec(dict[str, Any]):
    """A mapping whose keys are also attributes: `spec.training.epochs`, `spec.model.params["filters"]`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"spec.yaml has no `{name}` here; it has {', '.join(self) or 'nothing'}") from None

    def with_shape(self, shape: dict[str, Any]) -> Spec:
        """The same spec with what the data has taught added to (and winning over) `spec.shape`."""
        return Spec({**self, "shape": as_spec({**self.get("shape", {}), **shape})})


def as_spec(value: Any) -> Any:
    """Turn mappings, in depth, into `Spec`."""
    if isinstance(value, dict):
        return Spec({str(key): as_spec(item) for key, item in value.items()})
    if isinstance(value, list):
        return [as_spec(item) for item in value]
    return value


def load_spec(path: str | Path = "spec.yaml") -> Spec:
    """Read a resolved spec. Raises `ProgramFailure` with file and line where it is not YAML, or not a mapping."""
    path = Path(path)
    try:
        body = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        told = f"not YAML: {getattr(error, 'problem', None) or error}."
        raise _unreadable(path, told, mark.line + 1 if mark else 1) from error
    except RecursionError as error:
        raise _unreadable(path, "values lie too deep in one another.", 1) from error
    if not isinstance(body, dict):
        raise _unreadable(path, "expected a mapping of spec fields.", 1)
    spec: Spec = as_spec({name: part if name in _OF_NAMES else _numbered(part) for name, part in body.items()})
    return spec


def _numbered(value: Any) -> Any:
    """The same with numbers, in depth, for words like 1e-3."""
    if isinstance(value, dict):
        return {name: _numbered(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_numbered(item) for item in value]
    return float(value) if isinstance(value, str) and _EXPONENT.fullmatch(value) else value


def _unreadable(path: Path, message: str, line: int) -> ProgramFailure:
    return ProgramFailure(
        FailureCode.PROGRAM_ERROR, message, f"Correct line {line} of {path.name}.", place=(path.name, line)
    )
