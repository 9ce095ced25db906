"""What interrupts the steps: a wish to pause, a save that is due, a spent time budget. All ranks act alike."""

from __future__ import annotations

import faulthandler
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from worker.plan import EXIT_PAUSED
from worker.runtime import failures

if TYPE_CHECKING:
    from worker.runtime.run import Run


class Control:
    """Wishes of this rank, and what all ranks have agreed on."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.wants_pause = False
        self.time_spent = 0.0
        """Share of the time budget that is spent, as all ranks know it."""
        self._began_s = time.monotonic()

    def listen(self) -> None:
        """From now on a signal asks to pause, and SIGUSR1 to print where this rank stands."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask_to_pause)
        with suppress(OSError, ValueError, AttributeError):  # an error output that is no file
            faulthandler.register(signal.SIGUSR1, all_threads=False)

    def restart_clock(self) -> None:
        """Training begins now; what came before does not count against the budget."""
        self._began_s = time.monotonic()

    def elapsed_s(self) -> float:
        """Training time of all attempts."""
        return self.run.position.elapsed_s + time.monotonic() - self._began_s

    def wishes(self) -> tuple[float, float, float]:
        """To pause, to save, and the spent share of the time budget; the last two are the first rank's alone."""
        first = self.run.rank == 0
        save = first and self.run.keeper.minutes_are_up()
        return float(self.wants_pause), float(save), self._budget_spent() if first else 0.0

    def agree(self, pause: float, save: float, time_spent: float) -> None:
        """Take the sums of all ranks' wishes."""
        self.run.position.pause_agreed = pause > 0
        self.run.position.save_agreed = save > 0
        self.time_spent = time_spent

    def look(self) -> None:
        """See whether the platform asks for a pause."""
        requests = self.run.settings.requests
        self.wants_pause |= requests is not None and (requests / "pause").exists()

    def between_steps(self) -> bool:
        """Save or leave, if that is agreed; says whether the epoch is to end here (time budget)."""
        run = self.run
        if run.group is None:
            self.agree(*self.wishes())
        if run.position.pause_agreed:
            self._leave_paused()
        if run.position.save_agreed:
            run.position.save_agreed = False
            run.sync()
            run.keeper.save(metric=None)
            run.teller.reset_clock()
            run.pace.restart()
        return self.time_spent >= 1.0

    def _leave_paused(self) -> None:
        """Save and exit; every rank comes here after the same step."""
        run = self.run
        run.sync()
        run.keeper.save(metric=None)
        run.keeper.settle()
        run.reporter.say(f"paused after step {run.position.step}; the same command goes on from here")
        run.leave()
        failures.leave(EXIT_PAUSED)

    def _ask_to_pause(self, number: int, _frame: object) -> None:
        """Signal: pause after this step; a second one ends the process at once."""
        if self.wants_pause:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.wants_pause = True

    def _budget_spent(self) -> float:
        """Share of the time budget that is spent; 0 without one."""
        budget = self.run.spec.get("budget", {}).get("time_s")
        return self.elapsed_s() / budget if isinstance(budget, int | float) else 0.0
