"""The first steps of a program's own train.py, on a few rows and the CPU: whether it gets as far as that."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from torch import Tensor, nn

from worker.events import FailureCode
from worker.runtime.data import Dataset, Part
from worker.runtime.failures import ProgramFailure
from worker.runtime.inspection.few_rows import GivenShapeSpec, few_rows
from worker.runtime.inspection.learning import gradients_watch
from worker.runtime.inspection.standin import Enough, StandIn, drive
from worker.runtime.spec import Spec, load_spec

STEPS = 2
"""The second is the first with a state of the optimizer."""


class FirstSteps(StandIn):
    """Leaves train.py after its first steps; one that takes no batches here, where it evaluates or finishes."""

    is_reached = False
    """It has got as far as that."""

    def __init__(self, *arguments: Any, seen: set[str], **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._seen = seen

    def place(self, net: nn.Module, dataset: Dataset) -> nn.Module:
        """As in a run; each parameter that gets a gradient is kept by its name."""
        if isinstance(net, nn.Module):
            gradients_watch(net, self._seen)
        return super().place(net, dataset)

    def start_weights(self, net: nn.Module) -> str:
        """A step runs with any weights."""
        return ""

    def batches(self, part: Part) -> Iterator[tuple[tuple[Tensor, ...], Tensor]]:
        """The first batches of a run."""
        yield from islice(super().batches(part), STEPS)
        self._leave()

    def evaluate(self, net: nn.Module, dataset: Dataset) -> Any:
        """It got past its steps."""
        self._leave()

    def finish(self, dataset: Dataset) -> None:
        """It got past its steps."""
        self._leave()

    def _leave(self) -> NoReturn:
        self.is_reached = True
        raise Enough


def first_steps_make(program: Path, data: Path, batch_size: int) -> set[str]:
    """Run train.py for its first steps with so many rows each. Returns the names of the parameters that got a gradient.

    Raises what the program raises.

    A program of a person's own may need all rows where it fails on a few: it is told of what it raises with all.
    """
    spec = _spec(program)
    with few_rows(data, spec) as rows:
        try:
            return _drive(program, spec if rows.whole else GivenShapeSpec(spec), rows.folder, batch_size)
        except Exception:
            if rows.whole:
                raise
    return _drive(program, _spec(program), data, batch_size)


def _spec(program: Path) -> Spec:
    return load_spec(program / "spec.yaml")


def _drive(program: Path, spec: Spec, data: Path, batch_size: int) -> set[str]:
    seen: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="first-steps-") as work:
        run = FirstSteps(spec, data, Path(work), batch_size, seen=seen, DLH_DEVICE="cpu")
        drive(program, run)
    if not run.is_reached:  # such a program would end at once, and leave nothing
        message = (
            "train.py ended without a step of run.batches(...), and without run.finish(...), which writes results."
        )
        hint = (
            'Keep `run = Run.start("spec.yaml")`; a loop with steps of its own ends with `run.finish(dataset)` as well.'
        )
        raise ProgramFailure(FailureCode.PROGRAM_ERROR, message, hint)
    return seen
