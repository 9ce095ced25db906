"""What interrupts the steps: a request to pause, a save that is due, a spent time budget. All ranks act alike."""

from __future__ import annotations

import faulthandler
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from torch import Tensor

from worker.plan import EXIT_PAUSED
from worker.runtime import failures
from worker.runtime.gradients import WISHES

if TYPE_CHECKING:
    from worker.runtime.run import Run

LOOK_S = 0.3
"""A request of the platform is looked for this often at most."""
READ_S, READ_STEPS_MAX = 0.5, 16
"""On a GPU what the ranks have told is read this often, or after so many steps: reading waits for the device."""


class Readings:
    """After how many steps what the ranks have told is read. The first rank's clock decides, so that all do alike."""

    def __init__(self, now_s: float) -> None:
        self.every = 1
        """Steps from one reading to the next, as all ranks know it."""
        self.proposed = 1
        """What this rank's clock makes of the steps since the reading before."""
        self._steps, self._read_s = 0, now_s

    def is_due(self) -> bool:
        """Whether to read after this step; to be asked once for each."""
        self._steps += 1
        return self._steps >= self.every

    def read(self, agreed: float, now_s: float) -> None:
        """What was told is read; `agreed` is what the first rank had proposed."""
        step_s = (now_s - self._read_s) / max(1, self._steps)
        self.proposed = max(1, min(READ_STEPS_MAX, int(READ_S / step_s))) if step_s > 0 else READ_STEPS_MAX
        self.every, self._steps, self._read_s = max(1, round(agreed)), 0, now_s


class Control:
    """Wishes of this rank, and what all ranks have agreed on."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.wants_pause = False
        self.time_spent = 0.0
        """Share of the time budget that is spent, as all ranks know it."""
        self._began_s = time.monotonic()
        self._looked_s = float("-inf")
        self._readings = Readings(self._began_s)

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
        self._look_again()
        first = self.run.rank == 0
        save = first and self.run.checkpointer.minutes_are_up()
        return float(self.wants_pause), float(save), self._budget_spent() if first else 0.0

    def tells(self) -> tuple[float, ...]:
        """All that this rank tells the others with its gradients: wishes, when to read them, and how long it worked."""
        proposed = self._readings.proposed if self.run.rank == 0 else 0
        return (*self.wishes(), float(proposed), *self.run.pace.tells())

    def take(self, controls: Tensor) -> Tensor | float:
        """Take the loss and what all ranks told, summed; returns the loss, on a GPU unread after most steps."""
        by_host = self.run.group is not None and self.run.group.by_host
        if controls.is_cuda and not by_host and not self._readings.is_due():
            return controls[0].clone()
        loss, *sums = controls.tolist()
        self.agree(*sums[:WISHES])
        self._readings.read(sums[WISHES], time.monotonic())
        self.run.pace.agree(sums[WISHES + 1 :])
        return float(loss)

    def agree(self, pause: float, save: float, time_spent: float) -> None:
        """Take the sums of all ranks' wishes."""
        self.run.position.pause_agreed = pause > 0
        self.run.position.save_agreed = save > 0
        self.time_spent = time_spent

    def look(self) -> None:
        """See whether the platform asks for a pause."""
        self._looked_s = time.monotonic()
        requests = self.run.settings.requests
        self.wants_pause |= requests is not None and (requests / "pause").exists()

    def _look_again(self) -> None:
        """A step may take minutes: who is asked for a pause meanwhile pauses after it, not after the next."""
        if time.monotonic() - self._looked_s >= LOOK_S:
            self.look()

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
            run.checkpointer.save(metric=None)
            run.teller.reset_clock()
            run.pace.restart()
        return self.time_spent >= 1.0

    def _leave_paused(self) -> None:
        """Save and exit; every rank comes here after the same step."""
        run = self.run
        run.sync()
        run.checkpointer.save(metric=None)
        run.checkpointer.settle()
        run.reporter.say(f"paused after step {run.position.step}; run the same command again to continue from here")
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
