"""The ranks of a job's newest attempt: who takes how many rows of a step, how fast, and who waits for whom."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from codegen.modes import STAGED
from codegen.pipelines import FEWEST_STAGES
from harness.jobs.control.parts import is_spread
from harness.jobs.control.width_request import width_of
from harness.jobs.models import Allocation, Job, JobAttempt, JobEvent
from harness.jobs.use_rows import device_name
from worker.plan import RankPlan

SAID = {"split", "width"}
"""Notes with one of these in their data tell how ranks and rows changed."""


@dataclass(frozen=True, kw_only=True)
class RankRow:
    """One rank as the live tab shows it; None: not told yet."""

    rank: int
    device: str
    """`node-1 CPU 3`; which core it was is known only while the job has it."""
    stage: str
    """`1 of 2`, or with several pipelines `1 of 2, pipeline 2`: what it holds of the model; empty where that is all."""
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
    mode: str

    @property
    def is_staged(self) -> bool:
        """Whether each rank holds a stage of the model."""
        return self.mode in STAGED

    @property
    def shares_rows(self) -> bool:
        """Whether ranks share out the rows of a step, and tell who takes how many and who waits."""
        return self.mode == "sync"

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
    stages, held = _stages(job, attempt), _held(attempt)
    rows = tuple(
        _row(rank, held.get(slot) or _planned(rank), job.last_values, stages, attempt.world_size)
        for slot, rank in _ranks(attempt)
    )
    return RanksView(rows=rows, said=tuple(said), mode=attempt.run_plan.mode)


def _stages(job: Job, attempt: JobAttempt) -> int:
    """Of each pipeline of the attempt; 0 in other modes. What it was priced with wins, as it does in the run."""
    plan = attempt.run_plan
    if plan.mode not in STAGED:
        return 0
    wish = job.resolved.get("spec", {}).get("pipeline", {}).get("stages")
    guess = attempt.world_size if plan.mode == "pipeline" else FEWEST_STAGES
    return int(plan.environment.get("DLH_STAGES") or (wish if isinstance(wish, int) else guess))


def _stage(rank: int, stages: int, ranks: int) -> str:
    """Where a rank is: rank r is stage r mod K of pipeline r div K."""
    if not stages:
        return ""
    place = f"{rank % stages + 1} of {stages}"
    return f"{place}, pipeline {rank // stages + 1}" if ranks > stages else place


def _ranks(attempt: JobAttempt) -> list[tuple[int, RankPlan]]:
    """The ranks that are there, as in the plan, each behind the number for which its device is held."""
    planned, slots = attempt.run_plan.ranks, width_of(attempt)
    if is_spread(attempt):
        return [(rank.rank, rank) for rank in planned if rank.rank in slots]
    # On one node they count from 0, whatever numbers they began with; of a run whose width changes all are alike.
    more = (replace(planned[0], rank=rank) for rank in range(len(planned), len(slots)))
    return list(zip(slots, [*planned, *more], strict=False))


def _held(attempt: JobAttempt) -> dict[int, str]:
    """Number of a rank -> its device. A plan names no core: the system moves the ranks of a node among all of them, and
    only what is declared of a core tells which is whose."""
    rows = Allocation.objects.filter(attempt=attempt)
    found = rows.values_list("rank", "device__node__name", "device__kind", "device__index")
    return {rank: device_name(node, kind, index) for rank, node, kind, index in found}


def _planned(rank: RankPlan) -> str:
    kind, _, index = rank.device.partition(":")
    return device_name(rank.node, kind, int(index)) if index else f"{rank.node} {kind.upper()}"


def _row(rank: RankPlan, device: str, told: dict[str, Any], stages: int, ranks: int) -> RankRow:
    number, rows = rank.rank, told.get(f"rank{rank.rank}/rows")
    return RankRow(
        rank=number,
        device=device,
        stage=_stage(number, stages, ranks),
        slowdown=rank.slowdown,
        rows=round(rows) if rows is not None else rank.rows or None,
        samples_per_s=told.get(f"rank{number}/samples_per_s"),
        idle_share=told.get(f"rank{number}/idle_share"),
    )
