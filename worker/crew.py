"""The processes of an elastic gang, here and on other nodes: starts them, hears them, learns who is gone, lets them go.

What comes of it, who is seated where and who comes back, `worker.elastic` decides.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Any

from worker.branches import Branch, Branches, Far
from worker.chairs import Chair, near_start
from worker.launch import SIBLING_GRACE_S, Gang, LaunchConfig, await_port


class Crew(Gang, ABC):
    """All processes of a run, as the gang of its first node knows them."""

    def __init__(self, config: LaunchConfig) -> None:
        super().__init__(config)
        self.local = {rank.rank: rank for rank in config.ranks}
        self.branches = Branches(config)
        self.slots = {0: tuple(self.local), **{branch.node: branch.slots for branch in self.branches.all}}
        """Node -> its processes, each named by the rank that it began as, whatever place it takes later."""
        self.chairs: dict[int, Chair] = {}
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
        return self.all_slots if self.branches.all else self.all_slots[: self.config.started or None]

    @abstractmethod
    def _gone(self, slot: int, code: int) -> None:
        """A process has ended."""

    @abstractmethod
    def _leave_behind(self, branch: Branch) -> None:
        """Another node is lost, with all its processes."""

    @abstractmethod
    def _decide(self) -> None:
        """Everything that was said and that has ended is taken in."""

    def start(self) -> None:
        """Meet the other nodes, and start a process for each rank that is there from the beginning."""
        if self.config.port_file is not None:
            self._tell({"port": self.branches.open()})
            await_port(self.config, self.config.port_file)
        for slot in self.first_slots:
            self._start(slot, returned=False)

    def _start(self, slot: int, *, returned: bool) -> None:
        branch = self.branches.of(slot)
        if branch is not None:
            branch.send(slot=slot, start=returned)
            self.chairs[slot] = Chair(slot, Far(branch, slot), branch.node)
            return
        near = near_start(self.config, self.local[slot], returned=returned)
        self.running[slot], self.chairs[slot] = near.process, Chair(slot, near)
        self._tell({"rank": slot, "pid": near.process.pid})

    def _is_busy(self) -> bool:
        # Ranks of other nodes must not take the end of this process for a loss.
        return bool(self.running) or (self._over and self.branches.are_there)

    def _reap(self) -> None:
        gone = {slot: code for slot, process in self.running.items() if (code := process.poll()) is not None}
        lost = self.branches.look()
        for chair in self.chairs.values():  # what was said before one went away is heard before that is acted upon
            chair.hear(self.generation)
        for slot, code in gone.items():
            del self.running[slot]
            self._gone(slot, code)
        for branch in self.branches.all:
            while branch.ended:
                self._gone(*branch.ended.pop(0))
        for branch in lost:
            self._leave_behind(branch)
        if self._kill_at_s is None and not self._over:
            self._decide()

    # ---- telling -----------------------------------------------------------------------------------------------
    def _record(self, slot: int, code: int) -> None:
        if slot in self.local:
            self.codes[slot] = code  # of the others their own node tells
        self._tell_of(slot, {"rank": slot, "code": code, "own": not self._killed})

    def _tell_of(self, slot: int, body: dict[str, Any]) -> None:
        """A line for the supervisor of the node that has the slot."""
        branch = self.branches.of(slot)
        if branch is None:
            self._tell(body)
        else:
            branch.send(tell=body)

    def _seated(self) -> list[Chair]:
        return [chair for chair in self.chairs.values() if chair.place is not None]

    def _say_all(self, **body: Any) -> None:
        for chair in self._seated():
            chair.send(**body)

    # ---- letting go --------------------------------------------------------------------------------------------
    def _give_up(self) -> None:
        """From here on as without elasticity: one rank has ended badly, so all end."""
        self._kill_at_s = time.monotonic() + SIBLING_GRACE_S
        for chair in self.chairs.values():
            chair.reach.shut()
        self._part(apart=True)

    def _part(self, **word: Any) -> None:
        """From here on each node sees to its own ranks."""
        self.branches.send(**word)
        self.chairs = {slot: chair for slot, chair in self.chairs.items() if chair.node == 0}

    def _dissolve(self, branch: Branch | None, code: int) -> None:
        """A node none of whose ranks can live is let go, and so are its devices."""
        if branch is not None and not set(branch.slots) & set(self.chairs):
            for slot in branch.slots:
                self._record(slot, code)
            branch.send(apart=True)
