"""Ends what makes no progress or takes too much: Horovod's own stall check never fires under Gloo."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from worker.events import Event, EventKind, FailureCode
from worker.memory_words import memory_words
from worker.plan import Limits
from worker.words import duration_words, size_words

ENTRIES_MAX = 50_000
DEPTH_MAX = 32
FROZEN_S = 20.0
"""Who looks every second and has not looked for longer stood still, and with it most likely all else here: a virtual
machine or a container that was paused. That time is no time without progress."""
STEP_PATIENCE = 3.0
"""So many times its longest step may a run take without a sign of life, where that is more than the usual limit."""
PATIENCE_MOST = 24
"""Times the usual limit at most, whatever a program says of itself: one that stands still is found in the end."""
LOAD_BYTES_PER_S = 1 << 20
"""Who has no step yet may be reading: data that comes in at this rate is still taken for read, not for stuck."""
LONGEST_S = 1e9
PAUSE_MOST = 8
"""Times the usual limit, that ranks which were asked to pause may take if they say that they get on."""
_ALIVE = frozenset({EventKind.METRIC, EventKind.CHECKPOINT, EventKind.RUNNING})


@dataclass(frozen=True)
class Verdict:
    """Why an attempt is to be ended."""

    code: FailureCode
    message: str
    hint: str


@dataclass
class Watchdog:
    """Pure: told what happens and what time it is, it says when to end the attempt.

    How long nothing may happen follows the run: its longest step so far, and what its ranks expect a step to take.
    """

    limits: Limits
    started_s: float
    """Monotonic clock, as every time here."""
    data_bytes: int = 0
    """Of the data that is read before the first step."""
    ranks: int = 1
    """On this node."""
    _longest_s: float = 0.0
    """Of the steps that were seen."""
    _expected_s: dict[int, float] = field(default_factory=dict)
    """Rank -> seconds of a step, as it said last."""
    _waiting: set[int] = field(default_factory=set)
    """Ranks that wait for others, as they said last."""
    _moved_s: float = field(init=False)
    _looked_s: float = field(init=False)
    _last: tuple[object, ...] = ()
    _trains: bool = False

    def __post_init__(self) -> None:
        self._moved_s = self._looked_s = self.started_s

    @property
    def step_s(self) -> float:
        """Longest step that was seen or is expected; 0: not known."""
        return max(self._longest_s, *self._expected_s.values(), 0.0)

    @property
    def stall_s(self) -> float:
        """So long nothing may happen, as far as the run is known by now."""
        usual_s, step_s = self.limits.stall_s, STEP_PATIENCE * self.step_s
        patience_s = max(usual_s, step_s)
        if not self._trains:  # it loads, and its first step is longer than the others
            patience_s = max(usual_s, self.data_bytes / LOAD_BYTES_PER_S) + step_s
        return min(PATIENCE_MOST * usual_s, patience_s)

    def saw(self, event: Event, now_s: float) -> None:
        """Progress is a change of step, epoch or phase, a metric or a checkpoint; printing is not.

        Nor is it that some ranks here wait: one of the others may be stuck. If all do, it is for other nodes.
        """
        if "expected_step_s" in event.data:
            self._expected_s[event.rank] = _seconds(event.data["expected_step_s"])
        if event.data.get("waits"):
            self._waiting.add(event.rank)
            if len(self._waiting) < self.ranks:
                return
        else:
            self._waiting.discard(event.rank)
        if event.kind is EventKind.PROGRESS:
            place = tuple(event.data.get(key) for key in ("step", "epoch", "phase"))
            if place == self._last:
                return
            self._last = place
        elif event.kind not in _ALIVE:
            return
        if made_a_step(event):
            self._time_step(now_s)
        self._moved_s = now_s

    def _time_step(self, now_s: float) -> None:
        """Take in how long a step took. What came before the first one may be loading, until the model was tried."""
        stood_still = now_s - self._looked_s > FROZEN_S
        if not stood_still and (self._trains or self.step_s):
            self._longest_s = max(self._longest_s, now_s - self._moved_s)
        self._trains = True

    def waits(self, now_s: float) -> None:
        """The ranks have not been started: other nodes are not there yet, and control sees to those that never come."""
        self._moved_s = now_s

    def check_time(self, now_s: float) -> Verdict | None:
        """Over the wall clock limit, or without progress for too long."""
        limits, away_s, self._looked_s = self.limits, now_s - self._looked_s, now_s
        if away_s > FROZEN_S:
            self._moved_s = min(now_s, self._moved_s + away_s)
        if limits.wall_s is not None and now_s - self.started_s > limits.wall_s:
            return Verdict(
                FailureCode.TIME_LIMIT,
                f"The run was stopped at its time limit of {duration_words(limits.wall_s)}.",
                "Resume from the last checkpoint with a higher limit.",
            )
        if now_s - self._moved_s > self.stall_s:
            return Verdict(
                FailureCode.STALLED,
                f"No step, metric or checkpoint for {duration_words(self.stall_s)}.",
                "Look at the end of the log; a loop that never ends or a wait for another rank is the usual cause.",
            )
        return None

    def check_use(self, *, memory_bytes: int, disk_bytes: int | None) -> Verdict | None:
        """Over the memory or disk limit; `disk_bytes` is None for a folder that cannot be measured."""
        if memory_bytes > self.limits.memory_bytes:
            return out_of_memory(self.limits.memory_bytes)
        if disk_bytes is None:
            return too_many_files()
        if disk_bytes > self.limits.disk_bytes:
            return disk_full(self.limits.disk_bytes)
        return None


@dataclass
class PauseWatch:
    """How long ranks that were asked to pause may take to save and leave.

    They can do so between steps alone: the step under way is waited for, and an evaluation that has begun as long as it
    says that it gets on.
    """

    limit_s: float
    _asked_s: float | None = None
    _busy_s: float = float("-inf")

    def asked(self, now_s: float) -> None:
        """They know it from now on."""
        self._asked_s = now_s

    def saw(self, event: Event, now_s: float) -> None:
        """A rank has said something."""
        if _is_sign_of_life(event):
            self._busy_s = now_s

    def is_overdue(self, now_s: float, step_s: float = 0.0) -> bool:
        """Whether they are not waited for any more; `step_s`: how long a step of theirs may take."""
        if self._asked_s is None:
            return False
        limit_s = self.limit_s + STEP_PATIENCE * step_s
        return now_s > min(self._asked_s + PAUSE_MOST * limit_s, max(self._asked_s, self._busy_s) + limit_s)


def _is_sign_of_life(event: Event) -> bool:
    """Of long work that is no step."""
    return event.kind is EventKind.METRIC and not event.data.get("values")


def _seconds(value: object) -> float:
    """A length of time; 0 for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 < value < LONGEST_S else 0.0


def made_a_step(event: Event) -> bool:
    """Whether a rank's event shows that the training goes on."""
    if event.kind is EventKind.METRIC:
        return not _is_sign_of_life(event)
    step = event.data.get("step") if event.kind is EventKind.PROGRESS else 0
    return event.kind is EventKind.RUNNING or (isinstance(step, (int, float)) and step >= 1)


def out_of_memory(
    limit_bytes: int, fitting_batch: int | None = None, phase: object = None, *, grows: bool = False
) -> Verdict:
    """A reached memory limit. `fitting_batch`: 0 if not even a row fits, None if that is not known; `grows`: memory
    was seen to grow from step to step."""
    begin = f"The run reached its memory limit of {size_words(limit_bytes)}"
    words = memory_words(begin, "set a higher resources.memory_gib", phase, fitting_batch, grows=grows)
    return Verdict(FailureCode.OUT_OF_MEMORY, *words)


def disk_full(limit_bytes: int) -> Verdict:
    """The words for a reached disk limit."""
    return Verdict(
        FailureCode.DISK_FULL,
        f"The run's folder reached its limit of {size_words(limit_bytes)}.",
        "Keep fewer checkpoints or write less; checkpoints already made are kept. A run may take half of what the disk "
        "of the store has free when it starts, at most DLH_JOB_DISK_GIB: an admin can free space there, or raise it.",
    )


def too_many_files() -> Verdict:
    """The words for a folder that cannot be measured any more."""
    return Verdict(
        FailureCode.DISK_FULL,
        f"The run's folder holds more than {ENTRIES_MAX} files, or folders in folders beyond {DEPTH_MAX}.",
        "Write fewer and larger files; checkpoints already made are kept.",
    )


def folder_bytes(root: Path, entries_max: int = ENTRIES_MAX) -> int | None:
    """Bytes on disk below `root`, links not followed; None where there is too much, or too deep, to count.

    What cannot be counted must not count as nothing: it would be the place to hide a full disk in.
    """
    total, seen, waiting = 0, 0, [(str(root), 0)]
    while waiting:
        folder, depth = waiting.pop()
        if seen > entries_max or depth > DEPTH_MAX:
            return None
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    seen += 1
                    if seen > entries_max:
                        return None
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((entry.path, depth + 1))
                        continue
                    with suppress(OSError):  # mostly removed since the folder was listed: the others are there
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
        except OSError:
            continue  # the program is writing and removing at the same time
    return total
