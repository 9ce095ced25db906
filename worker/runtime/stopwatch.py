"""Seconds that a rank works between two meetings: by the host's clock, or on a GPU by events in its own stream."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from worker.runtime.device import settle

PENDING_MOST = 64


class HostWatch:
    """By the host's clock. `slowdown`: every stretch of work is drawn out to so many times its length, by sleeping: a
    device that is declared slower than it is, to try unlike devices on a machine that has none."""

    def __init__(self, device: torch.device, slowdown: float = 1.0) -> None:
        self._device, self._slowdown = device, slowdown
        self._began_s = self._met_s = time.perf_counter()
        self._worked_s = 0.0
        """Of this stretch, before `_began_s`."""
        self._counts = False
        self.newest_s = 0.0
        """Of the newest stretch; 0: not known."""

    def start(self) -> None:
        """Work begins."""
        self._began_s, self._worked_s, self._counts = time.perf_counter(), 0.0, True

    def stop(self) -> None:
        """Work ends."""
        self._end_piece()
        self.newest_s = self._worked_s if self._counts else 0.0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Within it the others are waited for in the middle of a stretch: that is no work of this rank.

        What came before is drawn out first: others wait there for a slow device, and a slow device does not for them.
        """
        self._end_piece()
        yield
        self._settle()
        self._began_s = time.perf_counter()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Within a wait: this is work of this rank all the same."""
        self._settle()
        self._began_s = time.perf_counter()
        yield
        self._end_piece()

    def _end_piece(self) -> None:
        """Count what was worked up to now."""
        self._settle()
        if self._slowdown > 1.0:
            time.sleep((self._slowdown - 1.0) * (time.perf_counter() - self._began_s))
        now_s = time.perf_counter()
        self._worked_s += now_s - self._began_s
        self._began_s = now_s

    def _settle(self) -> None:
        """A GPU that is made slower does what it was told before the host looks at its clock."""
        if self._slowdown > 1.0:
            settle(self._device)

    def restart(self) -> None:
        """What went before was something else: the stretch that begins now has no update in it and is not told."""
        self._began_s = self._met_s = time.perf_counter()
        self._counts, self._worked_s, self.newest_s = False, 0.0, 0.0

    def forget(self) -> None:
        """The split changes: what is not told yet was measured under another."""

    def since_s(self) -> float:
        """Seconds since this was last asked."""
        now_s = time.perf_counter()
        since_s, self._met_s = now_s - self._met_s, now_s
        return since_s


class StreamWatch:
    """By events in the stream that computes: the host runs ahead of a GPU, and never waits for it here."""

    def __init__(self) -> None:
        self._began: torch.cuda.Event | None = None
        self._pending: deque[tuple[torch.cuda.Event, torch.cuda.Event]] = deque(maxlen=PENDING_MOST)
        self._met_s = time.perf_counter()

    def start(self) -> None:
        """Work begins."""
        self._began = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        self._began.record()

    def stop(self) -> None:
        """Work ends."""
        if self._began is not None:
            ended = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            ended.record()
            self._pending.append((self._began, ended))

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Within it the others are waited for: events cannot tell that from work, so this stretch is not told."""
        self._began = None
        yield

    @contextmanager
    def working(self) -> Iterator[None]:
        """Within a wait: this is work of this rank all the same, but nothing is told of the stretch."""
        yield

    @property
    def newest_s(self) -> float:
        """Of the newest stretch that is over by now; 0: not known."""
        newest_s = 0.0
        while self._pending and self._pending[0][1].query():  # type: ignore[no-untyped-call]
            began, ended = self._pending.popleft()
            newest_s = began.elapsed_time(ended) / 1e3
        return newest_s

    def restart(self) -> None:
        """What went before was something else."""
        self._began, self._met_s = None, time.perf_counter()

    def forget(self) -> None:
        """The split changes: what is not told yet was measured under another."""
        self._pending.clear()
        self._began = None

    def since_s(self) -> float:
        """Seconds since this was last asked."""
        now_s = time.perf_counter()
        since_s, self._met_s = now_s - self._met_s, now_s
        return since_s
