"""One attempt's way from the store to a node without its folder, and back."""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from worker.attempt import Attempt
from worker.cause import failure, leftover_failure
from worker.events import Event, FailureCode, Outcome
from worker.transfer.brought import Brought
from worker.transfer.depot import Depot
from worker.transfer.owed import owed_begin, owed_end
from worker.transfer.portal import Stopped
from worker.transfer.returning import Returner
from worker.transfer.waits import Waits
from worker.trees import tree_remove

CANCELLED_S, HURRY_S = 20.0, 2.0
"""So long a cancelled run tries to return what it made, and one that was told to leave. Any other does so until the
portal has it all or says that another attempt has taken over: what lies here alone is worth more than the devices."""
RECORD_S = 5.0
CHECKPOINT_KEYS = ("name", "step", "epoch", "metric", "bytes", "best", "removed")
JUDGE_S = 5.0
"""So long the data of a run that ended badly are hashed, before its program is blamed."""
_NEEDED = frozenset({Outcome.SUCCEEDED, Outcome.PAUSED})
"""Ends that are true only if the store has what the run made."""


class Carrier:
    """Before `bring` has ended well the other calls do nothing."""

    def __init__(self, attempt: Attempt, depot: Depot) -> None:
        self._attempt, self._depot = attempt, depot
        self._brought: Brought | None = None
        self._returner: Returner | None = None
        self._goes_on = False
        """Another process has begun to return what the run made."""
        self.leftover = ""
        """The checkpoint that lay here alone, from which the run goes on instead of that of its plan."""

    def bring(self, unwanted: Callable[[], bool]) -> tuple[Attempt, dict[str, Any]]:
        """(the attempt with its files on this machine, data of a note about it).

        Raises `Stopped` once `unwanted` says so, `TransferError`, `OSError`, `ValueError`.
        """
        attempt = self._attempt
        attempt.make_folders()
        paths = attempt.paths
        self._brought = self._depot.run_bring(attempt.plan, paths, first=attempt.first, stopped=unwanted)
        owed_begin(paths.root, attempt.plan.token)
        ranks = [rank.rank for rank in attempt.slots]
        self._returner = Returner(self._depot.portal, attempt.plan, paths, ranks, first=attempt.first)
        self._returner.start()
        assert self._brought.dataset is not None  # noqa: S101 - `run_bring` ended well
        weights = self._brought.weights
        plan = replace(
            attempt.plan, dataset_dir=str(self._brought.dataset.path), weights_dir=str(weights.path) if weights else ""
        )
        if left := self._brought.unreturned:
            self._returner.offer([one.told() for one in left])
            self.leftover = left[-1].name
            plan = replace(plan, resume_from=self.leftover)
        return replace(attempt, plan=plan), self._brought.told(attempt.node)

    def go_on(self, checkpoints: Sequence[dict[str, Any]], leftover: str) -> None:
        """Return what is left of a run that has ended, without bringing anything: `checkpoints` by data of their
        CHECKPOINT events, logs and results as they lie here."""
        attempt, self.leftover, self._goes_on = self._attempt, leftover, True
        self._brought = self._depot.run_hold(attempt.plan)
        ranks = [rank.rank for rank in attempt.slots]
        self._returner = Returner(self._depot.portal, attempt.plan, attempt.paths, ranks, first=attempt.first)
        self._returner.start()
        self._returner.offer(checkpoints)

    def unsent(self) -> list[dict[str, Any]]:
        """Data of CHECKPOINT events whose files the store does not have."""
        return [] if self._returner is None else self._returner.unsent()

    @property
    def refused(self) -> bool:
        """Another attempt has taken over: the portal takes nothing of this one any more."""
        return self._returner is not None and self._returner.refused.is_set()

    @property
    def data_aside(self) -> bool:
        """The data that the run reads were found damaged, and put aside."""
        return self._brought is not None and self._brought.dataset is not None and self._brought.dataset.aside

    def data_judge(
        self, outcome: Outcome, cause: dict[str, Any] | None, stopped: Callable[[], bool]
    ) -> tuple[Outcome, dict[str, Any] | None]:
        """A run that ended badly over damaged data is not to blame for it, and starts again with good ones."""
        if outcome is Outcome.FAILED:
            damaged = self._data_damaged(stopped)
        else:
            damaged = outcome is Outcome.LOST and self.data_aside
        if not damaged:
            return outcome, cause
        text = f"The data in the cache of {self._attempt.node} had become damaged. It is fetched again."
        return Outcome.LOST, failure(FailureCode.NODE_LOST, text)

    def leftover_judge(self, outcome: Outcome, cause: dict[str, Any] | None) -> tuple[Outcome, dict[str, Any] | None]:
        """A run that could not go on from what lay here alone starts again without it: control knows only the
        checkpoint of the plan, and would blame that."""
        code = (cause or {}).get("code")
        if not self.leftover or outcome is not Outcome.FAILED or code != FailureCode.CHECKPOINT_CORRUPT:
            return outcome, cause
        tree_remove(self._attempt.paths.checkpoints / self.leftover)
        return Outcome.LOST, leftover_failure(self.leftover, self._attempt.node)

    def _data_damaged(self, stopped: Callable[[], bool]) -> bool:
        if self._brought is None or self._brought.dataset is None:
            return False
        try:
            return self._depot.is_damaged(self._brought.dataset, JUDGE_S, stopped)
        except (OSError, Stopped):
            return False

    def pass_on(self, events: list[Event]) -> list[Event]:
        """Events that may be told now."""
        return events if self._returner is None else self._returner.hold(events)

    def rescue(self, names: Sequence[str]) -> None:
        """Return these checkpoints, which this node saved when the first one was lost."""
        if self._returner is not None:
            self._returner.offer([{"name": name} for name in names])

    def notes(self) -> list[dict[str, Any]]:
        """Data of NOTE events: what people should know of the way back."""
        found: list[dict[str, Any]] = []
        while self._returner is not None and not self._returner.notes.empty():
            found.append(self._returner.notes.get())
        return found

    def kept(self) -> list[dict[str, Any]]:
        """Data of CHECKPOINT events that may be told now, since the store has their files."""
        found: list[dict[str, Any]] = []
        while self._returner is not None:
            try:
                data = self._returner.kept.get_nowait()
            except queue.Empty:
                break
            found.append({key: data.get(key) for key in CHECKPOINT_KEYS})
        return found

    def ended(
        self,
        outcome: Outcome,
        cause: dict[str, Any] | None,
        hurried: Callable[[], bool],
        tell: Callable[[dict[str, Any]], object] = lambda _: None,
        still: Callable[[], object] = lambda: None,
        *,
        cancelled: bool = False,
    ) -> tuple[Outcome, dict[str, Any] | None]:
        """Return the rest, however long that takes, unless it was `cancelled` or is `hurried`. What a run made and the
        store did not get, it did not make. `tell`: data of a NOTE event about a wait; `still`: called while it takes
        long, so that nobody keeps devices for it."""
        if self._returner is None:
            return outcome, cause
        told = f" ({cause['message']})" if cause else ""
        where = f"waits on {self._attempt.node}, as it cannot be returned to the store of the portal now"
        begin = f"The run has ended: {outcome}{told}. What it made {where}: "
        limit_s = CANCELLED_S if cancelled else math.inf
        waits = Waits(begin, tell, (lambda: None) if cancelled else still, goes_on=self._goes_on)
        problem = self._finish(self._returner, limit_s, hurried, waits)
        too_large = self._returner.too_large
        if not problem and not too_large.names:
            owed_end(self._attempt.paths.root)
        if problem and outcome in _NEEDED:
            text = f"The run's output could not be returned to the store: {problem}"
            return Outcome.LOST, failure(FailureCode.NODE_LOST, text)
        if too_large.names and outcome in _NEEDED:
            return Outcome.FAILED, too_large.failure()
        return outcome, cause

    @staticmethod
    def _finish(returner: Returner, limit_s: float, hurried: Callable[[], bool], waits: Waits) -> str:
        returner.finish_begin(limit_s)
        end_s = time.monotonic() + limit_s
        while (left_s := end_s - time.monotonic()) > 0 and not returner.finished(min(0.5, left_s)):
            if hurried() and left_s > HURRY_S:
                end_s = time.monotonic() + HURRY_S
                returner.finish_begin(HURRY_S)
            waits.look(returner.away, is_told=returner.is_told, arrives=returner.arrives)
        return returner.problem()

    def exit_record(self, text: str, *, hurry: bool) -> None:
        """Leave the record of the end in the store, for control that did not hear of it."""
        if self._returner is not None and not self.refused:
            self._returner.exit_record(text, 0.0 if hurry else RECORD_S)

    def close(self) -> None:
        """What was brought may be removed."""
        if self._brought is not None:
            self._brought.release()
