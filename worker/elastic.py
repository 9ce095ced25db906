"""A gang that outlives its ranks: who is lost is left behind or comes back, and those that are there are seated anew.

Chosen by `LaunchConfig.least`, on one node and with Horovod alone. Each process has a socket to this one, with a JSON
object per line:

    process   {"ready": GENERATION, "step": STEP}  waits for a place, and holds a copy of the run after STEP (or null)
              {"met": GENERATION}                  has met the others of its generation
              {"end": GENERATION, "step": STEP}    has trained to the end and waits for the others
    gang      {"seat": {...}}     a place among those that are there, with its generation and variables for Horovod
              {"cut": GENERATION}   one of them is lost: do not wait for it
              {"call": GENERATION}  a new process is ready, or somebody goes: come for a new place after the next copy
              {"leave": true}       there is no place any more: end
              {"over": true}        all have trained to the end

A generation has a rendezvous of its own, so that nobody meets what an older one left there. Nothing a process sends
is more than two numbers, and nothing is unpickled. How many ranks there are to be may change while the run goes on:
the newest wish lies in a file (`worker.width`).
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from worker.chairs import Chair
from worker.launch import SIBLING_GRACE_S, Gang, LaunchConfig, LocalRank, die_with_parent, rank_environments
from worker.plan import EXIT_PAUSED, EXIT_PEER_LOST
from worker.width import Width, WidthFile

SEAT_FD = "DLH_SEAT_FD"
LOST_CODES = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGABRT, EXIT_PEER_LOST)
"""How a rank ends that may come back: killed from outside, or (by Gloo, too) because of a sibling that was. All other
ends are the program's own and would come again."""
RETURNS_MAX = 3
"""A rank that was lost more often than this stays away: something here does not let it live."""
UNEXPLAINED_MAX = 3
"""Generations that may break although nobody was lost; then it is the program that parts its ranks."""
SEATING_LIMIT_S = 120.0
"""After a loss the others have so long to come for a new place. A step in between may be long."""
LEAVE_LIMIT_S = 60.0
"""Who was told to leave may have a checkpoint to write to its end; then it is killed."""


class ElasticGang(Gang):
    """The local ranks, and the rule that the run goes on while `least` of them are there."""

    def __init__(self, config: LaunchConfig) -> None:
        super().__init__(config)
        self.slots: dict[int, LocalRank] = {rank.rank: rank for rank in config.ranks}
        """A process is named by the rank that it began as, whatever place it takes later."""
        self.chairs: dict[int, Chair] = {}
        self.generation = 0
        self.wish = Width(number=0, slots=tuple(self.slots)[: config.started or None])
        """Which ranks are to be there."""
        self._wishes = WidthFile(Path(config.requests))
        self._new: set[int] = set()
        """Slots that were missing when the newest wish came."""
        self._unstarted: set[int] = set()
        """Those of them that are still to be started."""
        self._width_told = 0
        self._returns: dict[int, int] = {}
        """Slot -> how often it was lost."""
        self._broken_at_s: float | None = None
        """A rank of this generation was lost then."""
        self._called = False
        self._unexplained = 0
        self._over = False
        """The ranks have trained to the end, or leave paused: nobody is seated any more."""
        self._rendezvous: Any = None

    def start(self) -> None:
        """Start a process for each rank; they are seated when all are ready."""
        for slot in self.wish.slots:
            self._start(slot, returned=False)

    def _start(self, slot: int, *, returned: bool) -> None:
        rank, (ours, theirs) = self.slots[slot], socket.socketpair()
        size = len(self.slots)
        # One that returns is no rank before it is seated: its number lies beyond all, so that it speaks for nobody.
        number = size + slot if returned else slot
        environment = {
            **os.environ, **rank.environment, SEAT_FD: str(theirs.fileno()),
            "HOROVOD_RANK": str(number), "HOROVOD_SIZE": str(size),
        }  # fmt: skip
        with theirs:
            process = subprocess.Popen(
                self.config.argv, cwd=self.config.workdir, env=environment, stdin=subprocess.DEVNULL,
                stdout=rank.stdout_fd, stderr=rank.stderr_fd, preexec_fn=die_with_parent, pass_fds=(theirs.fileno(),),
            )  # fmt: skip
        self.running[slot], self.chairs[slot] = process, Chair(slot, process, ours)
        self._tell({"rank": slot, "pid": process.pid})

    # ---- who is there ------------------------------------------------------------------------------------------
    def _reap(self) -> None:
        gone = {slot: code for slot, process in self.running.items() if (code := process.poll()) is not None}
        for chair in self.chairs.values():  # what was said before one went away is heard before that is acted upon
            chair.hear(self.generation)
        for slot, code in gone.items():
            del self.running[slot]
            self._gone(slot, code)
        if self._kill_at_s is None and not self._over:
            self._heed()
            self._arrange()

    def _gone(self, slot: int, code: int) -> None:
        chair = self.chairs.pop(slot)
        chair.line.close()
        going_on = self._kill_at_s is None and not self._over
        if going_on and chair.leave_by_s is not None:
            self._tell({"rank": slot, "left": code})
            return
        if going_on and code in LOST_CODES:
            self._lose(slot, code, seated=chair.place is not None)
            return
        if self._over and chair.place is None:
            code = 0  # it came back too late and was not needed
        self._record(slot, code)
        if code == EXIT_PAUSED and not self._over:
            self._close()
        elif self._kill_at_s is None and code != EXIT_PAUSED and not (code == 0 and self._over):
            self._give_up()

    def _record(self, slot: int, code: int) -> None:
        self.codes[slot] = code
        self._tell({"rank": slot, "code": code, "own": not self._killed})

    def _lose(self, slot: int, code: int, *, seated: bool) -> None:
        """A rank is lost: the others go on without it if enough are left, and it comes back."""
        self._returns[slot] = self._returns.get(slot, 0) + 1
        may_return = slot in self.wish.slots and self._returns[slot] <= RETURNS_MAX
        left = len(self._seated()) if seated else len(self.chairs) + may_return
        if left < self.config.least and (seated or not self.generation):
            self._record(slot, code)
            self._give_up()
            return
        self._tell({"rank": slot, "lost": code})
        if seated:
            self._broken_at_s = self._broken_at_s or time.monotonic()
            self._say_all(cut=self.generation)
            for chair in self._seated():
                if not chair.met:
                    chair.process.kill()  # it waits for the lost one until Gloo aborts it, half a minute later
        if may_return:
            self._start(slot, returned=True)

    def _give_up(self) -> None:
        """From here on as without elasticity: one rank has ended badly, so all end."""
        self._kill_at_s = time.monotonic() + SIBLING_GRACE_S
        for chair in self.chairs.values():
            with suppress(OSError):
                chair.line.shutdown(socket.SHUT_RDWR)

    def _seated(self) -> list[Chair]:
        return [chair for chair in self.chairs.values() if chair.place is not None]

    def _say_all(self, **body: Any) -> None:
        for chair in self._seated():
            chair.send(**body)

    # ---- how many there are to be ------------------------------------------------------------------------------
    def _heed(self) -> None:
        """Take in a new wish; start who is missing, end who has no place yet and is not asked for any more."""
        if not self.generation:
            return
        asked = self._wishes.news()
        if asked is not None and asked.number > self.wish.number and set(asked.slots) & set(self.slots):
            self._take_up(asked)
        for chair in self.chairs.values():
            if chair.place is None and chair.leave_by_s is None and not self._is_asked_for(chair):
                chair.leave_by_s = time.monotonic()
            if chair.leave_by_s is not None and time.monotonic() >= chair.leave_by_s:
                chair.process.kill()
        for slot in self._unstarted - set(self.chairs):
            self._unstarted.remove(slot)
            self._start(slot, returned=True)
        self._tell_width()

    def _take_up(self, asked: Width) -> None:
        asked = replace(asked, slots=tuple(slot for slot in asked.slots if slot in self.slots))
        there = {slot: chair for slot, chair in self.chairs.items() if chair.leave_by_s is None}
        self._unstarted = set(asked.slots) - set(there)
        for slot in self._unstarted:
            self._returns.pop(slot, None)
        coming = {slot for slot, chair in there.items() if chair.place is None and slot not in self._returns}
        self.wish, self._new = asked, self._unstarted | (coming & set(asked.slots))

    def _is_asked_for(self, chair: Chair) -> bool:
        return chair.slot in self.wish.slots

    def _tell_width(self) -> None:
        """Say once that all are there, and nobody else. Who was lost on the way comes later, or stays away."""
        seated = self._seated()
        missing = self._new - {chair.slot for chair in seated} - set(self._returns)
        strangers = any(not self._is_asked_for(chair) for chair in self.chairs.values())
        settled = bool(seated) and all(chair.met for chair in seated) and not missing and not strangers
        if not settled or self._width_told == self.wish.number:
            return
        self._width_told = self.wish.number
        steps = [chair.step for chair in seated if chair.step is not None]
        ranks = [chair.slot for chair in seated]
        self._tell({"width": self.wish.number, "ranks": ranks, "step": max(steps, default=0)})

    # ---- who sits where ----------------------------------------------------------------------------------------
    def _arrange(self) -> None:
        """Seat those that are there where that is due."""
        seated, waiting = self._seated(), [chair for chair in self.chairs.values() if chair.waits]
        if not self.generation:
            if len(waiting) == len(self.chairs):
                self._seat(waiting)
        elif all(chair.ended for chair in seated) and self._broken_at_s is None:
            self._say_all(over=True)
            self._close()
        elif all(chair.waits for chair in seated):
            if not self._dismiss(seated):
                self._seat_again([chair for chair in waiting if chair.leave_by_s is None])
        elif self._broken_at_s is not None and time.monotonic() - self._broken_at_s > SEATING_LIMIT_S:
            self._give_up()
        elif not self._called and (any(chair.place is None for chair in waiting) or self._going(seated)):
            self._called = True
            self._say_all(call=self.generation)
            self._tell({"call": self.generation})

    def _going(self, seated: list[Chair]) -> list[Chair]:
        """Who is not asked for; nobody while too few others are there."""
        going = [chair for chair in seated if not self._is_asked_for(chair)]
        return going if len(seated) - len(going) >= max(1, self.config.least) else []

    def _dismiss(self, seated: list[Chair]) -> bool:
        """Have those leave that are not asked for. True: wait for them, as one may still write a checkpoint."""
        for chair in self._going(seated):
            chair.dismiss(time.monotonic() + LEAVE_LIMIT_S)
        return any(chair.leave_by_s is not None for chair in self.chairs.values())

    def _seat_again(self, waiting: list[Chair]) -> None:
        if self._broken_at_s is None and not self._called:
            self._unexplained += 1
        if self._unexplained > UNEXPLAINED_MAX:
            self._give_up()
        else:
            self._seat(waiting)

    def _seat(self, chairs: list[Chair]) -> None:
        """A new generation: who was there first sits first, since the first one's copy is what all go on from."""
        size, cause = len(chairs), self._cause(chairs)
        chairs.sort(key=lambda chair: size if chair.place is None else chair.place)
        self.generation += 1
        self._broken_at_s, self._called = None, False
        environments = self._places(size)
        same = len({chair.step for chair in chairs}) == 1 and chairs[0].step is not None
        for place, chair in enumerate(chairs):
            chair.place, chair.met, chair.waits, chair.ended = place, False, False, False
            chair.send(
                seat={
                    "generation": self.generation, "rank": place, "size": size, "same": same, "cause": cause,
                    "environment": environments[place],
                }
            )  # fmt: skip
        self._tell({"generation": self.generation, "size": size})

    def _cause(self, chairs: list[Chair]) -> str:
        """Why places are taken anew, for those who tell people; empty: nobody was lost, and none came back."""
        if self._broken_at_s is not None:
            return "lost"
        return "back" if any(chair.place is None and self._returns.get(chair.slot) for chair in chairs) else ""

    def _places(self, size: int) -> dict[int, dict[str, str]]:
        """Variables of each place, and a rendezvous for them; one rank needs neither."""
        ranks = [replace(self.config.ranks[0], rank=place, local_rank=place) for place in range(size)]
        config = replace(self.config, hosts=[(self.config.hostname, size)], ranks=ranks)
        if self._rendezvous is not None:
            threading.Thread(target=self._rendezvous.shutdown, daemon=True).start()
            self._rendezvous = None
        if size == 1:
            return rank_environments(config, 0)
        from horovod.runner.common.util.hosts import HostInfo, get_host_assignments
        from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

        self._rendezvous = server = RendezvousHTTPServer((config.address, 0), RendezvousHandler, 0)
        server.init(get_host_assignments([HostInfo(config.hostname, size)], size, size))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return rank_environments(config, int(server.server_address[1]))

    def _close(self) -> None:
        """The ranks are leaving; who is not among them is too late."""
        self._over = True
        for slot in set(self.slots) - set(self.chairs) - set(self.codes):
            self._record(slot, 0)  # it stayed away, and the run did without it
        for chair in self.chairs.values():
            if chair.place is None:
                chair.process.kill()
