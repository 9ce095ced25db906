"""When one node alone has the devices of a gang that may not lie on several, where other gangs may.

There a plan counts the devices of all nodes of a level together: it would have such a gang begin on what lies apart.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import replace
from functools import cached_property

from scheduler.placing.ledger import Ledger
from scheduler.types import JobView, Option, PoolView


class Alone:
    """By what goes on and what is reserved; who else waits is not counted."""

    def __init__(self, jobs: Sequence[JobView], pool: PoolView, now_s: float, going: Container[str]) -> None:
        """`jobs`: those that are asked for as well; `going`: those that keep what they hold to their end."""
        self._jobs, self._pool, self._now_s, self._going = jobs, pool, now_s, going

    def from_s(self, job: JobView, option: Option) -> float:
        """When it can begin by this option; long ago where nothing is in the way, infinite where nobody can tell."""
        pool = self._pool
        if option.count == 1 or not pool.spans_nodes or option.may_span(job.minimum_sandbox_level, pool.span_level):
            return -math.inf
        end_s = self._now_s + job.left_high_s(option) + self._ledger.data_most_s(job, option)
        if self._ledger.fits_now(job, option, end_s) is not None:
            return -math.inf
        return self._ledger.soonest(job, option)[0]

    @cached_property
    def _ledger(self) -> Ledger:
        """Of nodes by themselves; few ask for it."""
        held = [job if job.job_id in self._going else _gone(job) for job in self._jobs]
        return Ledger(held, replace(self._pool, spans_nodes=False), self._now_s)


def _gone(job: JobView) -> JobView:
    return replace(job, running=replace(job.running, leaving=True)) if job.running is not None else job
