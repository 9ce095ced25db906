"""Updates in step, with backup workers: of the ranks' gradients for a step the first ones count, the rest is dropped.

After Chen et al. 2016, "Revisiting distributed synchronous SGD" (arXiv:1604.00981): a step waits for all but `backup`
of the workers. Each server takes the first gradients that reach it, as TensorFlow's accumulators did for each variable.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from worker.runtime.servers.tickets import Agreed


@dataclass
class Rounds:
    """In place of `Tickets`: a worker's share of the step under way, one at a time. Not locked. Raises nothing."""

    workers: int
    backup: int
    round: int = 0
    """The step under way; the server moves it on."""
    stop: int = 0
    agreed: Agreed = field(default_factory=Agreed)
    _first: int = 0
    _taken: dict[int, int] = field(default_factory=dict)
    """Worker -> the last step it had a share of."""
    _frozen: bool = False

    @property
    def needed(self) -> int:
        """Gradients that make an update."""
        return self.workers - self.backup

    @property
    def next(self) -> int:
        """Past the last ticket of the steps that are done."""
        return self.round * self.workers

    def open(self, first: int, stop: int) -> None:
        """Tickets from `first` on, both whole steps."""
        self.round = self._first = first // self.workers
        self.stop = stop // self.workers
        self.agreed, self._frozen = Agreed(), False
        self._taken.clear()

    def wish(self, pause: bool, save: bool, time_spent: float) -> None:
        """If a worker asks to stop, the step that somebody has begun is the last; one is made in any case."""
        if self._frozen:
            return
        now = self.agreed
        self.agreed = Agreed(now.pause or pause, now.save or save, max(now.time_spent, time_spent))
        if self.agreed.stops:
            begun = max(self._taken.values(), default=self._first)
            self.stop = min(self.stop, begun + 1)

    def give_back(self, worker: int) -> None:
        """Its gradient has counted or was dropped; the servers know."""

    @property
    def over(self) -> bool:
        """No further step. From the first look that says so all workers are told the same."""
        self._frozen = self._frozen or self.round >= self.stop
        return self._frozen

    def take(self, worker: int) -> int | None:
        """Its share of the step under way; None while it has had that already. Call `over` before."""
        if self._taken.get(worker, -1) >= self.round:
            return None
        self._taken[worker] = self.round
        return self.round * self.workers + worker
