"""A rank's line to the gang that seats it, and a group of ranks that can be cut off (messages: `worker.elastic.gang`).

Horovod keeps a rank's connections when a sibling is lost: a rank that does not itself talk to the lost one would wait
for Gloo's time-out. So the sockets that `init` opened are remembered, and cut: then all notice at once.
"""

from __future__ import annotations

import json
import os
import queue
import resource
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import torch

from worker.runtime.collective import HorovodGroup, PeerLost

FILES_MAX = 4096
"""Descriptors that are looked through; Gloo opens a few per rank, and the lowest free ones."""
LONG_S, LONGER = 10.0, 1.1
"""The gang is told of steps from this length on, and of those that are longer by so much than it knows."""
Step = TypeVar("Step")


@dataclass(frozen=True, kw_only=True)
class Place:
    """A rank's place in one generation."""

    generation: int
    rank: int
    size: int
    same: bool
    """All hold a copy of the run after the same step."""
    slots: Sequence[int]
    """Who they are, rank by rank: the ranks that their processes began as, on whose devices they run."""
    environment: dict[str, str]
    """Variables by which Horovod finds the others."""
    voice: int
    """The rank as which it speaks: of several nodes each knows the files of its own ranks alone."""
    source: int = 0
    """The place whose copy all go on from: of those that were seated before and have one, the first; 0 without any."""
    cause: str = ""
    """Why places are taken anew: a rank was `lost`, or came `back`; empty: neither, it was asked for."""


class Seat:
    """The line to the gang. A thread listens, so that a rank deep in Horovod can be cut off."""

    def __init__(
        self, fd: int, cut: Callable[[int], None], depart: Callable[[], NoReturn], rescue: Callable[[], NoReturn]
    ) -> None:
        """`cut(generation)`: a rank of that generation is lost, or (with 0) the gang is. `depart`: no place is left.

        `rescue`: nor is the first node, and this rank's copy is to be saved.
        """
        os.set_inheritable(fd, False)
        self._socket = socket.socket(fileno=fd)
        self._cut, self._depart, self._rescue = cut, depart, rescue
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._longest_s = 0.0
        self.called = 0
        """The generation whose ranks are to come for new places after their next copy."""
        threading.Thread(target=self._listen, daemon=True, name="seat").start()

    def ready(self, generation: int, step: int | None) -> Place:
        """Wait for a place. Raises `PeerLost` where nobody gets one; who is not needed any more ends here."""
        self._say(ready=generation, step=step)
        return self._place(self._answer())

    def met(self, generation: int) -> None:
        """All of the generation have met."""
        self._say(met=generation)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Nobody can cut short what is done in it: the gang is told how long it takes, where that is long."""
        began_s = time.monotonic()
        yield
        self._took(time.monotonic() - began_s)

    def each_timed(self, steps: Iterator[Step]) -> Iterator[Step]:
        """The same of what is done to get each, and with it."""
        began_s = time.monotonic()
        for step in steps:
            yield step
            began_s, before_s = time.monotonic(), began_s
            self._took(began_s - before_s)

    def _took(self, seconds: float) -> None:
        if seconds >= LONG_S and seconds > LONGER * self._longest_s:
            self._longest_s = seconds
            self._say(longest_ms=round(seconds * 1e3))

    def end(self, generation: int, step: int | None) -> Place | None:
        """Wait until all have trained to the end: None. Or else for a new place, as one was lost."""
        self._say(end=generation, step=step)
        answer = self._answer()
        return None if "over" in answer else self._place(answer)

    def _place(self, answer: dict[str, Any]) -> Place:
        if "leave" in answer:
            self._depart()
        if "rescue" in answer:
            self._rescue()
        return Place(**answer["seat"])

    def _say(self, **body: Any) -> None:
        with suppress(OSError):  # then there is no answer either
            self._socket.sendall(json.dumps(body).encode() + b"\n")

    def _answer(self) -> dict[str, Any]:
        answer = self._answers.get()
        if not answer:
            self._answers.put(answer)
            raise PeerLost("too few ranks are left to continue")
        return answer

    def _listen(self) -> None:
        with self._socket.makefile("rb") as lines, suppress(OSError, ValueError):
            for line in lines:
                body = json.loads(line)
                if "cut" in body:
                    self._cut(body["cut"])
                elif "call" in body:
                    self.called = body["call"]
                else:
                    self._answers.put(body)
        self._answers.put({})
        self._cut(0)


class Wires:
    """The sockets that were opened in a stretch of time; cut from any thread."""

    def __init__(self) -> None:
        self._before = _sockets()
        self._ours: set[tuple[int, int]] | None = None
        self._was_cut = False
        self._lock = threading.Lock()

    def complete(self) -> None:
        """None opened from here on is meant."""
        with self._lock:
            self._ours = _sockets() - self._before
            was_cut = self._was_cut
        if was_cut:
            self.cut()  # those, too, that were opened since

    def cut(self) -> None:
        """Let every connection seem ended by the other side; the descriptors stay with whoever has them.

        Only for reading: a write that fails at once may leave Gloo waiting for its own time-out.
        """
        with self._lock:
            self._was_cut, now = True, _sockets()
            for fd, _ in now - self._before if self._ours is None else now & self._ours:
                with suppress(OSError), socket.socket(fileno=os.dup(fd)) as wire:
                    wire.shutdown(socket.SHUT_RD)


def _sockets() -> set[tuple[int, int]]:
    """(descriptor, inode) of every socket of this process: a number alone may come to mean another one."""
    found = set()
    for fd in range(min(FILES_MAX, resource.getrlimit(resource.RLIMIT_NOFILE)[0])):
        with suppress(OSError):
            status = os.fstat(fd)
            if stat.S_ISSOCK(status.st_mode):
                found.add((fd, status.st_ino))
    return found


def warm_up() -> None:
    """Load Horovod, so that a rank that has come back does not keep the others waiting."""
    import horovod.torch  # noqa: F401


class SeatedGroup(HorovodGroup):
    """Ranks of one generation, joined by Horovod through the memory of their hosts."""

    by_nccl = False
    """A sum by NCCL that waits for a lost rank waits for ever: no wire of it is known here that could be cut."""

    def __init__(self, place: Place, step_s: float, device: torch.device, wires: Wires) -> None:
        os.environ.update(place.environment)
        try:
            super().__init__(step_s, device)
        except PeerLost:
            import horovod.torch as hvd

            hvd.shutdown()  # of what has begun; else a later `init` would do nothing
            raise
        wires.complete()
