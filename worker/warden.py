"""When an attempt is to be ended: because somebody asks for it, it breaks a limit, or a newer attempt has begun."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from worker import registry
from worker.attempt import Attempt
from worker.cause import Seen
from worker.events import Event, FailureCode
from worker.launch import CANCEL_FILE, END_FILE, STACKS_FILE
from worker.stacks import stack_of, standing
from worker.watchdog import PauseWatch, Verdict, Watchdog, folder_bytes
from worker.words import duration_words

PAUSE_FILE = "pause"
PAUSE_S = float(os.environ.get("DLH_PAUSE_S", "120"))
"""Time the ranks have to save and leave; more where their steps are long or they evaluate (`PauseWatch`)."""
DISK_S = 2.0
CANCEL_GRACE_S = 1.0
STACKS_S, STACKS_MOST_S = 1.0, 10.0
"""Time that ranks without progress have to print where they stand: the first, or the second where one has not."""
OTHERS_S = 15.0
"""Where all of them wait for ranks on other nodes, those nodes have so long to say first which one stands still: ranks
tell every ten seconds that they live (`worker.runtime.teller`), and not all at once."""
Tails = Mapping[int, Sequence[str]]
SLOW_STEP_S = 10.0
"""Who asks for a pause of a run with longer steps is told how long it may take."""


class Warden:
    """Told what happens, it says when the sandbox is to be killed; why, it writes into `seen`."""

    def __init__(self, attempt: Attempt, seen: Seen, now_s: float, tails: Callable[[], Tails]) -> None:
        """Times are of the monotonic clock. `tails`: tells the last log lines of each rank."""
        self.seen, self._tails = seen, tails
        self._paths, self._token = attempt.paths, attempt.plan.token
        self._pause = PauseWatch(PAUSE_S)
        self._pause_seen = False
        self._leaves_saving = False
        self._cancel_s: float | None = None
        self._kill_s: float | None = None
        self._others_first, self._stacks_until_s = False, 0.0
        self._next_disk_s = 0.0
        self.begin(attempt, now_s)

    def begin(self, attempt: Attempt, now_s: float) -> None:
        """The attempt begins now; what came before was not its program's."""
        data_bytes = folder_bytes(Path(attempt.plan.dataset_dir)) or 0
        self._watchdog = Watchdog(attempt.limits, now_s, data_bytes, len(attempt.local_ranks))

    def waits(self, now_s: float) -> None:
        """The ranks wait for those of other nodes to be there: who is to pause has nothing to save, and they may not
        come, as they are to pause too."""
        self._watchdog.waits(now_s)
        self.seen.pause_unmet = self.seen.pause_wanted

    def saw(self, event: Event, now_s: float) -> None:
        """A rank has said something."""
        self._watchdog.saw(event, now_s)
        self._pause.saw(event, now_s)

    def notice(self, now_s: float) -> str:
        """Look for requests; what people should know of a new one, mostly nothing."""
        folder = self._paths.requests(self._token)
        self.seen.cancelled = self.seen.cancelled or (folder / CANCEL_FILE).exists()
        self.seen.ended_elsewhere = self.seen.ended_elsewhere or (folder / END_FILE).exists()
        if self._cancel_s is None and (self.seen.cancelled or self.seen.ended_elsewhere):
            self._cancel_s = now_s
        if self._pause_seen or not (folder / PAUSE_FILE).exists():
            return ""
        self._pause_seen = self.seen.pause_wanted = True
        self._pause.asked(now_s)
        return pause_note(self._watchdog.step_s)

    def leave(self, *, gains: bool, overdue: bool) -> None:
        """The node is shut down: ask the ranks, once, to save before they leave, where that `gains` something. They
        have until it is `overdue`, whatever is gained by then: those on other nodes may be saving with them already.

        Who was asked for a pause before does so anyway.
        """
        self._leaves_saving |= gains
        if overdue or not self._leaves_saving:
            self.seen.shut_down = True
        elif not self._pause_seen:
            self._pause_seen = True  # it is nobody's wish that the job pauses
            with suppress(OSError):  # a full disk: then they are ended when the time is up
                (self._paths.requests(self._token) / PAUSE_FILE).touch()

    def ends(self, now_s: float, *, fenced: bool) -> bool:
        """Whether the sandbox is to be killed; `fenced`: a newer attempt holds the lease."""
        if self._pause.is_overdue(now_s, self._watchdog.step_s):
            self.seen.pause_overdue = True
        if fenced:
            self.seen.shut_down = True
        cancel_due = self._cancel_s is not None and now_s - self._cancel_s >= CANCEL_GRACE_S
        pause_due = self.seen.pause_overdue or self.seen.pause_unmet
        return cancel_due or self._verdict_due(now_s) or pause_due or self.seen.shut_down

    def _verdict_due(self, now_s: float) -> bool:
        if self._kill_s is None or now_s < self._kill_s:
            return False
        if now_s < self._stacks_until_s and not all(map(stack_of, self._tails().values())):
            return False
        if self._others_first and standing(self._tails())[2]:
            self._kill_s = now_s + OTHERS_S
        self._others_first, self._stacks_until_s = False, 0.0
        return now_s >= self._kill_s

    def check(self, now_s: float, memory_bytes: int) -> None:
        """Once a second: limits of time, memory and disk, and whether a newer attempt has begun somewhere."""
        if self.superseded():
            self.seen.shut_down = True
        if self._kill_s is not None:
            return
        verdict = self._watchdog.check_time(now_s)
        if verdict is None and now_s >= self._next_disk_s:
            self._next_disk_s = now_s + DISK_S
            disk_bytes = folder_bytes(self._paths.work)
            verdict = self._watchdog.check_use(memory_bytes=memory_bytes, disk_bytes=disk_bytes)
        if verdict is not None:
            self._condemn(verdict, now_s)

    def _condemn(self, verdict: Verdict, now_s: float) -> None:
        """End the attempt; ranks without progress first say where they stand."""
        stalled = verdict.code is FailureCode.STALLED
        self._others_first = stalled and self.seen.several_nodes
        self._stacks_until_s = now_s + STACKS_MOST_S if stalled else 0.0
        self.seen.verdict, self._kill_s = verdict, now_s + (STACKS_S if stalled else 0.0)
        if stalled:
            with suppress(OSError):
                (self._paths.requests(self._token) / STACKS_FILE).touch()

    def superseded(self) -> bool:
        """A newer attempt of the job has begun somewhere."""
        return registry.fence_read(self._paths) > self._token


def pause_note(step_s: float) -> str:
    """What who asked for a pause should know of a run whose steps take so long; nothing where they are short."""
    if step_s < SLOW_STEP_S:
        return ""
    return f"It pauses after the step under way. Its steps take up to {duration_words(step_s, up=True)}."
