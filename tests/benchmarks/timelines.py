"""Pipelines on paper: when each stage works on which micro-batch, by GPipe and by 1F1B. Pure.

The cut itself is `worker.stages.plan_stages`, which a node uses as well; here its times are played through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from worker.stages import GPIPE, ONE_F_ONE_B

Times = Sequence[tuple[float, float]]
"""(forward, backward) seconds of each stage for one micro-batch."""


@dataclass(frozen=True)
class Span:
    """A stage at work on one micro-batch."""

    stage: int
    micro_batch: int
    backward: bool
    begin_s: float
    end_s: float


@dataclass(frozen=True)
class Timeline:
    """One step of a pipeline."""

    spans: tuple[Span, ...]
    stages: int

    @property
    def step_s(self) -> float:
        """Until the last stage has done its last pass."""
        return max(span.end_s for span in self.spans)

    @property
    def busy_share(self) -> float:
        """Share of all stages' time that is work; the rest is the bubble."""
        return sum(span.end_s - span.begin_s for span in self.spans) / (self.stages * self.step_s)

    def most_waiting(self, stage: int) -> int:
        """Largest number of micro-batches that a stage holds between their forward and backward pass."""
        waiting = most = 0
        for span in sorted((span for span in self.spans if span.stage == stage), key=lambda span: span.begin_s):
            waiting += -1 if span.backward else 1
            most = max(most, waiting)
        return most


def ideal_speedup(stages: int, micro_batches: int) -> float:
    """Of equal stages over one process, without any overhead: K M / (M + K - 1)."""
    return stages * micro_batches / (micro_batches + stages - 1)


def order(schedule: str, stage: int, stages: int, micro_batches: int) -> list[tuple[bool, int]]:
    """(backward, micro-batch) in the order in which a stage does them. Raises `ValueError` for another schedule."""
    if schedule == GPIPE:
        return [(backward, number) for backward in (False, True) for number in range(micro_batches)]
    if schedule != ONE_F_ONE_B:
        raise ValueError(f"no schedule {schedule!r}; there are {GPIPE} and {ONE_F_ONE_B}")
    ahead = min(micro_batches, stages - stage)
    done = [(False, number) for number in range(ahead)]
    for number in range(micro_batches):
        done.append((True, number))
        if ahead + number < micro_batches:
            done.append((False, ahead + number))
    return done


def timeline(times: Times, micro_batches: int, schedule: str = GPIPE, message_s: float = 0.0) -> Timeline:
    """Play a step through: a pass begins when its stage is free and what it needs has come, `message_s` after it left.

    A forward pass needs that of the stage before, a backward pass that of the stage after.
    """
    stages = len(times)
    queues = [order(schedule, stage, stages, micro_batches) for stage in range(stages)]
    free_s, place = [0.0] * stages, [0] * stages
    ended: dict[tuple[bool, int, int], float] = {}
    spans: list[Span] = []
    while len(ended) < 2 * stages * micro_batches:
        for stage, queue in enumerate(queues):
            while place[stage] < len(queue):
                backward, number = queue[place[stage]]
                source = stage + 1 if backward else stage - 1
                came_s = 0.0
                if 0 <= source < stages:
                    if (backward, source, number) not in ended:
                        break
                    came_s = ended[backward, source, number] + message_s
                begin_s = max(free_s[stage], came_s)
                free_s[stage] = ended[backward, stage, number] = begin_s + times[stage][backward]
                spans.append(Span(stage, number, backward, begin_s, free_s[stage]))
                place[stage] += 1
    return Timeline(tuple(spans), stages)
