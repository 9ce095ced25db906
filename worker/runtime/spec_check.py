"""What values spec.yaml may hold: a person edits it, and a value that means nothing must not train something else.

Fields that are not known here are a person's own and pass, and so do words that the program itself names: its own
train.py may know one more optimizer. The ranges are those of `codegen.spec`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import yaml

from worker.events import FailureCode
from worker.runtime.failures import ProgramFailure
from worker.runtime.spec import Spec

RATE_MOST = 100.0
Rule = Callable[[Any], str | None]
"""What a value must be, in words, where it is not that; None where it is."""
_MOST_FLOAT = sys.float_info.max
"""Whole numbers can be larger than this, and no run can reckon with those."""
_HINT = "Correct that value in spec.yaml; the comment above it says what it means."
_OWN = "Write `own` there, or mode sync with training.accumulate: 1."


def _number(low: float, high: float = _MOST_FLOAT, *, whole: bool = False) -> Rule:
    """From `low` to `high`."""
    kind = "a whole number" if whole else "a number"
    words = f"{kind} from {low:g}" + ("" if high == _MOST_FLOAT else f" to {high:.10g}")

    def fault(value: Any) -> str | None:
        number = isinstance(value, int) or (isinstance(value, float) and not whole)
        if isinstance(value, bool) or not number:
            return words
        return None if low <= value <= high else words

    return fault


def _share(value: Any) -> str | None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1
    return None if good else "a number from 0 to below 1"


def _above_none(value: Any) -> str | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return None if number and 0 < value <= _MOST_FLOAT else "a number above 0"


def _seconds(value: Any) -> str | None:
    return None if value == "auto" or _above_none(value) is None else "a number above 0, or auto"


def _rate(value: Any) -> str | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return None if number and 0 < value <= RATE_MOST else f"a number above 0 and at most {RATE_MOST:g}"


def _one_of(*names: str) -> Rule:
    words = f"one of {', '.join(names)}"
    return lambda value: None if value in names else words


def _device(value: Any) -> str | None:
    numbered = isinstance(value, str) and re.fullmatch(r"cuda:\d+", value)
    return None if numbered or value in ("auto", "cpu", "cuda") else "one of auto, cpu, cuda, cuda:0"


METRICS = ("accuracy", "balanced_accuracy", "macro_f1", "roc_auc", "log_loss", "r2", "rmse", "mae")
_MOST = 10_000_000
_COUNT = _number(1, _MOST, whole=True)
_FROM_NONE = _number(0, _MOST, whole=True)
RULES: dict[str, Rule] = {
    "data.split.validation": _share,
    "data.split.test": _share,
    "data.split.by": _one_of("random", "group", "time"),
    "data.horizon": _COUNT,
    "data.history": _COUNT,
    "objective.metric": _one_of(*METRICS),
    "budget.time_s": _seconds,
    "resources.device": _device,
    "model.weights_match": _one_of("fitting", "all"),
    "mode": _one_of("auto", "single", "replicated", "sync", "async", "pipeline", "pipeline+sync"),
    "training.epochs": _COUNT,
    "training.batch_size": _COUNT,
    "training.learning_rate": _rate,
    "training.weight_decay": _number(0),
    "training.optimizer": _one_of("adamw", "sgd"),
    "training.seed": _number(0, 2**32 - 1, whole=True),
    "training.patience": _FROM_NONE,
    "training.schedule": _one_of("cosine", "constant"),
    "training.warmup": _share,
    "training.label_smoothing": _share,
    "training.class_weights": _one_of("none", "balanced"),
    "training.ema": _share,
    "training.clip_norm": _number(0),
    "training.augment": _one_of("none", "shift", "shift_flip"),
    "training.accumulate": _COUNT,
    "training.precision": _one_of("auto", "float32", "bf16", "fp16"),
    "training.compression": _one_of("none", "fp16", "bf16"),
    "training.batch_norm": _one_of("own", "synced"),
    "training.staleness": _FROM_NONE,
    "training.backup": _FROM_NONE,
    "checkpoints.every_epochs": _COUNT,
    "checkpoints.every_minutes": _above_none,
    "checkpoints.keep": _COUNT,
    "checkpoints.commit_steps": _COUNT,
}
NEEDED = ("training.epochs", "training.batch_size", "training.seed", "objective.metric")
"""Without these no run begins."""
OWN_WORDS = ("training.optimizer", "training.schedule", "training.class_weights", "training.augment")
"""What only the program's own files read, whose person may have taught them more."""
MAY_BE_NULL = (
    *(
        "budget.time_s",
        "training.ema",
        "training.clip_norm",
        "training.accumulate",
        "training.staleness",
        "training.backup",
    ),
    *(f"checkpoints.{name}" for name in ("every_epochs", "every_minutes", "keep", "commit_steps")),
)
"""Null means what 0 or 1 or nothing would."""


def spec_check(spec: Spec, path: Path) -> None:
    """Pass if each field that a run reads has a value that it can mean. Raises `ProgramFailure` with line and field."""
    for field, rule in RULES.items():
        part, _, name = field.rpartition(".")
        holder = _within(spec, part)
        if not isinstance(holder, dict):
            _refuse(path, part, f"{part} must be a mapping of fields")
        if name not in holder:
            if field in NEEDED:
                _refuse(path, part, f"{field} is missing", f"Write it below `{part}:`.")
        elif (wanted := rule(holder[name])) and not _is_own(field, holder[name], path.parent):
            _refuse(path, field, f"{field} must be {wanted}, not {holder[name]!r}")
    _check_synced(spec, path)
    split = _within(spec, "data.split")
    if split.get("validation", 0) + split.get("test", 0) >= 1:
        told = f"validation {split['validation']} + test {split['test']} leaves no rows to train on"
        _refuse(path, "data.split", f"impossible split: {told}")


def _check_synced(spec: Spec, path: Path) -> None:
    """Statistics are shared where the ranks take one and the same step, each with all its rows at once."""
    if _within(spec, "training.batch_norm") != "synced":
        return
    if spec.get("mode", "auto") not in ("auto", "single", "sync"):
        _refuse(path, "training.batch_norm", f"training.batch_norm: synced does nothing in mode {spec['mode']}", _OWN)
    if (_within(spec, "training.accumulate") or 1) != 1:
        told = "training.batch_norm: synced needs all rows of a step at once, and training.accumulate has them in parts"
        _refuse(path, "training.batch_norm", told, _OWN)


def _is_own(field: str, value: Any, program: Path) -> bool:
    """Whether a value that the platform's spec does not know means something to this program all the same."""
    if value is None:
        return field in MAY_BE_NULL
    if field not in OWN_WORDS or not isinstance(value, str):
        return False
    texts = (file.read_text(encoding="utf-8", errors="replace") for file in program.glob("*.py"))
    return any(f'"{value}"' in text or f"'{value}'" in text for text in texts)


def _within(spec: Spec, part: str) -> Any:
    """The value of a dotted name; an empty mapping where there is none."""
    value: Any = spec
    for name in filter(None, part.split(".")):
        value = value.get(name, {}) if isinstance(value, dict) else None
    return value


def _refuse(path: Path, field: str, message: str, hint: str = _HINT) -> NoReturn:
    raise ProgramFailure(FailureCode.PROGRAM_ERROR, f"{message}.", hint, place=(path.name, _line(path, field)))


def _line(path: Path, field: str) -> int:
    """The line in which a field begins, or the part that it lies in."""
    node, line = yaml.compose(path.read_text(encoding="utf-8")), 1
    for name in field.split("."):
        key, node = next(((key, value) for key, value in _entries(node) if key.value == name), (None, None))
        if key is None:
            break
        line = key.start_mark.line + 1
    return line


def _entries(node: yaml.Node | None) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    return iter(node.value if isinstance(node, yaml.MappingNode) else ())
