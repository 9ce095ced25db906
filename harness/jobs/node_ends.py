"""How the part of an attempt on one of its nodes ended, typed, from the row of history that keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from worker.events import FailureCode, Outcome

END_KIND = "node_end"
"""`JobEvent.kind` of such a row; its `data` is a `NodeEnd`."""


@dataclass(frozen=True, kw_only=True)
class NodeEnd:
    """What a node told, or what was said in its place when it was lost."""

    node: str
    outcome: Outcome
    failure: dict[str, Any] | None = None
    """In the node's own words; `failures.failure_of` makes a `RunFailure` of what the attempt ends with."""
    rescue: tuple[str, ...] = ()
    """Names of checkpoints that it has made of its copies of the run."""
    leftover: str = ""
    """A checkpoint that lay there alone, and not that of the plan: the attempt went on from it."""
    unmet: bool = False
    """Whether its ranks paused before they had met the others: no rank of the attempt has made a step."""
    ended_s: float | None = None
    """Unix time, by its own clock; None where an earlier release wrote it."""

    @property
    def has_suffered(self) -> bool:
        """Whether it says itself that the cause lies on another node."""
        return bool(self._words.get("suffered"))

    @property
    def has_stalled(self) -> bool:
        """Whether it ended for want of progress."""
        return self._words.get("code") == FailureCode.STALLED

    @property
    def is_cut(self) -> bool:
        """Whether another node did not answer it."""
        return bool(self._words.get("cut"))

    @property
    def has_refused(self) -> bool:
        """Whether its ranks could not go on from the checkpoint that they were given."""
        return self._words.get("code") == FailureCode.CHECKPOINT_CORRUPT

    @property
    def is_stopped(self) -> bool:
        """Whether its node was shut down in order."""
        return self._words.get("code") == FailureCode.NODE_STOPPED

    @property
    def has_saved(self) -> bool:
        """Whether its node was shut down, and its ranks left after a step on which all ranks had agreed to save."""
        return self.is_stopped and bool(self._words.get("saved"))

    @property
    def message(self) -> str:
        """Why, in a sentence; empty where nobody said."""
        return str(self._words.get("message") or "")

    @property
    def _words(self) -> Mapping[str, Any]:
        return {} if self.failure is None else self.failure

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"outcome": str(self.outcome), "rescue": list(self.rescue)}


def end_read(body: Mapping[str, Any]) -> NodeEnd:
    """Inverse of `NodeEnd.to_dict`. Rows outlive releases: what one lacks is empty, and no outcome means lost."""
    outcome = str(body.get("outcome"))
    return NodeEnd(
        node=str(body.get("node") or ""),
        outcome=Outcome(outcome) if outcome in list(Outcome) else Outcome.LOST,
        failure=body.get("failure"),
        rescue=tuple(body.get("rescue") or ()),
        leftover=str(body.get("leftover") or ""),
        unmet=bool(body.get("unmet")),
        ended_s=body.get("ended_s"),
    )
