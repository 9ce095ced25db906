"""What counts as a rank's own work where layers wait for the others in the middle of a step: a clock that is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from worker.runtime import stopwatch
from worker.runtime.batches import LEAST_ROWS, BatchPlan
from worker.runtime.pace import Pace
from worker.runtime.position import Position
from worker.runtime.stopwatch import HostWatch, StreamWatch
from worker.runtime.synced_norm import Together, share_statistics
from worker.shares import Line, Planned, equal_finish, even

STEPS = 40


class Clock:
    """Stands for the module `time`: nothing takes any time but what says so."""

    def __init__(self) -> None:
        self.now_s = self.slept_s = 0.0

    def perf_counter(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.slept_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(stopwatch, "time", clock)
    return clock


class Late:
    """A group whose other ranks come so much later."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.late_s = clock, 0.0

    by_host = True

    def sum_start(self, tensor: Tensor, name: str) -> Late:
        return self

    def wait(self) -> None:
        self.clock.now_s += self.late_s


class Work(nn.Module):
    """A layer that takes as long as it is told."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock, self.work_s = clock, 0.0

    def forward(self, inputs: Tensor) -> Tensor:
        self.clock.now_s += self.work_s
        return inputs


class Rank:
    """A rank with a pace, and a model whose layer waits for the others forward and backward."""

    def __init__(
        self,
        number: int,
        planned: Planned,
        clock: Clock,
        row_s: float,
        slowdown: float = 1.0,
        slots: tuple[int, ...] = (0, 1),
        learnt: Position | None = None,
        spec: dict[str, Any] | None = None,
    ) -> None:
        """`slots`: who the ranks are that are there; `learnt`: where the run stands that they go on with."""
        self.number, self.row_s, self.slowdown = number, row_s, slowdown
        self.notes: list[str] = []
        self.position = learnt or Position()
        settings = SimpleNamespace(slowdown=slowdown, split=planned, world_size=len(planned.rows))
        run: Any = SimpleNamespace(
            settings=settings, device=torch.device("cpu"), spec=spec or {}, slots=slots,
            world_size=len(slots), rank=number, batch_size=sum(planned.rows) or 8 * len(planned.rows),
            teller=SimpleNamespace(steps_per_epoch=2 * STEPS), position=self.position,
            reporter=SimpleNamespace(note=lambda message, **_: self.notes.append(message)),
        )  # fmt: skip
        self.pace, self.work, self.group = Pace(run), Work(clock), Late(clock)
        self.pace.join()
        self.pace.resume()
        together = Together(self.group)  # type: ignore[arg-type]
        together.waiting = self.pace.waiting
        self.net = nn.Sequential(self.work, nn.BatchNorm1d(2))
        share_statistics(self.net, together)

    @property
    def alone_s(self) -> float:
        """Of a step, if it waited for nobody."""
        return self.row_s * self.slowdown * self.rows

    @property
    def rows(self) -> int:
        """Of a whole step."""
        return (self.pace.split or even(self.pace.run.batch_size, self.pace.run.world_size))[self.number]

    def step(self, longest_s: float) -> tuple[float, ...]:
        """What it tells after a step in which the slowest rank takes so long."""
        self.work.work_s = self.row_s * self.rows
        self.group.late_s = (longest_s - self.alone_s) / 2
        self.pace.met()
        self.net(torch.randn(4, 2, requires_grad=True)).sum().backward()
        self.pace.worked()
        return self.pace.tells()


def steps(ranks: Sequence[Rank], count: int, every: int = 1) -> list[float]:
    """Steps of both ranks together, of which one in so many is read; the seconds that both told in the last one."""
    told: list[float] = []
    for step in range(1, count + 1):
        longest_s = max(rank.alone_s for rank in ranks)
        told = [sum(values) for values in zip(*(rank.step(longest_s) for rank in ranks), strict=True)]
        for rank in ranks if step % every == 0 else ():
            rank.pace.agree(told)
    return told[: len(ranks)]


def test_a_slow_rank_is_told_from_one_that_waits_for_it_and_gets_fewer_rows(clock: Clock) -> None:
    planned = Planned(rows=(8, 8))
    ranks = [Rank(0, planned, clock, 0.125), Rank(1, planned, clock, 0.25)]
    assert steps(ranks, 1) == pytest.approx([1.0, 2.0])
    steps(ranks, STEPS)
    assert ranks[0].pace.split == ranks[1].pace.split == (11, 5)
    assert ranks[0].notes[0].startswith("Rank 1 worked 2 s on its 8 rows of a step, rank 0 1 s on 8.")


def test_the_idle_share_of_a_rank_is_what_it_waits_for_the_slowest(clock: Clock) -> None:
    planned = Planned(rows=(8, 8), correct=False)
    shares = []
    for rank in (Rank(0, planned, clock, 0.125), Rank(1, planned, clock, 0.25)):
        rank.pace.restart()
        own = rank.step(2.0)
        rank.pace.agree((own[0] or 1.0, own[1] or 2.0, 0.0, 0.0))
        shares.append(rank.pace.told()[f"rank{rank.number}/idle_share"])
    assert shares == pytest.approx([0.5, 0.0])


def test_a_rank_that_is_left_alone_of_several_tells_that_it_takes_all_rows(clock: Clock) -> None:
    before = Rank(1, Planned(rows=(9, 7)), clock, 0.125).pace
    assert before.told() == {"rank1/rows": 7.0}
    alone = Rank(0, Planned(rows=(9, 7)), clock, 0.125, slots=(1,)).pace
    assert alone.run.teller.rank_values() == {"rank0/rows": 16.0}


def test_a_device_that_is_declared_slower_works_slower_but_does_not_wait_longer(clock: Clock) -> None:
    planned = Planned(rows=(29, 8), lines=(Line(0.0, 1.0), Line(0.0, 3.0)))
    ranks = [Rank(0, planned, clock, 1.0), Rank(1, planned, clock, 1.0, slowdown=3.0)]
    assert steps(ranks, 1) == pytest.approx([29.0, 24.0])
    assert clock.slept_s == pytest.approx(16.0)
    steps(ranks, STEPS)
    assert ranks[0].pace.split == (28, 9), f"not down to {LEAST_ROWS} rows"


UNLIKE = Planned(rows=(73, 37, 18), most=(0, 50, 20), lines=(Line(0.01, 0.001), Line(0.01, 0.002), Line(0.01, 0.004)))
"""Three devices; the first is the fastest."""


def test_ranks_that_have_changed_places_take_the_rows_that_were_planned_for_their_devices(clock: Clock) -> None:
    pace = Rank(0, UNLIKE, clock, 0.002, slots=(1, 2, 0)).pace
    assert (pace.split, pace.most) == ((37, 18, 73), (50, 20, 0))
    plan = pace.plan(BatchPlan(rows=512, batch_size=128, world_size=3))
    assert [plan.share(0, rank) for rank in range(3)] == [(0, 37), (37, 55), (55, 128)]


def test_fewer_ranks_than_planned_end_together_and_correct_what_was_planned(clock: Clock) -> None:
    slots = (1, 0)
    lines = [UNLIKE.lines[slot] for slot in slots]
    ranks = [Rank(number, UNLIKE, clock, 0.001, slots=slots) for number in range(2)]
    first = equal_finish(lines, 128, least=LEAST_ROWS, most=(50, 0))
    assert ranks[0].pace.split == ranks[1].pace.split == first != (64, 64)
    steps(ranks, STEPS)
    assert first[0] < ranks[0].pace.split[0] <= 50, "as fast as the other by now, but its memory is small"


def test_without_lines_fewer_ranks_share_out_rows_as_they_were_planned(clock: Clock) -> None:
    planned = Planned(rows=(64, 32, 32))
    assert Rank(0, planned, clock, 0.001, slots=(2, 0)).pace.split == (43, 85)
    assert Rank(0, planned, clock, 0.001, slots=(1, 2)).pace.split == (64, 64)


@pytest.mark.parametrize("rows", [(86, 42), (64, 64)])
def test_what_all_ranks_had_learnt_of_their_devices_outlives_a_loss(clock: Clock, rows: tuple[int, int]) -> None:
    planned = Planned(rows=rows)
    learnt = Position(split=(90, 38), split_planned=rows)
    left = Rank(0, planned, clock, 0.001, slots=(1,), learnt=learnt)
    assert left.pace.split == ()
    assert Rank(0, planned, clock, 0.001, slots=(1, 0), learnt=left.position).pace.split == (38, 90)
    assert Rank(0, planned, clock, 0.001, slots=(0, 1), learnt=left.position).pace.split == (90, 38)
    other = Rank(0, Planned(rows=(100, 28)), clock, 0.001, slots=(1, 0), learnt=left.position)
    assert other.pace.split == (28, 100), "another plan"


def test_a_correction_is_kept_by_device_and_only_where_all_are_there(clock: Clock) -> None:
    planned = Planned(rows=(8, 8))
    swapped = [Rank(0, planned, clock, 0.125, slots=(1, 0)), Rank(1, planned, clock, 0.25, slots=(1, 0))]
    steps(swapped, STEPS)
    assert swapped[0].pace.split == (11, 5)
    assert swapped[0].position.split == swapped[1].position.split == (5, 11)
    three = Planned(rows=(6, 6, 6))
    fewer = [Rank(number, three, clock, row_s, slots=(0, 2)) for number, row_s in enumerate((0.125, 0.25))]
    steps(fewer, STEPS)
    assert fewer[0].pace.split == (12, 6)
    assert fewer[0].position.split == ()


ALIKE = Planned(rows=(0, 0), most=(12, 12), lines=(Line(0.0, 0.1), Line(0.0, 0.1)))


def test_like_devices_share_evenly_until_one_has_been_slower_for_minutes(clock: Clock) -> None:
    ranks = [Rank(number, ALIKE, clock, 0.1) for number in range(2)]
    plain = BatchPlan(rows=80, batch_size=16, world_size=2)
    steps(ranks, 8 * STEPS)
    assert ranks[0].pace.plan(plain) is plain, "the very batches of a run that nobody watches"
    assert ranks[0].pace.split == ranks[0].position.split == ()
    ranks[1].row_s = 0.2
    steps(ranks, 6 * STEPS)
    assert ranks[0].pace.split == ranks[1].pace.split == (11, 5) == ranks[1].position.split
    assert ranks[0].notes[0].startswith("The devices are alike by name, but one has been slower")
    assert ranks[1].notes == []


def test_minutes_are_as_long_where_only_some_steps_are_read(clock: Clock) -> None:
    ranks = [Rank(number, ALIKE, clock, row_s) for number, row_s in enumerate((0.1, 0.2))]
    steps(ranks, 180, every=2)
    assert ranks[0].notes == [], "less than 300 s of steps of 1.6 s"
    steps(ranks, 30, every=2)
    assert "one has been slower for 5 min" in ranks[0].notes[0]


def test_what_was_learnt_of_like_devices_is_kept_and_corrected_as_any_split(clock: Clock) -> None:
    learnt = Position(split=(11, 5), split_planned=(8, 8))
    ranks = [Rank(number, ALIKE, clock, 0.1, learnt=learnt) for number in range(2)]
    assert ranks[0].pace.split == ranks[1].pace.split == (11, 5)
    steps(ranks, STEPS)
    assert ranks[0].pace.split == (8, 8)


def test_like_devices_that_are_watched_go_on_evenly_after_an_even_start(clock: Clock) -> None:
    learnt = Rank(0, ALIKE, clock, 0.1).position
    assert learnt.split_planned == (8, 8)
    assert Rank(1, ALIKE, clock, 0.1, learnt=learnt).pace.split == ()


def test_no_device_gets_more_rows_than_fit_in_its_memory_where_a_like_one_is_slow(clock: Clock) -> None:
    ranks = [Rank(0, ALIKE, clock, 0.1), Rank(1, ALIKE, clock, 0.8)]
    steps(ranks, 4 * STEPS)
    assert ranks[0].pace.split == (12, 4)


@pytest.mark.parametrize("most", [(7, 8), (1, 100)])
@pytest.mark.parametrize(("wish", "goes_on_with"), [("by_speed", ()), ("measured", (14, 2))])
def test_a_run_whose_batch_grew_beyond_what_was_planned_to_fit_goes_on(
    clock: Clock, most: tuple[int, int], wish: str, goes_on_with: tuple[int, ...]
) -> None:
    """People may change `batch_size` in spec.yaml: nothing is known of the memory that it takes."""
    spec = {"resources": {"split": wish}}
    ranks = [Rank(0, replace(ALIKE, most=most), clock, 0.1, spec=spec)]
    ranks.append(Rank(1, replace(ALIKE, most=most), clock, 0.8, spec=spec))
    steps(ranks, 3 * STEPS)
    assert ranks[0].pace.split == ranks[1].pace.split == goes_on_with


@pytest.mark.parametrize("slots", [(2, 0), (0, 1, 2)])
def test_like_devices_are_watched_among_those_that_are_there(clock: Clock, slots: tuple[int, ...]) -> None:
    three = Planned(rows=(0, 0, 0), lines=(Line(0.0, 0.1),) * 3)
    ranks = [Rank(number, three, clock, 0.3 if number == 1 else 0.1, slots=slots) for number in range(len(slots))]
    steps(ranks, 6 * STEPS)
    assert ranks[0].pace.split[1] == min(ranks[0].pace.split) < 24 // len(slots)


def test_the_others_wait_for_a_device_that_is_declared_slower_where_they_would_for_a_slow_one(clock: Clock) -> None:
    watch = HostWatch(torch.device("cpu"), slowdown=3.0)
    watch.start()
    clock.now_s += 8.0
    with watch.waiting():
        assert clock.now_s == pytest.approx(24.0)
        clock.now_s += 5.0
    clock.now_s += 1.0
    watch.stop()
    assert watch.newest_s == pytest.approx(27.0)
    assert clock.now_s == pytest.approx(32.0)


def test_of_a_wait_only_the_work_within_it_is_drawn_out_on_a_device_that_is_declared_slower(clock: Clock) -> None:
    watch = HostWatch(torch.device("cpu"), slowdown=3.0)
    watch.start()
    clock.now_s += 1.0
    with watch.waiting():
        clock.now_s += 5.0
        with watch.working():
            clock.now_s += 2.0
        clock.now_s += 7.0
        with watch.working():
            clock.now_s += 1.0
        clock.now_s += 4.0
    clock.now_s += 1.0
    watch.stop()
    assert clock.slept_s == pytest.approx(10.0)
    assert watch.newest_s == pytest.approx(15.0)


def test_a_gpu_tells_nothing_of_a_step_in_which_it_waited_for_the_others(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Passed:
        def __init__(self, **_: bool) -> None:
            self.at_s = 0.0

        def record(self) -> None:
            self.at_s = clock.now_s

        def query(self) -> bool:
            return True

        def elapsed_time(self, later: Passed) -> float:
            return 1e3 * (later.at_s - self.at_s)

    monkeypatch.setattr(torch.cuda, "Event", Passed)
    watch = StreamWatch()
    told: list[float] = []
    for waits in (False, True, False):
        watch.start()
        clock.now_s += 2.0
        if waits:
            with watch.waiting():
                clock.now_s += 5.0
        watch.stop()
        told.append(watch.newest_s)
    assert told == pytest.approx([2.0, 0.0, 2.0])
