"""Rules of a replay: slots, and what every decision costs the jobs that run.

The published ones are those of ElasticFlow's simulator: decisions at least 60 s apart; each delays every running job by
7 s (2 s on pools below 256 devices), a job whose width changed by 2 (log2 n + 1) s more, and at every 60th decision a
changed one by another 47 s (27 s).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

LARGE_POOL = 256
SLOT_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Rules:
    """How time passes in a replay."""

    slot_s: float = SLOT_S
    """Decisions are at least so far apart."""
    event_s: float = 0.0
    """Every decision holds every running job up for so long."""
    change_s: float = 0.0
    """A job that starts, grows or shrinks loses so much for each doubling of its width, and once more."""
    restart_every: int = 0
    """At each decision of this number ...; 0: never."""
    restart_s: float = 0.0
    """... a changed job loses so much more.

    What is left of an overhead at the next decision comes before that one's own.
    """
    refuse_late: bool = False
    """A job without a promise leaves once no width can keep its deadline (ElasticFlow refuses it at once)."""

    def __post_init__(self) -> None:
        """Refuse times that run backwards."""
        if not (math.isfinite(self.slot_s) and self.slot_s > 0):
            raise ValueError(f"a slot of {self.slot_s} s")
        costs = (self.event_s, self.change_s, self.restart_s, self.restart_every)
        if not all(math.isfinite(cost) and cost >= 0 for cost in costs):
            raise ValueError("an overhead below 0, or that never ends")
        if self.event_s >= self.slot_s:
            raise ValueError(f"decisions {self.slot_s:g} s apart cost {self.event_s:g} s each: nothing would ever run")

    @staticmethod
    def published(devices: int, *, slot_s: float = SLOT_S, refuse_late: bool = False) -> Rules:
        """ElasticFlow's rules for a pool of so many devices."""
        large = devices >= LARGE_POOL
        return Rules(
            slot_s=slot_s,
            event_s=7.0 if large else 2.0,
            change_s=2.0,
            restart_every=60,
            restart_s=47.0 if large else 27.0,
            refuse_late=refuse_late,
        )

    def rescale_s(self, width: int) -> float:
        """What a job of `width` devices loses by a start or a change of width, `restart_s` aside."""
        return self.change_s * (math.log2(width) + 1.0)

    def overhead_s(self, width: int, *, changed: bool, decision: int) -> float:
        """What decision number `decision` (from 1) costs a job that then runs on `width` devices."""
        if not changed:
            return self.event_s
        restart = self.restart_every > 0 and decision % self.restart_every == 0
        return self.event_s + self.rescale_s(width) + (self.restart_s if restart else 0.0)

    @property
    def slowdown(self) -> float:
        """Most that decisions alone can stretch a run: one in every slot."""
        return self.slot_s / (self.slot_s - self.event_s)
