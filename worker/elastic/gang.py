"""A gang that outlives its ranks: who is lost is left behind or comes back, and those that are there are seated anew.

Chosen by `LaunchConfig.least`, with Horovod alone. Each process has a socket to the gang of its node, with a JSON
object per line; those of other nodes are spoken to through the gang there (`worker.elastic.remote_nodes`), and this one
decides:

    process   {"ready": GENERATION, "step": STEP}  waits for a place, and holds a copy of the run after STEP (or null)
              {"met": GENERATION}                  has met the others of its generation
              {"longest_ms": MILLISECONDS}         its steps or evaluations are long: so long it may be deep in one
              {"end": GENERATION, "step": STEP}    has trained to the end and waits for the others
    gang      {"seat": {...}}     a place among those that are there, with its generation and variables for Horovod;
                                  who they are (`slots`, in the order of places), as their devices may be unlike
              {"cut": GENERATION}   one of them is lost: do not wait for it
              {"call": GENERATION}  a new process is ready, or somebody goes: come for a new place after the next copy
              {"leave": true}       there is no place any more: end
              {"over": true}        all have trained to the end

A generation has a rendezvous of its own, so that nobody meets what an older one left there. Nothing a process sends
is more than two numbers, and nothing is unpickled. How many ranks there are to be may change while the run goes on:
the newest wish lies in a file (`worker.elastic.width`).
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from worker.elastic.member import Member
from worker.elastic.members import ElasticMembers
from worker.elastic.patience import seating_limit_s
from worker.elastic.remote_nodes import RemoteNode
from worker.elastic.rendezvous import Rendezvous
from worker.elastic.width import Width, WidthFile
from worker.launch_config import LaunchConfig
from worker.plan import EXIT_PAUSED, EXIT_PEER_LOST
from worker.recent import Recent

LOST_CODES = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGABRT, EXIT_PEER_LOST)
"""How a rank ends that may come back: killed from outside, or (by Gloo, too) because of a sibling that was. All other
ends are the program's own and would come again."""
RETURNS_MAX = 3
"""A rank that was lost more often than this of late stays away: something here does not let it live."""
UNEXPLAINED_MAX = 3
"""Generations that may break of late although nobody was lost; then it is the program that parts its ranks."""
LEAVE_LIMIT_S = 60.0
"""Who was told to leave may have a checkpoint to write to its end; then it is killed."""


class ElasticGang(ElasticMembers):
    """The run's ranks, and the rule that it goes on while `least` of them are there, one of them on this node."""

    def __init__(self, config: LaunchConfig) -> None:
        super().__init__(config)
        self.wish = Width(number=0, slots=self.first_slots)
        """Which ranks are to be there."""
        self._wishes = WidthFile(Path(config.requests))
        self._new: set[int] = set()
        """Slots that were missing when the newest wish came."""
        self._unstarted: set[int] = set()
        """Those of them that are still to be started."""
        self._width_told = self._met_told = 0
        self._returns = Recent()
        """Slots that were lost."""
        self._broken_at_s: float | None = None
        """A rank of this generation was lost then."""
        self._called = False
        self._unexplained = Recent()
        self._rendezvous = Rendezvous(config)

    def _decide(self) -> None:
        self._heed()
        self._arrange()
        self._tell_met()

    # ---- who is there ------------------------------------------------------------------------------------------
    def _gone(self, slot: int, code: int) -> None:
        member = self.members.pop(slot, None)
        if member is None:
            return  # of another node, which sees to it itself by now
        member.process.close()
        going_on = self._kill_at_s is None and not self._over
        if going_on and member.leave_by_s is not None:
            self._tell({"rank": slot, "left": code})
            return
        if going_on and code in LOST_CODES:
            self._lose(slot, code, seated=member.place is not None)
            return
        if self._over and member.place is None:
            code = 0  # it came back too late and was not needed
        self._record(slot, code)
        if code == EXIT_PAUSED and not self._over:
            self._close()
        elif self._kill_at_s is None and code != EXIT_PAUSED and not (code == 0 and self._over):
            self._give_up()

    def _lose(self, slot: int, code: int, *, seated: bool) -> None:
        """A rank is lost: the others go on without it if enough are left, and it comes back."""
        often = self._returns.again(slot) > RETURNS_MAX
        may_return = slot in self.wish.slots and not often
        if self._too_few(seated, may_return):
            self._record(slot, code)
            self._give_up()
            return
        self._tell_of(slot, {"rank": slot, "lost": code})
        if seated:
            self._break()
        if may_return:
            self._start(slot, returned=True)
        else:
            self._dissolve(self.remotes.of(slot), code)

    def _too_few(self, seated: bool, may_return: bool) -> bool:
        """Whether those that are left cannot go on; without one on this node nobody could write for all."""
        here = may_return or any(member.node == 0 for member in self.members.values())
        left = len(self._seated()) if seated else len(self.members) + may_return
        return not here or (left < self.config.least and (seated or not self.generation))

    def _tell_met(self) -> None:
        """Say once that a generation has met: from here on a loss costs no more than the lost."""
        seated = self._seated()
        if self._met_told < self.generation and seated and all(member.met for member in seated):
            self._met_told = self.generation
            self._tell({"met": self.generation})

    def _break(self) -> None:
        """One of this generation is lost: nobody waits for it."""
        self._broken_at_s = self._broken_at_s or time.monotonic()
        self._say_all(cut=self.generation)
        for member in self._seated():
            if not member.met:
                member.process.kill()  # it waits for the lost one until Gloo aborts it, half a minute later

    def _leave_behind(self, remote: RemoteNode) -> None:
        """Another node is lost, with all its ranks."""
        lost = [self.members.pop(slot) for slot in remote.slots if slot in self.members]
        if self._kill_at_s is not None or self._over:
            return
        seated = any(member.place is not None for member in lost)
        if not self.generation or self._too_few(seated, may_return=False):
            self._give_up()
        elif seated:
            self._break()

    # ---- how many there are to be ------------------------------------------------------------------------------
    def _heed(self) -> None:
        """Take in a new wish; start who is missing, end who has no place yet and is not asked for any more."""
        if not self.generation:
            return
        asked = self._wishes.news()
        if asked is not None and asked.number > self.wish.number and set(asked.slots) & set(self.all_slots):
            self._take_up(asked)
        for member in self.members.values():
            if member.place is None and member.leave_by_s is None and not self._is_asked_for(member):
                member.leave_by_s = time.monotonic()
            if member.leave_by_s is not None and time.monotonic() >= member.leave_by_s:
                member.process.kill()
        for slot in self._unstarted - set(self.members):
            self._unstarted.remove(slot)
            self._start(slot, returned=True)
        self._tell_width()

    def _take_up(self, asked: Width) -> None:
        asked = replace(asked, slots=tuple(slot for slot in asked.slots if slot in self.all_slots))
        there = {slot: member for slot, member in self.members.items() if member.leave_by_s is None}
        self._unstarted = set(asked.slots) - set(there)
        for slot in self._unstarted:
            self._returns.forget(slot)
        coming = {slot for slot, member in there.items() if member.place is None and slot not in self._returns}
        self.wish, self._new = asked, self._unstarted | (coming & set(asked.slots))

    def _is_asked_for(self, member: Member) -> bool:
        return member.slot in self.wish.slots

    def _tell_width(self) -> None:
        """Say once that all are there, and nobody else. Who was lost on the way comes later, or stays away."""
        seated = self._seated()
        missing = self._new - {member.slot for member in seated} - set(self._returns)
        strangers = any(not self._is_asked_for(member) for member in self.members.values())
        settled = bool(seated) and all(member.met for member in seated) and not missing and not strangers
        if not settled or self._width_told == self.wish.number:
            return
        self._width_told = self.wish.number
        steps = [member.step for member in seated if member.step is not None]
        ranks = [member.slot for member in seated]
        self._tell({"width": self.wish.number, "ranks": ranks, "step": max(steps, default=0)})

    # ---- who sits where ----------------------------------------------------------------------------------------
    def _arrange(self) -> None:
        """Seat those that are there where that is due."""
        seated, waiting = self._seated(), [member for member in self.members.values() if member.waits]
        if not self.generation:
            if len(waiting) == len(self.members):
                self._seat(waiting)
        elif all(member.ended for member in seated) and self._broken_at_s is None:
            self._say_all(over=True)
            self._close()
        elif all(member.waits for member in seated):
            if not self._dismiss(seated):
                self._seat_again([member for member in waiting if member.leave_by_s is None])
        elif self._is_late():
            self._give_up()
        elif not self._called and (any(member.place is None for member in waiting) or self._going(seated)):
            self._called = True
            self._say_all(call=self.generation)
            self._tell({"call": self.generation})

    def _going(self, seated: list[Member]) -> list[Member]:
        """Who is not asked for; nobody while too few others are there."""
        going = [member for member in seated if not self._is_asked_for(member)]
        return going if len(seated) - len(going) >= max(1, self.config.least) else []

    def _dismiss(self, seated: list[Member]) -> bool:
        """Have those leave that are not asked for. True: wait for them, as one may still write a checkpoint."""
        for member in self._going(seated):
            member.dismiss(time.monotonic() + LEAVE_LIMIT_S)
        return any(member.leave_by_s is not None for member in self.members.values())

    def _seat_again(self, waiting: list[Member]) -> None:
        if not any(member.node == 0 for member in waiting):
            if self._is_late():
                self._give_up()
            return  # the one that writes for all is on its way back
        unexplained = self._broken_at_s is None and not self._called
        if unexplained and self._unexplained.again(0) > UNEXPLAINED_MAX:
            self._give_up()
        else:
            self._seat(waiting)

    def _is_late(self) -> bool:
        return self._broken_at_s is not None and time.monotonic() - self._broken_at_s > seating_limit_s(
            member.longest_s for member in self._seated()
        )

    def _seat(self, members: list[Member]) -> None:
        """A new generation: this node's ranks first, on each those that were there first.

        All go on from the copy of the first of those before that has one (`source`). Each speaks with a voice of its
        own node: the numbers that its processes began with, from the first on.
        """
        size, cause = len(members), self._cause(members)
        before = [size if member.place is None else member.place for member in members]
        order = sorted(range(size), key=lambda index: (members[index].node, before[index]))
        # Who lost the others before it had their copy has none: then the first place takes the newest checkpoint.
        holders = [index for index in order if before[index] < size and members[index].step is not None]
        source = order.index(min(holders, key=before.__getitem__)) if holders else 0
        members = [members[index] for index in order]
        self.generation += 1
        self._broken_at_s, self._called = None, False
        on_node = Counter(member.node for member in members)
        names = {0: self.config.hostname, **{remote.node: remote.name for remote in self.remotes.all}}
        environments = self._rendezvous.open([(names[node], count) for node, count in on_node.items()])
        same = len({member.step for member in members}) == 1 and members[0].step is not None
        voices = [slot for node, count in on_node.items() for slot in self.slots[node][:count]]
        slots = [member.slot for member in members]
        for place, member in enumerate(members):
            member.place, member.met, member.waits, member.ended = place, False, False, False
            member.send(
                seat={
                    "generation": self.generation, "rank": place, "size": size, "same": same, "cause": cause,
                    "slots": slots, "voice": voices[place], "source": source, "environment": environments[place],
                }
            )  # fmt: skip
        self._tell({"generation": self.generation, "size": size})

    def _cause(self, members: list[Member]) -> str:
        """Why places are taken anew, for those who tell people; empty: nobody was lost, and none came back."""
        if self._broken_at_s is not None:
            return "lost"
        return "back" if any(member.place is None and member.slot in self._returns for member in members) else ""

    def _close(self) -> None:
        """The ranks are leaving; who is not among them is too late."""
        self._over = True
        for slot in set(self.local) - set(self.members) - set(self.codes):
            self._record(slot, 0)  # it stayed away, and the run did without it
        for member in self.members.values():
            if member.place is None:
                member.process.kill()
        self._part(over=[member.slot for member in self._seated()])
