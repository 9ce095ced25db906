"""The ranks of a job's newest attempt: who takes how many rows of a step, how fast, and who waits for whom."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from harness.jobs.control.parts import is_spread
from harness.jobs.control.width_request import width_of
from harness.jobs.models import Job, JobAttempt, JobEvent
from worker.plan import RankPlan

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
    if attempt is None or max(attempt.world_size, attempt.run_plan.most) < 2:
        return None
    told = attempt.run_plan.note
    notes = JobEvent.objects.filter(job=job, kind="note", token=attempt.number).order_by("pk")
    said = [note for note in notes if SAID & set(note.data) or (told and note.message == told)]
    return RanksView(rows=tuple(_row(rank, job.last_values) for rank in _ranks(attempt)), said=tuple(said))


def _ranks(attempt: JobAttempt) -> list[RankPlan]:
    """The ranks that are there, as in the plan."""
    planned, slots = attempt.run_plan.ranks, width_of(attempt)
    if is_spread(attempt):
        return [rank for rank in planned if rank.rank in slots]
    # On one node they count from 0, whatever numbers they began with; of a run whose width changes all are alike.
    more = (replace(planned[0], rank=rank) for rank in range(len(planned), len(slots)))
    return [*planned, *more][: len(slots)]


def _row(rank: RankPlan, told: dict[str, Any]) -> RankRow:
    number, rows = rank.rank, told.get(f"rank{rank.rank}/rows")
    return RankRow(
        rank=number,
        device=f"{rank.node} {rank.device}".strip(),
        slowdown=rank.slowdown,
        rows=round(rows) if rows is not None else rank.rows or None,
        samples_per_s=told.get(f"rank{number}/samples_per_s"),
        idle_share=told.get(f"rank{number}/idle_share"),
    )
