"""How large the programs of a calibration sweep are on a kind of device: steps take about as long as on a core."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scheduler.estimation.device_table import figures_for

CAREFUL_FLOPS_PER_S = 15e9
"""Of one CPU core, small shapes included; shares out the time budget, and what other devices do is held against it."""
CAREFUL_SHARE = 0.15
"""Of a GPU's peak by its data sheet: about what the figure above is of a core's."""
POINT_S, GPU_POINT_S = 1.0, 4.0
"""What a point costs besides its steps: program, data, trace; on a GPU its context, too."""
MEMORY_SHARE = 0.5
"""Of a GPU's memory that the weights and activations of a program may take: they are counted without scratch space."""


@dataclass(frozen=True, kw_only=True)
class Extent:
    """How large the programs of a sweep may become on a kind of device; as it is, on one CPU core."""

    flops_per_s: float = CAREFUL_FLOPS_PER_S
    memory_bytes: float = math.inf
    """For weights and activations."""
    point_s: float = POINT_S

    @property
    def growth(self) -> float:
        """So many times what a core does, never less: a slower device measures small programs as well."""
        return max(1.0, self.flops_per_s / CAREFUL_FLOPS_PER_S)


CORE = Extent()


def extent_of(kind: str, model_name: str, memory_bytes: float) -> Extent:
    """Of a kind of device with `memory_bytes` by its own report; its speed is that of its data sheet."""
    if kind == "cpu":
        return CORE
    figures = figures_for(kind, model_name)
    return Extent(
        flops_per_s=CAREFUL_SHARE * figures.flops_per_s,
        memory_bytes=MEMORY_SHARE * memory_bytes if memory_bytes > 0 else math.inf,
        point_s=GPU_POINT_S,
    )
