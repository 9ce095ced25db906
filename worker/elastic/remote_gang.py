"""The ranks of an elastic gang on any node but the first: starts, hears and ends them as the first node says.

`worker.elastic.remote_nodes` tells the words. Nothing is decided here but one thing: where the first node is gone, or
lets this one go, all ranks end, since nobody is there who could seat them. If it is gone, one of them first saves its
copy of the run (`worker.elastic.rescue`).
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from worker.elastic.json_lines import Line
from worker.elastic.member import WORDS, LocalProcess, local_start, longest_s_of
from worker.elastic.remote_nodes import BEAT_S, SILENT_S
from worker.elastic.rescue import RESCUE_FILE, Rescue
from worker.launch import SIBLING_GRACE_S, Gang
from worker.launch_config import LaunchConfig
from worker.plan import EXIT_PAUSED, EXIT_PEER_LOST
from worker.rendezvous import CONNECT_LIMIT_S, await_port


class RemoteGang(Gang):
    """The local ranks, and the line to the first node."""

    def __init__(self, config: LaunchConfig) -> None:
        super().__init__(config)
        self.local = {rank.rank: rank for rank in config.ranks}
        self.processes: dict[int, LocalProcess] = {}
        self._first: Line
        self._guided = True
        """The first node says what becomes of the ranks; else they are seen to their end here."""
        self._reported: dict[int, int] = {}
        """Slot -> exit code of a process, of which the first node has not said yet what comes of it."""
        self._unneeded: set[int] = set()
        """Ranks that had no place when the run was over."""
        self._copies: dict[int, int | None] = {}
        """Slot -> step of its copy of the run, of processes that wait for a place or for the end."""
        self._longest_s: dict[int, float] = {}
        """Slot -> length of its longest step or evaluation, where that is long."""
        self._generation = 0
        self._asked = Path(config.requests, RESCUE_FILE)
        self._rescue: Rescue | None = None
        """The first node is gone, and a process may still save its copy."""
        self._beat_s = 0.0

    def start(self) -> None:
        """Go to the first node; it says when ranks are to be started."""
        assert self.config.port_file is not None  # noqa: S101 - other nodes have ranks, too
        port = await_port(self.config, self.config.port_file)
        self._first = Line(socket.create_connection((self.config.address, port), timeout=CONNECT_LIMIT_S))
        self._first.socket.settimeout(None)
        self._first.send(remote=self.config.hostname, word=self.config.word)

    def _is_busy(self) -> bool:
        return self._guided or bool(self.running)

    def _reap(self) -> None:
        self._beat()
        if self._guided:
            self._listen()
        gone = {slot: code for slot, process in self.running.items() if (code := process.poll()) is not None}
        self._hear()
        for slot, code in gone.items():
            del self.running[slot]
            self.processes.pop(slot).close()
            self._copies.pop(slot, None)
            if self._guided:
                self._reported[slot] = code
                self._first.send(slot=slot, gone=code)
            else:
                self._see_out(slot, code)
        if self._guided and self._kill_at_s is not None:
            self._part()  # cancelled here
        if self._rescue is not None and (self._kill_at_s is not None or not self._rescue.goes_on()):
            self._rescue = None
            self._part()

    def _beat(self) -> None:
        now_s = time.monotonic()
        if now_s - self._beat_s >= BEAT_S:
            self._beat_s = now_s
            self._first.send(here=True)

    def _listen(self) -> None:
        for body in self._first.read():
            with suppress(KeyError, TypeError, AttributeError):  # what is none of the words
                self._obey(body)
        silent = time.monotonic() - self._first.heard_s > SILENT_S
        if self._guided and (self._first.ended or silent or self._asked.exists()):
            self._guided = False
            self._first.shut()  # where it is there after all, it goes on without this node
            self._rescue = Rescue(self.processes, self._copies, self._longest_s, self._generation)

    def _obey(self, body: dict[str, Any]) -> None:
        process = self.processes.get(body.get("slot", -1))
        if "start" in body and process is None:
            self._start(body["slot"], returned=bool(body["start"]))
        elif "say" in body and process is not None:
            if "seat" in body["say"]:
                self._seated(body["say"]["seat"])
                self._copies.pop(body["slot"], None)
            process.send(**body["say"])
        elif "kill" in body and process is not None:
            process.kill()
        elif "tell" in body:
            self._reported.pop(body["tell"]["rank"], None)
            if "code" in body["tell"]:
                self.codes[body["tell"]["rank"]] = body["tell"]["code"]
            self._tell(body["tell"])
        elif "over" in body:
            self._finish(set(body["over"]))
        elif "apart" in body:
            self._part()

    def _seated(self, seat: dict[str, Any]) -> None:
        """Of each generation the supervisor learns once how many ranks other nodes have: whether it goes on without."""
        if seat["generation"] > self._generation:
            self._generation = seat["generation"]
            self._tell({"elsewhere": len(set(seat["slots"]) - set(self.local))})

    def _start(self, slot: int, *, returned: bool) -> None:
        process = local_start(self.config, self.local[slot], returned=returned)
        self.running[slot], self.processes[slot] = process.popen, process
        self._tell({"rank": slot, "pid": process.popen.pid})

    def _hear(self) -> None:
        """What the processes have said; nothing but numbers and the words for them leaves this node."""
        for slot, process in self.processes.items():
            for body in process.read():
                said = {word: body[word] for word in WORDS if isinstance(body.get(word), int | None) and word in body}
                self._longest_s[slot] = max(self._longest_s.get(slot, 0.0), longest_s_of(said))
                if "ready" in said or "end" in said:
                    self._copies[slot] = said.get("step")
                if self._guided:
                    self._first.send(slot=slot, said=said)

    def _finish(self, seated: set[int]) -> None:
        """All have trained to the end: who had no place is not needed, the others end by themselves."""
        self._guided = False
        self._unneeded = set(self.local) - seated
        for slot in self._unneeded & set(self.processes):
            self.processes[slot].kill()
        self._settle(0)

    def _part(self) -> None:
        """Nobody can be seated here any more: all end, and know that it is not their own fault."""
        self._guided = False
        self._kill_at_s = self._kill_at_s or time.monotonic() + SIBLING_GRACE_S
        for process in self.processes.values():
            process.shut()
        self._settle(EXIT_PEER_LOST)

    def _settle(self, code: int) -> None:
        """Ranks of which there is no process, and will be none: their end is `code`, unless it is known better."""
        for slot in set(self.local) - set(self.processes) - set(self.codes):
            self._see_out(slot, self._reported.get(slot, code))

    def _see_out(self, slot: int, code: int) -> None:
        if slot in self._unneeded:
            code = 0
        elif self._killed:
            code = EXIT_PEER_LOST  # it did not notice in time that the others are gone
        self._record(slot, code)
        if code not in (0, EXIT_PAUSED) and self._kill_at_s is None and self._rescue is None:
            self._kill_at_s = time.monotonic() + SIBLING_GRACE_S

    def _record(self, slot: int, code: int) -> None:
        self.codes[slot] = code
        self._tell({"rank": slot, "code": code, "own": True})
