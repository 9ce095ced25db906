"""How long the ranks of an elastic run are waited for: nobody can cut a step short, and some take minutes. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from worker.watchdog import PATIENCE_MOST, STEP_PATIENCE

SEATING_LIMIT_S = 120.0
"""After a loss the others have so long to come for a new place; more where their steps are long, as a stall limit."""
STAND_LIMIT_S = 60.0
"""Where the first node is lost the others have so long to stand still; more where their steps are long."""
SAVE_LIMIT_S = 120.0
"""Who was told to save its copy has written it by then, or never."""
RESCUE_MOST_S = PATIENCE_MOST * STAND_LIMIT_S + SAVE_LIMIT_S
"""No node takes longer to save what it holds."""


def seating_limit_s(longest_s: Iterable[float]) -> float:
    """How long those are waited for whose longest steps took so long."""
    return _limit_s(SEATING_LIMIT_S, longest_s)


def stand_limit_s(longest_s: Iterable[float]) -> float:
    """The same for those that are to stand still, so that one of them can save its copy."""
    return _limit_s(STAND_LIMIT_S, longest_s)


def _limit_s(usual_s: float, longest_s: Iterable[float]) -> float:
    """As a stall limit (`worker.watchdog`). It has an end, whatever the ranks say of themselves."""
    return min(PATIENCE_MOST * usual_s, max(usual_s, STEP_PATIENCE * max(longest_s, default=0.0)))
