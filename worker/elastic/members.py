"""The processes of an elastic gang, here and on other nodes: starts them, hears them, learns who is gone, lets them go.

What comes of it, who is seated where and who comes back, `worker.elastic.gang` decides.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Any

from worker.elastic.member import Member, local_start
from worker.elastic.remote_nodes import RemoteNode, RemoteNodes, RemoteProcess
from worker.launch import SIBLING_GRACE_S, Gang
from worker.launch_config import LaunchConfig
from worker.rendezvous import await_port


class ElasticMembers(Gang, ABC):
    """All processes of a run, as the gang of its first node knows them."""

    def __init__(self, config: LaunchConfig) -> None:
        super().__init__(config)
        self.local = {rank.rank: rank for rank in config.ranks}
        self.remotes = RemoteNodes(config)
        self.slots = {0: tuple(self.local), **{remote.node: remote.slots for remote in self.remotes.all}}
        """Node -> its processes, each named by the rank that it began as, whatever place it takes later."""
        self.members: dict[int, Member] = {}
        self.generation = 0
        self._over = False
        """The ranks have trained to the end, or leave paused: nobody is seated any more."""

    @property
    def all_slots(self) -> tuple[int, ...]:
        """Of all nodes."""
        return tuple(slot for slots in self.slots.values() for slot in slots)

    @property
    def first_slots(self) -> tuple[int, ...]:
        """Those that are there from the beginning; a run that may grow has one node."""
        return self.all_slots if self.remotes.all else self.all_slots[: self.config.started or None]

    @abstractmethod
    def _gone(self, slot: int, code: int) -> None:
        """A process has ended."""

    @abstractmethod
    def _leave_behind(self, remote: RemoteNode) -> None:
        """Another node is lost, with all its processes."""

    @abstractmethod
    def _decide(self) -> None:
        """Everything that was said and that has ended is taken in."""

    def start(self) -> None:
        """Meet the other nodes, and start a process for each rank that is there from the beginning."""
        if self.config.port_file is not None:
            self._tell({"port": self.remotes.open()})
            await_port(self.config, self.config.port_file)
        for slot in self.first_slots:
            self._start(slot, returned=False)

    def _start(self, slot: int, *, returned: bool) -> None:
        remote = self.remotes.of(slot)
        if remote is not None:
            remote.send(slot=slot, start=returned)
            self.members[slot] = Member(slot, RemoteProcess(remote, slot), remote.node)
            return
        process = local_start(self.config, self.local[slot], returned=returned)
        self.running[slot], self.members[slot] = process.popen, Member(slot, process)
        self._tell({"rank": slot, "pid": process.popen.pid})

    def _is_busy(self) -> bool:
        # Ranks of other nodes must not take the end of this process for a loss.
        return bool(self.running) or (self._over and self.remotes.are_there)

    def _reap(self) -> None:
        gone = {slot: code for slot, process in self.running.items() if (code := process.poll()) is not None}
        lost = self.remotes.look()
        for member in self.members.values():  # what was said before one went away is heard before that is acted upon
            member.hear(self.generation)
        for slot, code in gone.items():
            del self.running[slot]
            self._gone(slot, code)
        for remote in self.remotes.all:
            while remote.ended:
                self._gone(*remote.ended.pop(0))
        for remote in lost:
            self._leave_behind(remote)
        if self._kill_at_s is None and not self._over:
            self._decide()

    # ---- telling -----------------------------------------------------------------------------------------------
    def _record(self, slot: int, code: int) -> None:
        if slot in self.local:
            self.codes[slot] = code  # of the others their own node tells
        self._tell_of(slot, {"rank": slot, "code": code, "own": not self._killed})

    def _tell_of(self, slot: int, body: dict[str, Any]) -> None:
        """A line for the supervisor of the node that has the slot."""
        remote = self.remotes.of(slot)
        if remote is None:
            self._tell(body)
        else:
            remote.send(tell=body)

    def _seated(self) -> list[Member]:
        return [member for member in self.members.values() if member.place is not None]

    def _say_all(self, **body: Any) -> None:
        for member in self._seated():
            member.send(**body)

    # ---- letting go --------------------------------------------------------------------------------------------
    def _give_up(self) -> None:
        """From here on as without elasticity: one rank has ended badly, so all end."""
        self._kill_at_s = time.monotonic() + SIBLING_GRACE_S
        for member in self.members.values():
            member.process.shut()
        self._part(apart=True)

    def _part(self, **word: Any) -> None:
        """From here on each node sees to its own ranks."""
        self.remotes.send(**word)
        self.members = {slot: member for slot, member in self.members.items() if member.node == 0}

    def _dissolve(self, remote: RemoteNode | None, code: int) -> None:
        """A node none of whose ranks can live is let go, and so are its devices."""
        if remote is not None and not set(remote.slots) & set(self.members):
            for slot in remote.slots:
                self._record(slot, code)
            remote.send(apart=True)
