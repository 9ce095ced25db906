"""Where a model is cut: as an earlier attempt on the same devices had it, or anew for those that run it now."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from worker.runtime import memory
from worker.runtime.collective import broadcast_bytes, gather_bytes
from worker.runtime.heap import give_back_freed_memory
from worker.runtime.outcome.results import cpu_name
from worker.runtime.pipeline.blocks import Chain
from worker.runtime.pipeline.costs import measured_blocks, piece_s
from worker.runtime.pipeline.stage import message_s
from worker.stage_devices import RankDevice, StageDevice, stage_devices, unlike_words
from worker.stages import StagePlan, Wanted, block_s, plan_stages

if TYPE_CHECKING:
    from worker.runtime.run import Run

PLAN_FILE = "pipeline.json"
"""In the work folder: a run that goes on is cut as it was."""
MESSAGE_PARTS = 8
"""A message is timed at the size that so many micro-batches have."""
MEMORY_SHARE = 0.9
"""Of what a rank may take, for its stage."""
ROUNDS = 3
"""Devices are timed again where they seem unlike, and the fastest times count: one may just have been kept from it."""


class Cutting:
    """How the ranks agree on a plan. Every rank makes the same calls."""

    def __init__(self, run: Run, chain: Chain, inputs: Sequence[Tensor], stages: int) -> None:
        assert run.group is not None  # noqa: S101
        self.run, self.group = run, run.group
        self._chain, self._inputs, self._stages = chain, inputs, stages
        self._batch = max(1, run.batch_size // (run.world_size // stages))

    def agreed(self) -> StagePlan:
        """The first rank's plan: that of an earlier attempt, if model and devices are the same, or a new one."""
        file, key = self.run.settings.work / PLAN_FILE, self._key()
        known = None if self.run.rank or self.run.settings.fresh else _read(file, key)
        known = self._first_says(known)
        if known is None:
            plan = self._new()
            if plan is not None:
                known = plan.to_dict()
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps({"key": key, "plan": known}, indent=1), encoding="utf-8")
            known = self._first_says(known)
        return StagePlan.from_dict(known)

    def _key(self) -> dict[str, Any]:
        """What a plan holds for."""
        return {
            "pieces": [piece.name for piece in self._chain.pieces],
            "stages": self._stages,
            "batch": self.run.batch_size,
            "wanted": asdict(self._wanted()),
            "devices": self._all_say([_name(self.run.device), self.run.settings.slowdown]),
        }

    def _new(self) -> StagePlan | None:
        """From pieces that the first rank times, and what every rank tells of its device; on the first rank."""
        run, chain, is_first = self.run, self._chain, self.run.rank == 0
        widest = max(piece.boundary.row_bytes for piece in chain.pieces)
        handed_s = message_s(widest * max(1, self._batch // MESSAGE_PARTS), run.device)
        blocks = measured_blocks(chain, self._inputs, self._batch, run.device) if is_first else []
        costs = [sum(block_s(block, self._batch, recompute=False)) for block in blocks]
        costliest = self._first_says(costs.index(max(costs)) if is_first else None)
        devices = self._devices(costliest)
        if not is_first:
            return None
        if words := unlike_words(devices):
            run.reporter.say(words)
        return plan_stages(
            blocks, self._stages, self._batch, devices=devices, wanted=self._wanted(), message_s=handed_s
        )

    def _devices(self, piece: int) -> tuple[StageDevice, ...]:
        """Of the stages. The ranks time the piece one after another: on a host that they share they would be in each
        other's way, and not all alike."""
        run, timed_s = self.run, math.inf
        devices: tuple[StageDevice, ...] = ()
        for _ in range(ROUNDS):
            for rank in range(run.world_size):
                if rank == run.rank:
                    timed_s = min(timed_s, piece_s(self._chain, piece, self._inputs, self._batch, run.device))
                self._all_say("done")
            devices = stage_devices([RankDevice(**body) for body in self._all_say(self._own(timed_s))], self._stages)
            if not unlike_words(devices):
                break
        return devices

    def _own(self, timed_s: float) -> dict[str, Any]:
        """What this rank tells of its device."""
        run = self.run
        give_back_freed_memory()  # what of it a process happens to hold does not make its device another one
        free_bytes = memory.free_bytes(run.device, run.settings.memory_bytes, run.settings.device_ranks)
        device = RankDevice(timed_s=timed_s, slowdown=run.settings.slowdown, memory_bytes=free_bytes * MEMORY_SHARE)
        return asdict(device)

    def _wanted(self) -> Wanted:
        wish = self.run.spec.get("pipeline", {})
        count, schedule, recompute = (wish.get(name, "auto") for name in ("micro_batches", "schedule", "recompute"))
        return Wanted(
            micro_batches=count if isinstance(count, int) else None,
            schedule=schedule if schedule != "auto" else None,
            recompute=recompute if isinstance(recompute, bool) else None,
        )

    def _first_says(self, value: Any) -> Any:
        """The first rank's value, on every rank."""
        return json.loads(broadcast_bytes(self.group, json.dumps(value).encode()))

    def _all_say(self, value: Any) -> list[Any]:
        """The values of all ranks, in their order."""
        return [json.loads(body) for body in gather_bytes(self.group, json.dumps(value).encode())]


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name()


def _read(file: Path, key: dict[str, Any]) -> dict[str, Any] | None:
    """The plan that was kept for this; None where there is none."""
    try:
        body = json.loads(file.read_text(encoding="utf-8"))
        StagePlan.from_dict(body["plan"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return dict(body["plan"]) if body.get("key") == key else None
