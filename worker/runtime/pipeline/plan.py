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

from worker.events import FailureCode
from worker.runtime import memory
from worker.runtime.collective import broadcast_bytes, gather_bytes
from worker.runtime.failures import ProgramFailure
from worker.runtime.heap import give_back_freed_memory
from worker.runtime.outcome.results import cpu_name
from worker.runtime.pipeline.blocks import Chain
from worker.runtime.pipeline.costs import measured_blocks, piece_s
from worker.runtime.pipeline.stage import message_s
from worker.stage_devices import RankDevice, StageDevice, short_stage, stage_devices, unlike_words
from worker.stages import StagePlan, Wanted, block_s, plan_stages
from worker.words import size_words

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
        """The first rank's plan: that of an earlier attempt, if model and devices are the same and their memory still
        holds the stages, or a new one. Raises `ProgramFailure` where an earlier one has no room any more, nor has any.
        """
        file, key = self.run.settings.work / PLAN_FILE, self._key()
        kept = self._first_says(None if self.run.rank or self.run.settings.fresh else _read(file, key))
        short = None
        if kept is not None:
            plan, now = StagePlan.from_dict(kept["plan"]), self._told_devices(0.0)
            short = short_stage(plan.stage_bytes, kept["rooms"], now)
            if short is None:
                return plan
            stage, takes, room = short
            text = f"stage {stage + 1} took about {size_words(takes)} and has room for {size_words(room)}: cut anew"
            self.run.reporter.say(text)
        made = self._first_says(self._new())
        plan = StagePlan.from_dict(made["plan"])
        if short is not None and not plan.fits:
            raise self._no_room(plan, made["rooms"])
        if self.run.rank == 0:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps({"key": key, **made}, indent=1), encoding="utf-8")
        return plan

    def _no_room(self, plan: StagePlan, rooms: Sequence[float]) -> ProgramFailure:
        """The same on every rank. Its estimate is a cautious one, but the run has been elsewhere, where it had room."""
        stage = max(range(len(rooms)), key=lambda number: plan.stage_bytes[number] - rooms[number])
        message = (
            "This run continues with less memory than it had: however it is cut, "
            f"stage {stage + 1} of {len(rooms)} takes about {size_words(plan.stage_bytes[stage])}, "
            f"and its rank has room for {size_words(rooms[stage])}."
        )
        where = "devices with more memory" if self.run.device.type == "cuda" else "a higher resources.memory_gib"
        hint = f"Continue it with {where}, more stages (pipeline.stages) or a smaller batch (training.batch_size)."
        return ProgramFailure(FailureCode.OUT_OF_MEMORY, message, hint)

    def _key(self) -> dict[str, Any]:
        """What a plan holds for."""
        return {
            "pieces": [piece.name for piece in self._chain.pieces],
            "stages": self._stages,
            "batch": self.run.batch_size,
            "wanted": asdict(self._wanted()),
            "devices": self._all_say([_name(self.run.device), self.run.settings.slowdown]),
        }

    def _new(self) -> dict[str, Any] | None:
        """From pieces that the first rank times, and what every rank tells of its device.

        On the first rank: `plan`, and `rooms`, the bytes that each stage could count on.
        """
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
        plan = plan_stages(
            blocks, self._stages, self._batch, devices=devices, wanted=self._wanted(), message_s=handed_s
        )
        return {"plan": plan.to_dict(), "rooms": [device.memory_bytes for device in devices]}

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
            devices = self._told_devices(timed_s)
            if not unlike_words(devices):
                break
        return devices

    def _told_devices(self, timed_s: float) -> tuple[StageDevice, ...]:
        """Of the stages, from what every rank tells of its own."""
        return stage_devices([RankDevice(**body) for body in self._all_say(self._own(timed_s))], self._stages)

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
    """`plan` and `rooms` that were kept for this; None where there is none."""
    try:
        body = json.loads(file.read_text(encoding="utf-8"))
        plan = StagePlan.from_dict(body["plan"])
        rooms = [float(room) for room in body["rooms"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    is_whole = body.get("key") == key and len(rooms) == len(plan.ends) == len(plan.stage_bytes) == key["stages"]
    return {"plan": body["plan"], "rooms": rooms} if is_whole else None
