"""The ranks of a job's newest attempt: who takes how many rows of a step, how fast, and who waits for whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.jobs.models import Job, JobEvent


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
    """The first split and each correction, oldest first; `message` is the reason."""

    @property
    def is_emulated(self) -> bool:
        """Whether a device was declared slower than it is."""
        return any(row.slowdown > 1.0 for row in self.rows)


def ranks_of(job: Job) -> RanksView | None:
    """None where there is one rank or none."""
    attempt = job.attempts.order_by("-number").first()
    if attempt is None or attempt.world_size < 2:
        return None
    plan: dict[str, Any] = attempt.plan
    notes = JobEvent.objects.filter(job=job, kind="note", token=attempt.number).order_by("pk")
    said = [note for note in notes if "split" in note.data or (plan.get("note") and note.message == plan["note"])]
    return RanksView(rows=tuple(_row(body, job.last_values) for body in plan["ranks"]), said=tuple(said))


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
