"""What a finished job really took, and what one that ran out of memory could have."""

from __future__ import annotations

import math
from dataclasses import dataclass

from codegen.modes import STAGED
from scheduler.estimation.device_parts import LinkModel
from scheduler.estimation.values import Allocation
from scheduler.workload import Workload


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What a finished job really took. Raises `ValueError` for figures that cannot be."""

    workload: Workload
    """At its global batch size, as it was estimated."""
    allocation: Allocation
    step_s: float
    """Median over the run."""
    run_s: float | None = None
    """From the start of the ranks to the results; None where it was interrupted."""
    start_s: float | None = None
    """From the start of the ranks to the first step."""
    load_s: float | None = None
    """Of it: reading the rows. None where the run did not tell: then it is what the model says."""
    evaluation_s: float | None = None
    """All evaluations of the run."""
    peak_bytes: float | None = None
    """Of the largest rank, above the idle process."""
    nodes: tuple[str, ...] = ()
    """Where its ranks ran; empty: nobody knows."""
    nodes_link: LinkModel | None = None
    """Measured, the slowest between the nodes on which its ranks ran; None: there was one, or nobody knows."""
    by_host: bool = False
    """Its ranks drove GPUs and added up through the memory of their hosts."""
    author: str = ""
    """Who wrote or edited its program, in whatever tells people apart; empty: it is as it was generated."""

    @property
    def is_staged(self) -> bool:
        """Whether its ranks held parts of the model, and not rows of the batch."""
        return self.allocation.mode in STAGED

    @property
    def is_spread(self) -> bool:
        """Whether its ranks lay on several nodes."""
        return self.allocation.ranks_together < len(self.allocation.batch_split)

    @property
    def node(self) -> str:
        """Where all its ranks ran; empty: on several nodes, or nobody knows."""
        return self.nodes[0] if len(self.nodes) == 1 else ""

    def __post_init__(self) -> None:
        """Refuse what no run gives."""
        figures = (self.step_s, self.run_s, self.start_s, self.peak_bytes)
        values = [value for value in figures if value is not None]
        if any(not math.isfinite(value) or value <= 0 for value in values):
            raise ValueError(f"a finished job needs finite figures above 0, not {values}")


@dataclass(frozen=True, kw_only=True)
class RanOut:
    """A job that ended for want of memory. Raises `ValueError` for a limit that cannot be."""

    workload: Workload
    """At its global batch size, as it was estimated."""
    allocation: Allocation
    limit_bytes: float
    """What its largest rank could have at most, above the idle process."""

    def __post_init__(self) -> None:
        """Refuse what no run had."""
        if not math.isfinite(self.limit_bytes) or self.limit_bytes <= 0:
            raise ValueError(f"a job cannot run out of {self.limit_bytes} bytes")
