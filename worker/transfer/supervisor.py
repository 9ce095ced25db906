"""The supervisor of a node without the store's folder: brings data and program first, gives back what the run makes.

`python -m worker.transfer.supervisor JOB_DIR TOKEN [PART]`, as `worker.supervisor`, from which all else comes.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

from worker.attempt import Attempt
from worker.cause import judge
from worker.elastic.rescue import rescued
from worker.events import Event, EventKind, Outcome
from worker.supervisor import SHUTDOWN_WAIT_S, Supervisor, main
from worker.telemetry.forward import Forwarder
from worker.transfer.carrier import Carrier
from worker.transfer.depot import depot_here
from worker.transfer.interrupted import Interrupted, interrupted_write
from worker.transfer.portal import Stopped

_log = logging.getLogger("worker.supervisor")


class _Leaves(Exception):
    """Its node is to be stopped: what is not returned yet waits there."""


class CarryingSupervisor(Supervisor):
    """State of one attempt on such a node."""

    def __init__(self, attempt: Attempt, forwarder: Forwarder) -> None:
        super().__init__(attempt, forwarder)
        depot = depot_here()
        if depot is None:
            raise RuntimeError("this node has no cache: DLH_CACHE is not set")
        self.carrier = Carrier(attempt, depot)
        self._returns = False
        """It only returns what the run made, and can be gone on with."""
        self._for_data = False
        """It ends since its data were damaged: what it has saved counts, and has time to return."""

    def _start(self) -> None:
        try:
            self.attempt, note = self.carrier.bring(self._unwanted)
        except Stopped:
            self.seen.pause_overdue = self.seen.pause_wanted  # there is nothing to save yet
            return
        self.plan = self.attempt.plan
        self.started_s = time.monotonic()  # the way of the data is no part of the start: it has a figure of its own
        self.warden.begin(self.attempt, self.started_s)
        self.emit(EventKind.NOTE, **note)
        super()._start()

    def _unwanted(self) -> bool:
        """Whether somebody wants the attempt to leave."""
        self._notice()
        if self.forwarder.fenced.is_set() or self.warden.superseded():
            self.seen.shut_down = True
        seen = self.seen
        return seen.cancelled or seen.ended_elsewhere or seen.pause_wanted or seen.leaves or seen.shut_down

    def _turn(self) -> None:
        super()._turn()
        self._kept_tell()

    def _kept_tell(self) -> None:
        for told in self.carrier.notes():
            self.emit(EventKind.NOTE, **told)
        for data in self.carrier.kept():
            self.emit(EventKind.CHECKPOINT, **data)

    def _accept(self, event: Event) -> list[Event]:
        return self.carrier.pass_on(super()._accept(event))

    def _requests(self, now_s: float) -> None:
        if self.carrier.refused or self.carrier.data_aside:
            self._for_data = self._for_data or not self.seen.shut_down
            self.seen.shut_down = True
        super()._requests(now_s)

    @property
    def _is_in_hurry(self) -> bool:
        """Whether it was told to go, and not only because of its data."""
        if self.seen.leaves and not (self.leaving.is_dropped or self._is_given_up):
            return self.leaving.is_overdue  # what lies here alone has as long to return as ranks have to save
        return self.seen.shut_down and (self.carrier.refused or not self._for_data)

    def _ended(self) -> tuple[Outcome, dict[str, Any] | None]:
        if self.sandbox is None:
            return judge(self.seen)
        return self.carrier.leftover_judge(*self.carrier.data_judge(*super()._ended(), self._unwanted))

    @property
    def _may_leave(self) -> bool:
        """Whether somebody goes on with the rest: not where it is of no use any more."""
        return self.seen.leaves and not self._is_given_up and not self.seen.cancelled

    @property
    def _is_given_up(self) -> bool:
        """Whether another attempt has taken over."""
        return self.carrier.refused or self.forwarder.fenced.is_set() or self.warden.superseded()

    def _still_returns(self, outcome: Outcome, cause: dict[str, Any] | None) -> None:
        """What the ranks held is free: say so, and leave what another process needs to go on."""
        told = Interrupted(
            outcome=outcome, failure=cause, leftover=self.carrier.leftover, checkpoints=self.carrier.unsent()
        )
        try:
            interrupted_write(self.paths, self.plan.token, told)
            self._returns = True
        except OSError as error:  # a full disk: then it cannot be gone on with
            _log.warning("cannot note that the run is being returned: %s", error)
        self.emit(EventKind.RETURNING, node=self.attempt.node, outcome=str(outcome), failure=cause)

    def _told_more(self) -> dict[str, Any]:
        return {"leftover": self.carrier.leftover} if self.carrier.leftover else {}

    def _record(self, outcome: Outcome, cause: dict[str, Any] | None) -> None:
        cancelled, made = self.seen.cancelled, (outcome, cause)
        # told to go: it starts again elsewhere at once, with what it has saved if that arrives in time
        in_time = self.seen.leaves
        leaves = outcome is Outcome.LOST and (in_time or self._is_in_hurry)

        def hurried() -> bool:
            self._notice()
            self._kept_tell()
            if self._may_leave and not leaves and (self.leaving.is_overdue or not in_time):
                if not self._returns:  # nobody has noted yet that it takes a while
                    self._still_returns(*made)
                if self._returns:
                    raise _Leaves
            return self._is_in_hurry or (self.seen.cancelled and not cancelled)

        if self.sandbox is not None:
            # after a fault of our own the ranks must not write what is being returned
            self.sandbox.close(take_back=not self.warden.superseded())
            if outcome is Outcome.LOST:
                self.carrier.rescue(rescued(self.paths))
        try:
            outcome, cause = self.carrier.ended(
                outcome, cause, hurried, lambda told: self.emit(EventKind.NOTE, **told),
                lambda: None if leaves else self._still_returns(*made), cancelled=cancelled,
            )  # fmt: skip
            self._kept_tell()
        except _Leaves:
            self.forwarder.close(SHUTDOWN_WAIT_S)
            return
        except BaseException:
            super()._record(outcome, cause)
            raise
        super()._record(outcome, cause)
        file = self.paths.exit_file(self.plan.token)
        if file.exists():
            self.carrier.exit_record(file.read_text(), hurry=leaves or self._is_in_hurry)
        self.carrier.close()


if __name__ == "__main__":
    sys.exit(main(CarryingSupervisor))
