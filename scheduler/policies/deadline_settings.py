"""What can be set of `deadline_energy`."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.policies.order import PATIENCE_S
from scheduler.policies.ways import Rescale


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What can be set. Chosen after a few tries over the public traces that the figures are given for, so these lean
    towards them; `docs/decisions/` has the tries."""

    least_gain: float = 0.8
    """Free devices are given out while the marginal efficiency is at least this; 0: whatever speeds a job up."""
    promise_at_once: bool = False
    """Promise every deadline that fits; else only the smaller ones while the pool is loaded, and the rest later."""
    smallest: float = 0.25
    """This part of the jobs with deadlines, those with the smallest shares of the pool, is promised at any load."""
    light_load: float = 0.1
    """Below this planned load everything that fits is promised."""
    patience_s: float = PATIENCE_S
    """A job without a deadline that has waited so long goes before every deadline that is not promised."""
    rescale: Rescale = field(default_factory=Rescale)
    stay: float = 20.0
    """A job without a deadline that has just begun is not paused for a promise that has slack, until it ran for so many
    times what a start costs: then starting and stopping take at most a twentieth of its time. Nor is a width changed
    for thrift when less than that is left of a run."""
    least_stay: float = 3.0
    """Who has no place in the plan starts on devices that are free until others need them only if these are free for so
    many times what a start costs."""
