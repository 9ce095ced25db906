"""What the ends of the parts of an attempt over several nodes come to: plain values in, plain values out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from harness.jobs.node_ends import NodeEnd
from worker.cause import left_early, leftover_failure
from worker.events import FailureCode, Outcome


def verdict(ends: Sequence[NodeEnd]) -> tuple[Outcome, dict[str, Any] | None]:
    """What the parts come to: (outcome, failure). `ends` in the order in which they were heard."""
    bad = [end for end in ends if end.outcome in {Outcome.FAILED, Outcome.LOST}]
    own = [end for end in bad if not end.has_suffered]
    if refused := refused_end(ends):
        return Outcome.LOST, leftover_failure(refused.leftover, refused.node)
    if own:
        return own[0].outcome, own[0].failure
    stalled = [end for end in bad if end.has_stalled]
    if stalled and not any(end.is_cut for end in bad):
        return Outcome.FAILED, stalled[0].failure
    early = [end.node for end in ends if end.outcome == Outcome.SUCCEEDED]
    if bad and early:
        return Outcome.FAILED, left_early(f"The ranks on {' and '.join(sorted(early))}")
    if bad:
        names = " and ".join(sorted(end.node for end in ends))
        message = f"The ranks on {names} lost each other: the network between them was cut, or too slow."
        return Outcome.LOST, {"code": str(FailureCode.NODE_LOST), "message": message}
    if is_unmet(ends):
        return Outcome.PAUSED, None
    outcomes = {end.outcome for end in ends}
    for outcome in (Outcome.CANCELLED, Outcome.PAUSED):
        if outcome in outcomes:
            return outcome, None
    return Outcome.SUCCEEDED, None


def is_unmet(ends: Iterable[NodeEnd]) -> bool:
    """Whether the ranks of a node have paused and will never come to where those of the others wait for them."""
    return any(end.unmet and end.outcome == Outcome.PAUSED for end in ends)


def refused_end(ends: Sequence[NodeEnd]) -> NodeEnd | None:
    """The end of the node whose leftover checkpoint ranks could not go on from, be they on it or on another one."""
    bad = [end for end in ends if end.outcome in {Outcome.FAILED, Outcome.LOST} and not end.has_suffered]
    return next((end for end in ends if end.leftover), None) if bad and bad[0].has_refused else None
