"""Where a run stands: counters that a checkpoint holds, and what the ranks have agreed on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass(kw_only=True)
class Position:
    """Absolute counters. Step `step` of the run is step `step_in_epoch` of epoch `epoch`; all count from 0."""

    epoch: int = 0
    step_in_epoch: int = 0
    epoch_steps: int = 0
    """Steps of the epoch under way, by the ranks that there are; 0: it has not begun."""
    epoch_batch: int = 0
    """Rows of each but the last of these steps; 0: not known, or it has not begun."""
    step: int = 0
    """Steps made."""
    best: float | None = None
    by_loss: bool = False
    """Whether it is a loss told below zero (`metrics.is_by_loss`)."""
    judged_by: str = ""
    """Metric of the spec that it was judged by; empty: not known."""
    stale_epochs: int = 0
    """Epochs since the metric last improved."""
    stopped: bool = False
    """No further epoch: patience or time is spent."""
    elapsed_s: float = 0.0
    """Time of earlier attempts that counts against the time budget."""
    metric: float | None = None
    """Of the epoch just closed."""
    is_best: bool = False
    epoch_closed: bool = False
    split: tuple[int, ...] = ()
    """Rows of a whole batch by slot (`Run.slots`), as all ranks together have corrected them; empty: even."""
    split_planned: tuple[int, ...] = ()
    """The split that the run began with: what it learnt holds for that plan only."""
    held_out: tuple[str, ...] = ()
    """Rows that were kept from training (`Dataset.held_out`), of each split that the run has had; the last is now's."""
    pause_agreed: bool = False
    save_agreed: bool = False

    def go_to(self, step_in_epoch: int) -> None:
        """Step `step_in_epoch` of the epoch begins: the next one, or another where steps are handed out."""
        self.step += step_in_epoch - self.step_in_epoch
        self.step_in_epoch = step_in_epoch

    def next_epoch(self) -> None:
        """Go to the start of the next epoch."""
        self.epoch += 1
        self.step_in_epoch = self.epoch_steps = self.epoch_batch = 0
        self.epoch_closed = False
        self.metric = None

    def judge(self, metric: str, *, by_loss: bool) -> bool:
        """How epochs are judged from here on; whether by the loss, and no other one was yet.

        A best one that was judged otherwise is none: earlier runtimes told such a loss as it is, and a program or its
        spec may be changed.
        """
        if by_loss != self.by_loss or self.judged_by not in ("", metric):
            self.best, self.by_loss = None, by_loss
        self.judged_by = metric
        return by_loss and self.best is None

    def close_epoch(self, value: float, larger_is_better: bool, patience: int) -> None:
        """Take the metric of the epoch. An equal value makes this the best epoch but is no improvement.

        One that is no number (a program may judge its epochs itself) is none: no other would ever be better.
        """
        sign, known = 1.0 if larger_is_better else -1.0, math.isfinite(value)
        gain = None if self.best is None else sign * (value - self.best)
        self.is_best = known and (gain is None or gain >= 0)
        self.stale_epochs = 0 if known and (gain is None or gain > 0) else self.stale_epochs + 1
        if self.is_best:
            self.best = value
        self.metric = value if known else None
        self.epoch_closed = True
        if patience and self.stale_epochs >= patience:
            self.stopped = True

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds; a closed epoch is stored as the start of the next one."""
        return {
            "epoch": self.epoch + int(self.epoch_closed),
            "step_in_epoch": 0 if self.epoch_closed else self.step_in_epoch,
            "epoch_steps": 0 if self.epoch_closed else self.epoch_steps,
            "epoch_batch": 0 if self.epoch_closed else self.epoch_batch,
            "step": self.step,
            "best": self.best,
            "by_loss": self.by_loss,
            "judged_by": self.judged_by,
            "stale_epochs": self.stale_epochs,
            "stopped": self.stopped,
            "elapsed_s": self.elapsed_s,
            "split": list(self.split),
            "split_planned": list(self.split_planned),
            "held_out": list(self.held_out),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""
        for name in ("epoch", "step_in_epoch", "step", "best", "stale_epochs", "stopped", "elapsed_s"):
            setattr(self, name, state[name])
        self.epoch_steps, self.epoch_batch = (int(state.get(name, 0)) for name in ("epoch_steps", "epoch_batch"))
        self.by_loss, self.judged_by = bool(state.get("by_loss", False)), str(state.get("judged_by", ""))
        self.split = tuple(state.get("split", ()))
        self.split_planned = tuple(state.get("split_planned", ()))
        earlier = (kept for kept in state.get("held_out", ()) if kept not in self.held_out)
        self.held_out = (*earlier, *self.held_out)
