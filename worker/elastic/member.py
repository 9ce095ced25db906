"""A process of an elastic gang, on this or another node, and what it has said (messages: `worker.elastic.gang`)."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from worker.elastic.json_lines import Line
from worker.launch import die_with_parent
from worker.launch_config import LaunchConfig, LocalRank

SEAT_FD = "DLH_SEAT_FD"
WORDS = ("ready", "met", "end", "step", "longest_ms")
"""All that a process may say; each with a number, or null."""
LONGEST_MS = 1_000_000_000


def longest_s_of(body: dict[str, Any]) -> float:
    """Length of the longest step that a process tells of; 0 where it tells of none."""
    return max(0, min(body.get("longest_ms") or 0, LONGEST_MS)) / 1e3


class MemberProcess(Protocol):
    """How a process is spoken to, and ended."""

    def send(self, **body: Any) -> None:
        """One line."""

    def read(self) -> Iterator[dict[str, Any]]:
        """What it has said since."""

    def kill(self) -> None:
        """End it at once."""

    def shut(self) -> None:
        """Let it know that nothing comes any more."""

    def close(self) -> None:
        """It has ended."""


@dataclass
class LocalProcess:
    """A process that this one has started."""

    popen: subprocess.Popen[bytes]
    line: Line

    def send(self, **body: Any) -> None:
        """One line."""
        self.line.send(**body)

    def read(self) -> Iterator[dict[str, Any]]:
        """What it has said since."""
        return self.line.read()

    def kill(self) -> None:
        """End it at once."""
        self.popen.kill()

    def shut(self) -> None:
        """Let it know that nothing comes any more."""
        self.line.shut()

    def close(self) -> None:
        """It has ended."""
        self.line.close()


def local_start(config: LaunchConfig, rank: LocalRank, *, returned: bool) -> LocalProcess:
    """Start a process for a rank; `returned`: the others are seated already."""
    ours, theirs = socket.socketpair()
    # One that returns is no rank before it is seated: its number lies beyond all, so that it speaks for nobody.
    number = config.world_size + rank.rank if returned else rank.rank
    environment = {
        **os.environ, **rank.environment, SEAT_FD: str(theirs.fileno()),
        "HOROVOD_RANK": str(number), "HOROVOD_SIZE": str(config.world_size), "HOROVOD_GLOO_IFACE": config.interface,
    }  # fmt: skip
    with theirs:
        popen = subprocess.Popen(
            config.argv, cwd=config.workdir, env=environment, stdin=subprocess.DEVNULL,
            stdout=rank.stdout_fd, stderr=rank.stderr_fd, preexec_fn=die_with_parent, pass_fds=(theirs.fileno(),),
        )  # fmt: skip
    return LocalProcess(popen, Line(ours))


@dataclass
class Member:
    """One process and what it has said."""

    slot: int
    """The rank that it began as, whatever place it takes later."""
    process: MemberProcess
    node: int = 0
    """Which of the run's nodes it is on; 0: this one, the first."""
    place: int | None = None
    """Its rank in the present generation; None: it has none."""
    met: bool = False
    """It has met the others of the generation: until then nothing can call it back from Horovod's `init`."""
    waits: bool = False
    ended: bool = False
    """It has trained to the end."""
    leave_by_s: float | None = None
    """It was told to leave, and is ended then; None: it stays."""
    step: int | None = None
    """Of its copy of the run."""
    longest_s: float = 0.0
    """So long it may be deep in a step or an evaluation, where that is long."""

    def send(self, **body: Any) -> None:
        """One line. A process that is gone is noticed by its end, not here."""
        self.process.send(**body)

    def hear(self, generation: int) -> None:
        """Take in what it has said since; what is no message of this generation is passed over."""
        for body in self.process.read():
            if all(value is None or isinstance(value, int) for value in body.values()):
                self._take(body, generation)

    def _take(self, body: dict[str, Any], generation: int) -> None:
        self.longest_s = max(self.longest_s, longest_s_of(body))
        self.met = self.met or (self.place is not None and body.get("met") == generation)
        for word in ("ready", "end"):
            if body.get(word) == (generation if self.place is not None else 0):
                self.waits, self.ended = True, word == "end"
                self.step = body.get("step")

    def dismiss(self, by_s: float) -> None:
        """It has no place any more, and ends by itself until `by_s`."""
        self.place, self.leave_by_s = None, by_s
        self.send(leave=True)
