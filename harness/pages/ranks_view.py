"""The ranks of a job's newest attempt: who takes how many rows of a step, how fast, and who waits for whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.jobs.control.parts import is_spread
from harness.jobs.control.width_request import width_of
from harness.jobs.models import Job, JobAttempt, JobEvent

SAID = {"split", "width"}
"""Notes with one of these in their data tell how ranks and rows changed."""


@dataclass(frozen=True, kw_only=True)
class RankRow:
    """One rank as the live tab shows it; None: not told yet."""

    rank: int
    device: str
    """`node-1 cpu`."""
    slowdown: float
    """Declared of its device; above 1 it is emulated."""
    rows: int | None
    samples_per_s: float | None
    idle_share: float | None
    """Share of the steps' time that it waits for others."""


@dataclass(frozen=True, kw_only=True)
class RanksView:
    """All ranks of a gang, and what was decided about their shares."""

    rows: tuple[RankRow, ...]
    said: tuple[JobEvent, ...]
    """The first split, each correction and each change of width, oldest first; `message` is the reason."""

    @property
    def is_emulated(self) -> bool:
        """Whether a device was declared slower than it is."""
        return any(row.slowdown > 1.0 for row in self.rows)


def ranks_of(job: Job) -> RanksView | None:
    """None where there is one rank or none, and there cannot be more."""
    attempt = job.attempts.order_by("-number").first()
    if attempt is None or max(attempt.world_size, attempt.plan.get("most", 0)) < 2:
        return None
    plan: dict[str, Any] = attempt.plan
    notes = JobEvent.objects.filter(job=job, kind="note", token=attempt.number).order_by("pk")
    said = [note for note in notes if SAID & set(note.data) or (plan.get("note") and note.message == plan["note"])]
    return RanksView(rows=tuple(_row(body, job.last_values) for body in _bodies(attempt)), said=tuple(said))


def _bodies(attempt: JobAttempt) -> list[dict[str, Any]]:
    """The ranks that are there, as in the plan."""
    planned, slots = attempt.plan["ranks"], width_of(attempt)
    if is_spread(attempt):
        return [body for body in planned if body["rank"] in slots]
    # On one node they count from 0, whatever numbers they began with; of a run whose width changes all are alike.
    more = ({**planned[0], "rank": rank} for rank in range(len(planned), len(slots)))
    return [*planned, *more][: len(slots)]


def _row(body: dict[str, Any], told: dict[str, Any]) -> RankRow:
    number = body["rank"]
    rows, planned = told.get(f"rank{number}/rows"), body.get("rows")
    return RankRow(
        rank=number,
        device=f"{body['node']} {body.get('device', '')}".strip(),
        slowdown=float(body.get("slowdown") or 1.0),
        rows=round(rows) if rows is not None else planned or None,
        samples_per_s=told.get(f"rank{number}/samples_per_s"),
        idle_share=told.get(f"rank{number}/idle_share"),
    )
