"""Goes on returning what a run made, whose supervisor had to leave while it did so: its node was started anew.

`python -m worker.transfer.again JOB_DIR TOKEN [PART]`; the ranks have ended, and nothing of them is held any more.
"""

from __future__ import annotations

import logging
import sys
import time

from worker.cause import failure
from worker.events import FailureCode, Outcome
from worker.supervisor import main
from worker.transfer.interrupted import interrupted_read
from worker.transfer.supervisor import CarryingSupervisor

_log = logging.getLogger("worker.supervisor")


class ReturningSupervisor(CarryingSupervisor):
    """State of what is left of an attempt."""

    def run(self) -> Outcome:
        """As `Supervisor.run`."""
        self.leaving.listen()
        self._seq = int(1000 * time.time())  # after all that was said before
        try:
            told = interrupted_read(self.paths, self.plan.token)
            self.carrier.go_on(told.checkpoints, told.leftover)
            outcome, cause = told.outcome, told.failure
        except (OSError, ValueError) as error:
            _log.exception("cannot go on returning")
            outcome, cause = Outcome.LOST, failure(FailureCode.NODE_LOST, f"What was to be returned is gone: {error}")
        self._record(outcome, cause)
        return outcome


if __name__ == "__main__":
    sys.exit(main(ReturningSupervisor))
