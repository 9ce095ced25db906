"""`Probe`: a few real steps of the very program, which scale what is estimated of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scheduler.estimation.calibration import MOST
from scheduler.estimation.values import Allocation

PROBE_RANGE = 0.04
"""Half width of the log range that one real step leaves at the very allocation it was made on."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One to three real steps of the very program. Raises `ValueError` for figures that cannot be."""

    allocation: Allocation
    """What it ran on."""
    step_s: tuple[float, ...]
    """Warm-up left out."""
    peak_bytes: float | None = None
    """Of one rank, above the idle process."""
    peak_rows: int = 0
    """Rows of that rank, where its memory was seen on another allocation than its steps; 0: on the same."""
    own_run: bool = False
    """The steps are those of the run itself so far, in each part of it."""
    evaluation_row_s: float | None = None
    """Of one row in a forward pass as between epochs."""
    load_row_s: float | None = None
    """Of one row to be read and made ready."""
    load_once_s: float | None = None
    """Beside the rows: until all that reads them is loaded and the model is made, however many there are."""
    node: str = ""
    """Where it ran: what its pace there is the model says. Empty: on several nodes, or nobody knows."""
    power_w: float | None = None
    """All devices that it ran on, read while it ran."""
    left_out_s: tuple[float, ...] = ()
    """Steps of another look that took longer: see `scheduler.estimation.doubt`."""

    @property
    def spread(self) -> float:
        """How far its own steps lie apart, as half the width of a log range."""
        if len(self.step_s) < 2:
            return PROBE_RANGE
        return 0.5 * math.log(max(self.step_s) / min(self.step_s))

    @property
    def is_alone(self) -> bool:
        """One rank made its steps: they tell nothing of what ranks send each other."""
        return len(self.allocation.batch_split) == 1

    @property
    def key(self) -> tuple[str, str]:
        """Kind and model of the device that it ran on."""
        return (self.allocation.kind, self.allocation.model_name)

    def __post_init__(self) -> None:
        """Refuse what no probe gives."""
        others = (self.peak_bytes, self.evaluation_row_s, self.load_row_s, self.load_once_s, self.power_w)
        values = [*self.step_s, *(value for value in others if value is not None)]
        if not self.step_s or not all(0 < value <= MOST for value in values):
            raise ValueError(f"a probe needs figures above 0 up to {MOST:g}, not {values}")
