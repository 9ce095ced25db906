"""Who works on what, and how far ahead: tickets for the shares of an epoch's steps, handed out on demand.

A gradient is as stale as updates of others were made between its worker's pull and its push. With `exposure` of a
ticket = tickets of others that were out when it was handed out, plus those handed out since, its staleness cannot
exceed its exposure; no ticket is handed out that would lift an exposure above the bound (bounded staleness as in
Ho et al. 2013, "More effective distributed ML via a stale synchronous parallel parameter server", NeurIPS).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Agreed:
    """What all workers are told when tickets stop; the same for each of them."""

    pause: bool = False
    save: bool = False
    time_spent: float = 0.0

    @property
    def stops(self) -> bool:
        """Whether the workers are to meet before the epoch is over."""
        return self.pause or self.save or self.time_spent >= 1.0


class Desk(Protocol):
    """Who gets which share of which step: one of them for all workers. Not locked: the caller sees to that."""

    agreed: Agreed

    @property
    def next(self) -> int:
        """Past the last ticket that was handed out, where all have stopped."""

    def open(self, first: int, stop: int) -> None:
        """Tickets from `first` on, before `stop`; those before are done."""

    def wish(self, pause: bool, save: bool, time_spent: float) -> None:
        """A worker's wishes."""

    def give_back(self, worker: int) -> None:
        """The worker's last gradient has come to all servers."""

    @property
    def over(self) -> bool:
        """No further ticket. From the first look that says so all workers are told the same."""

    def take(self, worker: int) -> int | None:
        """The next ticket; None while the worker has to wait. Call `over` before."""


@dataclass
class Tickets:
    """One list of tickets for all workers. Not locked: the caller sees to that. Raises nothing."""

    workers: int
    staleness: int
    """Most updates of others between a pull and its push."""
    next: int = 0
    stop: int = 0
    """Past the last ticket that is handed out: a multiple of `workers`, so that steps are whole."""
    agreed: Agreed = field(default_factory=Agreed)
    exposure: dict[int, int] = field(default_factory=dict)
    """Worker -> exposure of the ticket it holds."""
    _first: int = 0
    _frozen: bool = False

    def open(self, first: int, stop: int) -> None:
        """Tickets from `first` on; those before are done."""
        self.next, self.stop, self._first = first, stop, first
        self.agreed, self._frozen = Agreed(), False
        self.exposure.clear()

    def wish(self, pause: bool, save: bool, time_spent: float) -> None:
        """A worker's wishes: if one of them asks to stop, the steps begun are made whole and no further one begins.

        One step is made in any case: a run that is to be saved all the time still gets on.
        """
        if self._frozen:
            return  # some worker has been told to stop already, and all must be told the same
        now = self.agreed
        self.agreed = Agreed(now.pause or pause, now.save or save, max(now.time_spent, time_spent))
        if self.agreed.stops:
            whole = -(-max(self.next, self._first + 1) // self.workers) * self.workers
            self.stop = min(self.stop, whole)

    def give_back(self, worker: int) -> None:
        """The worker's gradient is in the weights of all servers."""
        self.exposure.pop(worker, None)

    @property
    def over(self) -> bool:
        """No further ticket. From the first look that says so all workers are told the same."""
        self._frozen = self._frozen or self.next >= self.stop
        return self._frozen

    def take(self, worker: int) -> int | None:
        """The next ticket; None while it would make a gradient too stale. Call `over` before."""
        if len(self.exposure) > self.staleness or any(seen >= self.staleness for seen in self.exposure.values()):
            return None
        for holder in self.exposure:
            self.exposure[holder] += 1
        self.exposure[worker] = len(self.exposure)
        self.next += 1
        return self.next - 1
