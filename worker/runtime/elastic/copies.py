"""The copy in memory that each rank of an elastic run keeps, and what of it must survive the loss of the first one."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from worker.runtime.checkpointer import Checkpointer
from worker.runtime.loss_curve import LossLog, LossPoint, are_finite
from worker.runtime.nested import copied
from worker.runtime.rng import restore_rng, rng_state

if TYPE_CHECKING:
    from worker.runtime.elastic.run import ElasticRun


class KeptLosses(LossLog):
    """Remembers the points since the last copy: the one rank that tells them may be lost before it has."""

    def __init__(self, steps_total: int) -> None:
        super().__init__(steps_total)
        self.recent: list[LossPoint] = []

    def drain(self) -> list[LossPoint]:
        """As ever."""
        points = super().drain()
        self.recent += points
        return points

    def forget(self) -> None:
        """Nothing of what waits counts."""
        self._waiting, self.recent = [], []

    @staticmethod
    def points_of(body: list[dict[str, Any]]) -> list[LossPoint]:
        """Points from the plain values in a copy."""
        return [LossPoint(**point) for point in body]


class ElasticCheckpointer(Checkpointer):
    """Every rank keeps the state of the best epoch: the first rank may be lost before it is on disk."""

    def __init__(self, run: ElasticRun) -> None:
        super().__init__(run)
        self.best: tuple[dict[str, Any], dict[str, Any]] | None = None
        self._newest: dict[str, Any] | None = None
        self.rngs: list[dict[str, Any]] | None = None
        """Random states of all ranks, from the checkpoint that was just loaded."""

    def _restore_rngs(self, states: list[dict[str, Any]]) -> None:
        self.rngs = states  # how many ranks there are, and which is which, is known when they are seated

    def _state(self) -> dict[str, Any]:
        self._newest = super()._state()
        return self._newest

    def end_of_epoch(self) -> None:
        """As ever."""
        self._newest = None
        super().end_of_epoch()
        if self.run.position.is_best and self._newest is not None:
            self.best = (copied(self._newest), {**self._label(), "metric": self.run.position.metric})
        self._newest = None

    def keep_best(self) -> None:
        """This is the first rank now: what no checkpoint holds yet waits to be written with the next one."""
        self.settle()
        there = self.store.best([])
        known = self.best is not None and there is not None and there.step == self.best[1]["step"]
        self._held = None if known else self.best

    def state_dict(self) -> dict[str, Any]:
        """When it saved last, and the best epoch."""
        best = None if self.best is None else list(self.best)
        return {"epochs_since": self._epochs_since, "saved_step": self._saved_step, "best": best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""
        self._epochs_since, self._saved_step = state["epochs_since"], state["saved_step"]
        best = state["best"]
        self.best = None if best is None else (best[0], best[1])


def copy_take(run: ElasticRun) -> dict[str, Any]:
    """All that the run depends on, after this step; the first rank has told all of it when the copy is made."""
    run.teller.sync()
    losses = run.teller.losses
    points = [asdict(point) for point in losses.recent] if isinstance(losses, KeptLosses) else []
    if isinstance(losses, KeptLosses):
        losses.recent = []
    rngs, run.checkpointer.rngs = run.checkpointer.rngs, None
    return {
        "rngs": rngs,
        "parts": copied(run.mode.state(run.checkpointer.parts)),
        "position": run.position.state_dict(),
        "losses": losses.state_dict(),
        "loss_scale": run.loss_scale.state_dict(),
        "checkpointer": run.checkpointer.state_dict(),
        "rng": rng_state(run.device),
        "points": points,
    }


def copy_load(run: ElasticRun, copy: dict[str, Any], *, again: bool) -> None:
    """Go back to a copy; `again`: this process may have gone on since it was made."""
    run.mode.load(run.checkpointer.parts, copied(copy["parts"]))
    position = run.position
    position.load_state_dict(copy["position"])
    position.metric, position.is_best, position.epoch_closed = None, False, False
    position.pause_agreed = position.save_agreed = False
    losses = run.teller.losses
    if isinstance(losses, KeptLosses):
        losses.forget()
    losses.load_state_dict(copy["losses"])
    run.loss_scale.load_state_dict(copy["loss_scale"])
    run.checkpointer.load_state_dict(copy["checkpointer"])
    if again and copy["rng"] is not None:
        restore_rng(copy["rng"], run.device)


def copy_save(run: ElasticRun) -> None:
    """Write this rank's copy as a checkpoint of its own node, and after it the best epoch before that.

    Never raises: what cannot be written is trained again, and nobody is to blame for it.
    """
    copy = run.copy
    if copy is None:
        return
    step, rng, best = copy["position"]["step"], copy["rng"], copy["checkpointer"]["best"]
    state = {
        "parts": copy["parts"],
        "position": copy["position"] | {"elapsed_s": run.control.elapsed_s()},
        "losses": copy["losses"],
        "loss_scale": copy["loss_scale"],
        "ranks": [] if rng is None else [rng],
    }
    try:
        run.teller.points(KeptLosses.points_of(copy["points"]))  # the lost one may not have told all of them
        if _is_whole(run, copy):
            run.checkpointer.store.save(state, step=step, epoch=run.teller.epochs_at(step), metric=None)
        if best is not None and best[1]["step"] != step:
            run.checkpointer.store.save(best[0], **best[1])
    except Exception as error:
        print(f"rank {run.rank}: the copy after step {step} cannot be saved: {error}", file=sys.stderr, flush=True)


def _is_whole(run: ElasticRun, copy: dict[str, Any]) -> bool:
    """Whether its weights are finite: an update that ruined them shows in the loss one step later."""
    net = run.checkpointer.parts["net"]
    return are_finite([copy["parts"]["net"][name] for name, weight in net.named_parameters() if weight.requires_grad])


def rng_take(run: ElasticRun, copy: dict[str, Any]) -> None:
    """Go on with this rank's own random state, where the copy comes from a checkpoint of as many ranks."""
    states, copy["rngs"] = copy.get("rngs"), None
    if states is not None and len(states) == run.world_size:
        copy["rng"] = states[run.rank]
        restore_rng(copy["rng"], run.device)
