"""How far a backup or a copy of the store is, on standard error: a bar, or now and then a line where it cannot be."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from worker.words import duration_words, percent_words

Tell = Callable[[str, int, int], None]
"""Called with (what is done now, how much of it is done, how much it is in all)."""
LINE_EVERY_S, LATER_EVERY_S = 10.0, 60.0
"""Without a bar: a line so often in the first minute of a stage, and from then on."""


def nobody(stage: str, done: int, total: int) -> None:
    """Tell nobody."""


class Teller(AbstractContextManager["Teller"]):
    """A `Tell` for people."""

    def __init__(
        self, *, quiet: bool = False, out: TextIO = sys.stderr, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._quiet, self._out, self._clock = quiet, out, clock
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        console = Console(file=out)
        no_bar = quiet or not out.isatty() or console.is_dumb_terminal
        self._bar = Progress(*columns, console=console, disable=no_bar, transient=True)
        self._task: TaskID | None = None
        self._stage = ""
        self._begun_s = self._said_s = 0.0

    def __enter__(self) -> Teller:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """See `Tell`."""
        done = min(done, total)
        if stage != self._stage or self._task is None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task, self._stage = self._bar.add_task(stage, total=total), stage
            self._begun_s = self._said_s = self._clock()
        self._bar.update(self._task, completed=done, total=total)
        now_s = self._clock()
        elapsed_s = now_s - self._begun_s
        every_s = LINE_EVERY_S if elapsed_s < LATER_EVERY_S else LATER_EVERY_S
        if self._bar.disable and not self._quiet and now_s - self._said_s >= every_s:
            self._said_s = now_s
            self._out.write(f"{_line(stage, done, total, elapsed_s)}\n")
            self._out.flush()


def _line(stage: str, done: int, total: int, elapsed_s: float) -> str:
    share = done / total if total else 1.0
    left = f", about {duration_words(elapsed_s * (1 - share) / share)} left" if share else ""
    return f"{stage}: {percent_words(share, 0)}{left}"
