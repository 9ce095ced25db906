"""Values that cross from `codegen` to the rest: hardware seen, resolved spec, suggestion, program."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

WORDS_FILES = ("words.py", "word_scores.py")
"""Only of programs whose data have columns of text."""
HISTORY_FILES = ("history.py", "windows.py")
"""Only of forecasts."""
PROGRAM_FILES = (
    "model.py",
    "data.py",
    *WORDS_FILES,
    *HISTORY_FILES,
    "train.py",
    "predict.py",
    "spec.yaml",
    "README.md",
)


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """The largest gang a job can get, as the pool sees it."""

    cpu_cores: int
    """Cores of the largest schedulable node."""
    cpu_memory_bytes: int
    gpus: int = 0
    gpu_memory_bytes: int = 0
    most_cpu_cores: int = 0
    """Cores of one job over several nodes, where the pool lets it have them; 0: those of one node."""
    most_gpus: int = 0
    all_cpu_cores: int = 0
    """Cores of all nodes, whether one job can have them or not; 0: not known."""
    all_gpus: int = 0
    apart: str = ""
    """Why no job can use several nodes although the pool would let it, a sentence; empty: nothing keeps one from it."""
    models: Mapping[str, Hardware] = field(default_factory=dict)
    """The same of each model of device alone, by the name that `resources.device_model` has for it."""

    @property
    def boundless(self) -> Hardware:
        """Without a limit of memory."""
        models = {name: one.boundless for name, one in self.models.items()}
        return replace(self, cpu_memory_bytes=0, gpu_memory_bytes=0, models=models)


@dataclass(frozen=True, kw_only=True)
class Guess:
    """One `auto` that was replaced."""

    field: str
    """Dotted name in the spec, e.g. `training.batch_size`."""
    value: Any
    reason: str


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A spec without `auto`, with the reasons."""

    spec: dict[str, Any]
    """`TaskSpec` as plain values, no `auto` left except budget fields that the person left open."""
    guesses: tuple[Guess, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """One model that fits the data, with what speaks for and against it."""

    family: str
    title: str
    size: str
    rank: int
    """1 is recommended."""
    reason: str
    against: str
    params: dict[str, Any]
    """Knobs of the family, ready for `spec.model.params`."""
    parameters: int
    flops_per_sample: float
    """Forward pass; a training step costs about three times this."""
    activation_bytes_per_sample: float
    memory_bytes: int
    """Estimated peak of training at the suggested batch size, above the idle process."""
    fits: bool
    expected_quality: str
    """In words: what the rank is based on."""
    training: dict[str, Any]
    """Defaults of this family for this data: epochs, batch_size, learning_rate, weight_decay, optimizer, patience."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Program:
    """A generated or edited program: file name -> text."""

    files: dict[str, str]

    @property
    def sha256(self) -> str:
        """Hash over names and texts, in name order."""
        digest = hashlib.sha256()
        for name in sorted(self.files):
            body = self.files[name].encode()
            digest.update(f"{name}\0{len(body)}\0".encode() + body)
        return digest.hexdigest()


class SpecError(Exception):
    """The spec is at fault. `problems` holds (dotted field, message with the next step)."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{field}: {message}" for field, message in problems))
        self.problems = problems
