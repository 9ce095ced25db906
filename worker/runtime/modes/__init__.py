"""Ways to train one program: which one a run takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from worker.runtime.modes.accumulated import Accumulated
from worker.runtime.modes.asynchronous import Asynchronous
from worker.runtime.modes.base import Batch, Criterion, Mode
from worker.runtime.modes.replicated import Replicated
from worker.runtime.modes.whole import Whole
from worker.runtime.spec import Spec

if TYPE_CHECKING:
    from worker.runtime.run import Run

__all__ = ["Batch", "Criterion", "Mode", "choose", "micro_batches"]

STAGED = ("pipeline", "pipeline+sync")
STALENESS_PER_RANK = 4
"""Bound on the age of gradients where spec.yaml names none."""


def choose(run: Run) -> Mode:
    """The mode that spec.yaml (or the platform) asks for, as far as this run has the ranks for it.

    A program with mode async or sync alone in the world trains as one process; with several ranks and a mode for one
    process it averages gradients.
    """
    wanted = str(run.spec.get("mode", "auto"))
    parts = micro_batches(run.spec)
    if run.world_size > 1 and wanted in STAGED:
        from worker.runtime.modes.staged import Staged  # torch's pipelines take a while to load

        return Staged(run)
    if run.world_size == 1 and wanted == "replicated":
        return Replicated(run, parts)
    if run.world_size > 1 and wanted == "async":
        bound = STALENESS_PER_RANK * run.world_size
        backup = _whole_number(run.spec.training.get("backup"), -1)
        staleness = _whole_number(run.spec.training.get("staleness"), bound)
        return Asynchronous(run, parts, staleness, backup if backup >= 0 else None)
    return Accumulated(run, parts) if parts > 1 else Whole(run)


def micro_batches(spec: Spec) -> int:
    """Parts in which a rank works off its rows of a step."""
    return max(1, _whole_number(spec.training.get("accumulate"), 1))


def _whole_number(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise
