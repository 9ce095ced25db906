"""Who takes how many rows of a step: times each rank's own work, and changes the split where that pays.

Each rank's seconds travel with the gradients, as control values; the first rank decides (`worker.pacing`), its wish
travels the same way, and all ranks take the new split over after the same step.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

from worker.pacing import Correction, Corrector
from worker.runtime.batches import LEAST_ROWS, BatchPlan
from worker.runtime.stopwatch import HostWatch, StreamWatch
from worker.shares import Line, Planned, even

if TYPE_CHECKING:
    from worker.runtime.run import Run

MEASURED = "measured"
"""Correct by what is measured even where all devices are alike."""


class Pace:
    """The clock of one rank's work, and what the ranks agree on about it.

    On like devices there is no split, and so the same bits in every run, until one of them is lastingly slower.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.split: tuple[int, ...] = ()
        """Rows per rank of a whole batch; empty: even, or not for this mode to say."""
        self.most: tuple[int, ...] = ()
        self._first: tuple[int, ...] = ()
        """The split that was planned for all ranks of this attempt, by their slots (`Run.slots`)."""
        self._lines: tuple[Line, ...] = ()
        self._corrector: Corrector | None = None
        self._proposed: Correction | None = None
        self._joined = False
        self._plan: BatchPlan | None = None
        slowdown = run.settings.slowdown
        on_stream = run.device.type == "cuda" and slowdown == 1.0
        self._watch: HostWatch | StreamWatch = StreamWatch() if on_stream else HostWatch(run.device, slowdown)
        self._idle_s = self._spent_s = 0.0
        self._meetings = 0
        """Since control values were last read: on a GPU that is not every step."""

    def join(self) -> None:
        """The ranks share out the rows of every step: from now on they tell each other how long they worked."""
        run, wish = self.run, str(self.run.spec.get("resources", {}).get("split", "by_speed"))
        self._joined = run.world_size > 1
        run.teller.rank_values = self.told
        planned, all_ranks = run.settings.split, run.settings.world_size
        alike = planned is not None and planned.alike and wish != MEASURED
        if planned is not None and planned.alike:
            planned = replace(planned, rows=even(run.batch_size, len(planned.rows)))
        if planned is not None and not self._is_ours(planned):
            planned = None
        if not self._joined or wish == "even" or (planned is None and wish != MEASURED):
            return
        if run.batch_size < LEAST_ROWS * all_ranks:
            return
        planned = planned or Planned(rows=even(run.batch_size, all_ranks))
        here = planned.among(run.slots, least=LEAST_ROWS)
        self.most, self._lines, self._first = here.most, here.lines, planned.rows
        if not alike:
            self._use(here.rows, correct=here.correct)
        elif here.correct:
            self._correct(even(run.batch_size, run.world_size), alike=True)

    def _is_ours(self, planned: Planned) -> bool:
        """Whether it is for this batch: the program may have been changed since, or tries another."""
        ours = (self.run.settings.world_size, self.run.batch_size)
        return (len(planned.rows), sum(planned.rows)) == ours and planned.fits(least=LEAST_ROWS)

    def resume(self) -> None:
        """Weights and position are there: what was learnt under the same plan before is kept.

        While a rank is missing, what all of them had learnt waits for its return.
        """
        run, position = self.run, self.run.position
        if not self._all_there:
            run.teller.rank_values = self.told  # of one that is left alone, too, which joins nobody
            return
        if self._first and position.split and position.split_planned == self._first:
            self._use(tuple(position.split[slot] for slot in run.slots), correct=self._corrector is not None)
        self._keep(self.split)

    @property
    def _all_there(self) -> bool:
        return self.run.world_size == self.run.settings.world_size

    def _keep(self, split: tuple[int, ...]) -> None:
        """Have checkpoints and copies hold a split of all ranks, by their slots: who is which rank may change."""
        position, by_slot = self.run.position, sorted(zip(self.run.slots, split, strict=bool(split)))
        position.split, position.split_planned = tuple(rows for _, rows in by_slot), self._first

    def _use(self, split: tuple[int, ...], *, correct: bool) -> None:
        """Share rows out so from the next step on."""
        run = self.run
        self.split, self._plan = split, None
        run.teller.rows_factor = run.batch_size / split[run.rank]
        if correct:
            self._correct(split)

    def _correct(self, split: tuple[int, ...], *, alike: bool = False) -> None:
        """Have the first rank watch how long each works."""
        if self.run.rank == 0:
            self._corrector = Corrector(split, lines=self._lines, least=LEAST_ROWS, most=self.most, alike=alike)

    # ---- in every step -----------------------------------------------------------------------------------------
    def plan(self, plain: BatchPlan) -> BatchPlan:
        """The plan of an epoch with the split as it is now; the same object until the split changes."""
        if not self.split:
            return plain
        if self._plan is None or self._plan.rows != plain.rows:
            self._plan = replace(plain, split=self.split, most=self.most)
        return self._plan

    def restart(self) -> None:
        """What went before was no step."""
        self._watch.restart()

    def worked(self) -> None:
        """This rank's part of a step is done, but for meeting the others (slowed down where that is declared)."""
        self._watch.stop()

    def waiting(self) -> AbstractContextManager[None]:
        """Within it this rank waits for the others before its part of a step is done."""
        return self._watch.waiting()

    def working(self) -> AbstractContextManager[None]:
        """Within such a wait this rank does a part of its work (slowed down where that is declared)."""
        return self._watch.working()

    def met(self) -> None:
        """The ranks have met: the next step begins."""
        self._meetings += 1
        self._watch.start()

    def tells(self) -> tuple[float, ...]:
        """Control values of this rank: seconds per rank (its own place filled in), then the first rank's wish."""
        if not self._joined:
            return ()
        seconds = [0.0] * self.run.world_size
        if self._is_whole_step:
            seconds[self.run.rank] = self._watch.newest_s
        wish = self._proposed.after if self._proposed else [0] * self.run.world_size
        return (*seconds, *map(float, wish))

    @property
    def _is_whole_step(self) -> bool:
        """The last step of an epoch may have another number of rows."""
        return self.run.position.step_in_epoch < self.run.teller.steps_per_epoch - 1

    def agree(self, sums: Sequence[float]) -> None:
        """Take what all ranks told; the same on every rank, after the same step."""
        if not self._joined:
            return
        work_s, wish = sums[: self.run.world_size], tuple(round(rows) for rows in sums[self.run.world_size :])
        steps, self._meetings = max(1, self._meetings), 0
        step_s = self._watch.since_s() / steps
        if min(work_s) > 0:
            self._idle_s += max(work_s) - work_s[self.run.rank]
            self._spent_s += step_s
        if any(wish):
            self._take(wish)
        elif self._corrector is not None and self._proposed is None:
            self._proposed = self._corrector.observe(work_s, steps)

    def _take(self, split: tuple[int, ...]) -> None:
        """The first rank's wish has come to all: the same step for everybody."""
        run, found = self.run, self._proposed
        self._proposed = None
        self._use(split, correct=False)
        self._watch.forget()
        if self._all_there:
            self._keep(split)
        if self._corrector is not None and found is not None:
            self._corrector.adopt(split)
            told = {"before": found.before, "after": found.after, "work_s": found.work_s}
            run.reporter.note(found.reason, step=run.position.step + 1, split=told)

    def told(self) -> dict[str, float]:
        """Values for the curves of this rank since the last time: rows of a step, share of the time spent waiting.

        One that is left alone of several takes all rows, whatever was told of it before.
        """
        if self.run.settings.world_size == 1:
            return {}
        rank = self.run.rank
        rows = self.split or even(self.run.batch_size, self.run.world_size)
        values = {f"rank{rank}/rows": float(rows[rank])}
        if self._spent_s > 0:
            values[f"rank{rank}/idle_share"] = min(1.0, self._idle_s / self._spent_s)
        self._idle_s = self._spent_s = 0.0
        return values
