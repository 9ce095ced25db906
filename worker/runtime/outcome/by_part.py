"""What the model says of the rows, one part after another: of many classes it is the most that the results hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torch import Tensor, nn

from worker.runtime.data import Part

if TYPE_CHECKING:
    from worker.runtime.run import Run


def outputs_by_part(run: Run, net: nn.Module, parts: dict[str, Part]) -> Iterator[tuple[str, Tensor]]:
    """(name, outputs) of each part on the first rank, nothing on the others. None is kept here once it is told.

    Several ranks predict all parts before the first of them works on one: meanwhile the others would wait for it in the
    next part without a sign of life, and the watchdog of another node would end them.
    """
    if run.world_size == 1:
        for name, part in parts.items():
            yield name, run.outputs(net, part)
        return
    made = {}
    for name, part in parts.items():
        made[name] = run.outputs(net, part)
        if run.rank != 0:
            made.clear()
    for name in list(made):
        yield name, made.pop(name)
