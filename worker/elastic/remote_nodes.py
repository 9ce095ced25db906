"""The other nodes of an elastic gang, as the gang of the first node sees them; there `worker.elastic.remote_gang` runs.

The first node listens at the port that its supervisor tells the others (`worker.meeting`). Each connects once, shows
the run's word and its name, and does with its processes what it is told, in lines of JSON:

    remote    {"remote": NAME, "word": WORD}     first of all
              {"slot": SLOT, "said": {...}}      a process has said something
              {"slot": SLOT, "gone": CODE}       a process has ended
              {"here": true}                     every second, and so does the first node
    first     {"slot": SLOT, "start": RETURNED}  start a process
              {"slot": SLOT, "say": {...}}       tell it something
              {"slot": SLOT, "kill": true}       end it
              {"tell": {...}}                    a line for the supervisor of that node
              {"over": [SLOT, ...]}              these have trained to the end: see them out, end the others
              {"apart": true}                    end all of them

A node whose connection ends, or that is silent for `SILENT_S`, is left behind and not heard any more; it notices the
same, and ends its processes.
"""

from __future__ import annotations

import hmac
import socket
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from worker.elastic.json_lines import Line
from worker.launch_config import LaunchConfig
from worker.rendezvous import CONNECT_LIMIT_S

SILENT_S = 20.0
"""As long as control waits before it calls a silent node down."""
BEAT_S = 1.0
GUEST_LIMIT_S = 10.0
"""Who connects has so long to say who it is."""
GUESTS_MAX = 32


@dataclass
class RemoteNode:
    """One other node: its ranks, and what has arrived from it."""

    name: str
    node: int
    """Its place among the run's nodes, from 1."""
    slots: tuple[int, ...]
    line: Line | None = None
    """None: it has not come yet, or is gone."""
    gone: bool = False
    said: dict[int, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    ended: list[tuple[int, int]] = field(default_factory=list)
    """(slot, exit code) of processes that have ended since."""

    def send(self, **body: Any) -> None:
        """One line; nothing where nobody is there."""
        if self.line is not None:
            self.line.send(**body)

    def joins(self, line: Line) -> None:
        """It has come: all its ranks are started."""
        self.line = line
        for slot in self.slots:
            self.send(slot=slot, start=False)

    def hear(self) -> None:
        """Take in what has arrived."""
        for body in self.line.read() if self.line is not None else ():
            slot, said, code = body.get("slot"), body.get("said"), body.get("gone")
            if slot in self.slots and isinstance(said, dict):
                self.said[slot].append(said)
            elif slot in self.slots and isinstance(code, int):
                self.ended.append((slot, code))

    def is_lost(self, since_s: float) -> bool:
        """Whether it is gone, or has not come although it is expected since then."""
        now_s = time.monotonic()
        if self.line is None:
            return now_s - since_s > CONNECT_LIMIT_S
        return self.line.ended or now_s - self.line.heard_s > SILENT_S

    def leave_behind(self) -> None:
        """Hear it no more."""
        self.gone, line, self.line = True, self.line, None
        if line is not None:
            line.close()


@dataclass
class RemoteProcess:
    """A process on another node."""

    remote: RemoteNode
    slot: int

    def send(self, **body: Any) -> None:
        """One line."""
        self.remote.send(slot=self.slot, say=body)

    def read(self) -> Iterator[dict[str, Any]]:
        """What it has said since."""
        return iter(self.remote.said.pop(self.slot, ()))

    def kill(self) -> None:
        """End it at once."""
        self.remote.send(slot=self.slot, kill=True)

    def shut(self) -> None:
        """Its own node lets it know."""

    def close(self) -> None:
        """It has ended."""
        self.remote.said.pop(self.slot, None)


class RemoteNodes:
    """All of them; none where the run is on one node."""

    def __init__(self, config: LaunchConfig) -> None:
        self.all: list[RemoteNode] = []
        self._address, self._word = config.address, config.word.encode()
        self._listener: socket.socket | None = None
        self._guests: list[tuple[Line, float]] = []
        """Connections that have not said yet who they are, and when they came."""
        self._expected_s: float | None = None
        """Since when the others are expected: before that they may be fetching their data."""
        self._beat_s = 0.0
        first = config.hosts[0][1]
        for node, (name, count) in enumerate(config.hosts[1:], 1):
            self.all.append(RemoteNode(name, node, tuple(range(first, first + count))))
            first += count

    def of(self, slot: int) -> RemoteNode | None:
        """The node that has a slot; None: this one."""
        return next((remote for remote in self.all if slot in remote.slots), None)

    @property
    def are_there(self) -> bool:
        """Whether any is connected."""
        return any(remote.line is not None for remote in self.all)

    def open(self) -> int:
        """Listen; the port."""
        self._listener = socket.create_server((self._address, 0))
        self._listener.setblocking(False)
        return int(self._listener.getsockname()[1])

    def look(self) -> list[RemoteNode]:
        """Take in whatever has arrived; those that are lost from now on."""
        if self._listener is None:
            return []
        self._welcome(self._listener)
        now_s = time.monotonic()
        self._expected_s = self._expected_s or now_s
        if now_s - self._beat_s >= BEAT_S:
            self._beat_s = now_s
            self.send(here=True)
        lost = []
        for remote in self.all:
            remote.hear()
            if not remote.gone and remote.is_lost(self._expected_s):
                remote.leave_behind()
                lost.append(remote)
        return lost

    def send(self, **body: Any) -> None:
        """One line to every node."""
        for remote in self.all:
            remote.send(**body)

    def _welcome(self, listener: socket.socket) -> None:
        """Let in who knows the word; anybody on these hosts may knock."""
        with suppress(OSError):
            while len(self._guests) < GUESTS_MAX:
                self._guests.append((Line(listener.accept()[0]), time.monotonic()))
        for guest, came_s in list(self._guests):
            body = next(guest.read(), None)
            remote = None if body is None else self._known(body)
            if remote is not None:
                remote.joins(guest)
            elif body is not None or guest.ended or time.monotonic() - came_s > GUEST_LIMIT_S:
                guest.close()
            else:
                continue
            self._guests.remove((guest, came_s))

    def _known(self, body: dict[str, Any]) -> RemoteNode | None:
        """Who it is; None where it does not know the word, or is there, or was left behind."""
        if not self._word or not hmac.compare_digest(_bytes(body.get("word")), self._word):
            return None
        names = {remote.name: remote for remote in self.all if remote.line is None and not remote.gone}
        return names.get(str(body.get("remote")))


def _bytes(word: Any) -> bytes:
    """Of whatever a stranger says; halves of characters, which JSON may hold, make no bytes of their own."""
    return str(word).encode(errors="replace")
