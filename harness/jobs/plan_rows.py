"""The plan of an attempt, typed, from the row that keeps it: `JobAttempt.run_plan`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from worker.plan import Limits, RankPlan, RunPlan

_RANK = asdict(RankPlan(rank=0, node="", local_rank=0, device="", threads=0))
_LIMITS = asdict(Limits(memory_bytes=0, disk_bytes=0))
_PLAN = asdict(
    RunPlan(
        job_id="", token=0, mode="", ranks=(), job_dir="", dataset_dir="", limits=Limits(**_LIMITS),
        minimum_sandbox_level=0, own_code=False,
    )
)  # fmt: skip


def plan_read(body: Mapping[str, Any]) -> RunPlan:
    """What `RunPlan.to_dict` gave, in this release or another.

    A node refuses a plan of another version or with other fields (`RunPlan.from_dict`). Rows outlive releases: what one
    lacks is as where nothing was planned, and what is not known here is passed over.
    """
    limits = Limits(**_known(_LIMITS, body.get("limits") or {}))
    return RunPlan(**{**_known(_PLAN, body), "ranks": ranks_read(body.get("ranks") or ()), "limits": limits})


def ranks_read(bodies: Iterable[Mapping[str, Any]]) -> tuple[RankPlan, ...]:
    """The ranks of a plan alone."""
    return tuple(RankPlan.from_dict(_known(_RANK, body)) for body in bodies)


def _known(blank: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: body.get(name, value) for name, value in blank.items()}
