"""Whether a run's memory grows from step to step, as where a program keeps something of each: no batch size helps."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import torch

from worker.runtime.memory import status_fields

FIRST_STEP = 3
"""By its end an optimizer and the allocators have what they keep anyway."""
LEAST, MOST = 6, 16
"""So many sizes at least tell of growth; of more than this every other one is forgotten, and fewer are looked at."""
RISE_BYTES = 1 << 20
"""From one size to the next."""
RISE_SHARE = 0.2
"""Of the newest size that has been added since the first."""


class MemoryGrowth:
    """Takes the size between steps, ever more seldom; it grows where no size was lower than the one before."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._sizes: list[int] = []
        self._seen, self._stride = 0, 1

    def look(self) -> bool:
        """After a step. Whether `grows` has changed."""
        before = self.grows
        self._seen += 1
        if self._seen >= FIRST_STEP and (self._seen - FIRST_STEP) % self._stride == 0:
            self._sizes.append(self._held_bytes())
            if len(self._sizes) > MOST:
                self._sizes, self._stride = self._sizes[::2], 2 * self._stride
        return self.grows != before

    @property
    def grows(self) -> bool:
        """As far as it has been looked at."""
        sizes = self._sizes
        if len(sizes) < LEAST or sizes[-1] - sizes[0] < RISE_SHARE * sizes[-1]:
            return False
        return all(later - earlier >= RISE_BYTES for earlier, later in pairwise(sizes))

    def _held_bytes(self) -> int:
        """Of this process, without files that it only maps; on a GPU that of its tensors as well."""
        own = int(status_fields(Path("/proc/self/status")).get("RssAnon", 0.0))
        return own + (torch.cuda.memory_allocated(self.device) if self.device.type == "cuda" else 0)
