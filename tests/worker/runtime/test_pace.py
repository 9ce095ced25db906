"""What counts as a rank's own work where layers wait for the others in the middle of a step: a clock that is told."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from worker.runtime import stopwatch
from worker.runtime.batches import LEAST_ROWS
from worker.runtime.pace import Pace
from worker.runtime.stopwatch import HostWatch, StreamWatch
from worker.runtime.synced_norm import Together, share_statistics
from worker.shares import Line, Planned

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

    def __init__(self, number: int, planned: Planned, clock: Clock, row_s: float, slowdown: float = 1.0) -> None:
        self.number, self.row_s, self.slowdown = number, row_s, slowdown
        self.notes: list[str] = []
        run: Any = SimpleNamespace(
            settings=SimpleNamespace(slowdown=slowdown, split=planned), device=torch.device("cpu"), spec={},
            world_size=2, rank=number, batch_size=sum(planned.rows),
            teller=SimpleNamespace(steps_per_epoch=2 * STEPS), position=SimpleNamespace(step=0, step_in_epoch=0),
            reporter=SimpleNamespace(note=lambda message, **_: self.notes.append(message)),
        )  # fmt: skip
        self.pace, self.work, self.group = Pace(run), Work(clock), Late(clock)
        self.pace.join()
        together = Together(self.group)  # type: ignore[arg-type]
        together.waiting = self.pace.waiting
        self.net = nn.Sequential(self.work, nn.BatchNorm1d(2))
        share_statistics(self.net, together)

    @property
    def alone_s(self) -> float:
        """Of a step, if it waited for nobody."""
        return self.row_s * self.slowdown * self.pace.split[self.number]

    def step(self, longest_s: float) -> tuple[float, ...]:
        """What it tells after a step in which the slowest rank takes so long."""
        self.work.work_s = self.row_s * self.pace.split[self.number]
        self.group.late_s = (longest_s - self.alone_s) / 2
        self.pace.met()
        self.net(torch.randn(4, 2, requires_grad=True)).sum().backward()
        self.pace.worked()
        return self.pace.tells()


def steps(ranks: Sequence[Rank], count: int) -> list[float]:
    """Steps of both ranks together; the seconds that both told in the last one."""
    told: list[float] = []
    for _ in range(count):
        longest_s = max(rank.alone_s for rank in ranks)
        told = [sum(values) for values in zip(*(rank.step(longest_s) for rank in ranks), strict=True)]
        for rank in ranks:
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


def test_a_device_that_is_declared_slower_works_slower_but_does_not_wait_longer(clock: Clock) -> None:
    planned = Planned(rows=(29, 8), lines=(Line(0.0, 1.0), Line(0.0, 3.0)))
    ranks = [Rank(0, planned, clock, 1.0), Rank(1, planned, clock, 1.0, slowdown=3.0)]
    assert steps(ranks, 1) == pytest.approx([29.0, 24.0])
    assert clock.slept_s == pytest.approx(16.0)
    steps(ranks, STEPS)
    assert ranks[0].pace.split == (28, 9), f"not down to {LEAST_ROWS} rows"


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
