"""When a run is saved, what a checkpoint holds, and how a run goes on from one.

The first rank copies what is to be kept, and a thread of its own writes the copy while the training goes on.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from worker.events import EventKind
from worker.memory_words import Phase
from worker.merit import larger_is_better
from worker.runtime.background import Background
from worker.runtime.checkpoint import CheckpointStore, CorruptCheckpoint, Saved
from worker.runtime.collective import gather_bytes
from worker.runtime.exhausted import is_out_of_memory
from worker.runtime.gradients import broadcast_model
from worker.runtime.handing import state_handed
from worker.runtime.loss_curve import check_weights
from worker.runtime.memory import free_bytes
from worker.runtime.nested import copied, tensor_bytes
from worker.runtime.opening import split_notes
from worker.runtime.outline import packed, unpacked
from worker.runtime.rng import restore_rng, rng_state
from worker.runtime.storable import other_model, parts_check

if TYPE_CHECKING:
    from worker.runtime.run import Run

BEST_COST_SHARE = 0.05
"""A new best epoch is written at once only if writing takes less than this share of the time since the last one."""
HOLD_BYTES = 256 << 20
"""A best state up to this size may wait in memory to be written; a larger one is written at once."""
COPY_SHARE = 0.5
"""Of the free memory that the copy to be written may take; a larger state is written while the training waits."""
LEAVE_S = 20.0
"""How long a rank that fails waits for the checkpoint that is being written."""


class Checkpointer:
    """Saves and restores. Every rank calls the same methods at the same step; the first rank writes and reads."""

    def __init__(self, run: Run) -> None:
        self.run = run
        wish = run.spec.get("checkpoints", {})
        self.every_epochs = _number(wish.get("every_epochs"))
        self.every_minutes = _number(wish.get("every_minutes"))
        keep = int(_number(wish.get("keep")) or 2)
        folder, token = run.settings.work / "checkpoints", run.settings.token
        self.store = CheckpointStore(folder, keep, larger_is_better(run.metric_name), token)
        self.parts: dict[str, Any] = {}
        self.beginning = ""
        """What is to be said of a run that goes on from no checkpoint, for all that may be there."""
        self._writer = Background()
        self._held: tuple[dict[str, Any], dict[str, Any]] | None = None
        self._last_save = time.monotonic()
        self._last_save_s = 0.0
        self._saved_step = -1
        self._left: list[str] = []
        """Put aside here, and told with the next checkpoint: a store elsewhere has them still."""
        self._epochs_since = 0

    # ---- when --------------------------------------------------------------------------------------------------
    def minutes_are_up(self) -> bool:
        """Whether the spec's minutes have passed since the last save."""
        return self.every_minutes is not None and time.monotonic() - self._last_save >= self.every_minutes * 60

    def end_of_epoch(self) -> None:
        """Save by the policy after an epoch: due by count or minutes, the last, or the best so far."""
        position = self.run.position
        self._epochs_since += 1
        last = position.stopped or position.epoch + 1 >= self.run.epochs_total
        due = last or (self.every_epochs is not None and self._epochs_since >= self.every_epochs)
        waited = time.monotonic() - self._last_save
        affordable = self._last_save_s + self._writer.took_s <= waited * BEST_COST_SHARE
        due = self._agreed(due or self.minutes_are_up() or (position.is_best and affordable))
        if due:
            self.save(metric=position.metric)
            self._epochs_since = 0
        elif position.is_best:
            state = self._state()
            if tensor_bytes(state) > HOLD_BYTES:
                self.save(metric=position.metric, state=state)
            elif self.run.rank == 0:
                self._held = (copied(state), {**self._label(), "metric": position.metric})

    def flush(self) -> None:
        """Write what still waits, to its end. A stage may hold too little to have been saved when the first one was."""
        if self._agreed(self._saved_step != self.run.position.step):
            self.save(metric=self.run.position.metric)
        self.settle()

    def _agreed(self, wish: bool) -> bool:
        """The first rank's decision, on every rank (clocks differ)."""
        if self.run.group is None:
            return wish
        decision = torch.tensor([int(wish)])
        self.run.group.broadcast_(decision)
        return bool(decision)

    # ---- saving ------------------------------------------------------------------------------------------------
    def save(self, metric: float | None, state: dict[str, Any] | None = None) -> None:
        """Take a checkpoint of now, and before it a better one that waits in memory; they are written from here on.

        Raises what went wrong with the one before, and `ProgramFailure` (nan_loss) where a weight is not finite, and no
        evaluation was there to show it.
        """
        started, before = time.monotonic(), self.run.teller.phase
        self.run.teller.progress(Phase.CHECKPOINT)
        if metric is None and (net := self.parts.get("net")) is not None:
            check_weights(self.run.position.step, net)
        state = state or self._state()
        if self.run.rank == 0:
            parts_check(state["parts"])
            waiting = []
            if self._held is not None and not (metric is not None and self.run.position.is_best):
                waiting.append(self._held)
            self._held = None
            self._hand_over(waiting, state, {**self._label(), "metric": metric})
        self.run.teller.progress(before)
        self._saved_step = self.run.position.step
        self._last_save = time.monotonic()
        self._last_save_s = self._last_save - started

    def _hand_over(
        self, waiting: list[tuple[dict[str, Any], dict[str, Any]]], state: dict[str, Any], label: dict[str, Any]
    ) -> None:
        """Have everything written: beside the training, where memory has room for a copy."""
        self._writer.wait()
        free = free_bytes(torch.device("cpu"), self.run.settings.memory_bytes)
        beside = tensor_bytes(state) <= free * COPY_SHARE
        work = [*waiting, (copied(state) if beside else state, label)]

        def write() -> None:
            for item, its_label in work:
                self._write(item, **its_label)

        if beside:
            self._writer.start(write)
        else:
            write()

    def settle(self) -> None:
        """Until everything is on disk. Raises what went wrong."""
        self._writer.wait()

    def check(self) -> None:
        """Raise what went wrong with a checkpoint."""
        self._writer.check()

    def leave(self) -> None:
        """The run has failed: let a checkpoint that is being written get to its end, if it does so soon."""
        with suppress(Exception):
            self._writer.wait(LEAVE_S)

    def _label(self) -> dict[str, Any]:
        position, by = self.run.position, ("by_loss", "judged_by")
        at = {"step": position.step, "epoch": self.run.teller.epochs_at(position.step)}
        return at | {name: getattr(position, name) for name in by}

    def _write(self, state: dict[str, Any], **label: Any) -> None:
        saved = self.store.save(state, **label)
        best = self._is_best(saved)
        removed = self.store.purge()
        self._tell(saved, best, removed)

    def _is_best(self, saved: Saved) -> bool | None:
        """None where another one cannot be read now: that is no reason to end, and control finds out by itself."""
        try:
            best = self.store.best()
        except OSError:
            return None
        return best is not None and best.name == saved.name

    def _tell(self, saved: Saved, best: bool | None, removed: list[str]) -> None:
        data = {"name": saved.name, "step": saved.step, "epoch": saved.epoch, "metric": saved.metric}
        removed, self._left = [*(name for name in self._left if name != saved.name), *removed], []
        self.run.reporter.emit(EventKind.CHECKPOINT, **data, bytes=saved.bytes, best=best, removed=removed)

    def _state(self) -> dict[str, Any]:
        """All that the run depends on; of other ranks their random states."""
        run = self.run
        own = rng_state(run.device)
        ranks = [own]
        if run.group is not None:
            ranks = [unpacked(bytearray(body)) for body in gather_bytes(run.group, packed(own))]
        return {
            "parts": run.mode.state(self.parts),
            "position": run.position.state_dict() | {"elapsed_s": run.control.elapsed_s()},
            "losses": run.teller.losses.state_dict(),
            "loss_scale": run.loss_scale.state_dict(),
            "ranks": ranks,
        }

    # ---- restoring ---------------------------------------------------------------------------------------------
    def restore(self) -> None:
        """Go on from the wished or the newest good checkpoint, if there is one.

        Raises `CorruptCheckpoint` if the wished one is damaged, `Superseded` where a newer attempt has begun,
        `ProgramFailure` where model or optimizer are not those of the checkpoint, or none could hold a part.
        """
        run = self.run
        if run.rank == 0:
            parts_check({name: part.state_dict() for name, part in self.parts.items()})
            self.store.claim()
        found = self._find() if run.rank == 0 else None
        if run.group is not None:
            found = state_handed(run.group, run.rank, found)  # other nodes may not hold the files
        if found is None:
            self._tell_beginning()
            return
        name, state = found
        try:
            run.mode.load(self.parts, state["parts"])
        except (RuntimeError, KeyError, ValueError) as error:
            if is_out_of_memory(error):
                raise
            raise other_model(name, error) from error
        run.position.load_state_dict(state["position"])
        run.teller.losses.load_state_dict(state["losses"])
        run.loss_scale.load_state_dict(state.get("loss_scale"))  # there was none in earlier ones
        self._restore_rngs(state["ranks"])
        self._saved_step = run.position.step
        if run.rank == 0:
            run.reporter.note(
                f"Continuing from checkpoint {name}: step {run.position.step}, epoch {run.position.epoch}."
            )
            for note in split_notes(run):
                run.reporter.note(note)

    def _tell_beginning(self) -> None:
        if self.beginning and self.run.rank == 0:
            self.run.reporter.note(self.beginning)
        self.beginning = ""

    def _restore_rngs(self, states: list[dict[str, Any]]) -> None:
        """Of all ranks, as saved; other numbers of ranks begin with new ones."""
        if len(states) == self.run.world_size:
            restore_rng(states[self.run.rank], self.run.device)

    @property
    def _on_gpu(self) -> bool:
        """All of a state goes from its file to the GPU. On a CPU the optimizer keeps the tensors that it is given."""
        return self.run.device.type == "cuda"

    def _find(self) -> tuple[str, dict[str, Any]] | None:
        if self.run.settings.fresh:
            self._leave_behind(-1)  # another model's best must not become this one's
            return None
        wished = self.run.settings.resume_from
        if wished is None:
            return self.store.newest_good(self.run.reporter.note, mapped=self._on_gpu)
        state = self.store.load(Path(wished).name, mapped=self._on_gpu)
        self._leave_behind(int(state["position"]["step"]))
        return wished, state

    def _leave_behind(self, step: int) -> None:
        """Put checkpoints after `step` aside: they belong to a course that is given up and must not be its best."""
        later = self.store.later(step)
        if later:
            aside = self.store.leave_behind(later)
            self._left = later
            names = ", ".join(later)
            self.run.reporter.note(f"Put aside, as this run starts from an earlier point: {names} (in {aside.name}).")

    def take_best(self, net: nn.Module) -> None:
        """Put the best weights (their running average, if one is kept) into `net`, on every rank."""
        run = self.run
        if run.rank == 0:
            net.load_state_dict(self._best_weights(net))
        if run.group is not None:
            broadcast_model(net, run.group)

    def _best_weights(self, net: nn.Module) -> dict[str, Any]:
        best = self.store.best(unread := list[str]())
        if unread:
            self.run.reporter.note(f"The disk does not give {', '.join(unread)}: the best of the others is taken.")
        if best is not None:
            try:
                return _weights(self.store.load(best.name, mapped=True)["parts"])
            except CorruptCheckpoint as error:
                self.run.reporter.note(f"The best checkpoint is damaged ({error}); the last weights are used.")
            except (RuntimeError, MemoryError, OSError) as error:
                if not is_out_of_memory(error):
                    raise
                self.run.reporter.note(
                    f"Not enough memory for the best checkpoint {best.name}; the last weights are used."
                )
        current = {name: part.state_dict() for name, part in self.parts.items()}
        return _weights({"net": net.state_dict(), **current})


def _weights(parts: dict[str, Any]) -> dict[str, Any]:
    weights: dict[str, Any] = parts["ema"]["net"] if "ema" in parts else parts["net"]
    return weights


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None
