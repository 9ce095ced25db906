"""In what order `deadline_energy` plans the promised jobs: by their deadlines, unless that crowds one out.

Earliest deadline first is not always an order that keeps all promises though there is one: jobs want several devices,
or others than their neighbours, and each was promised beside those before it, by whatever deadlines. Then are tried:

1. Who is crowded out goes first, together with who was crowded out before.
2. The newest job goes last, the others before it in the orders that would be tried without it; then the two newest, and
   so on. So a job that is promised when it is submitted, beside all others, takes its promise from none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from scheduler.policies.deadline_pass import DeadlinePass
from scheduler.types import JobView

MOST_FIRST = 3
"""So often those that are crowded out are put first."""
MOST_PLANNED = 1_000
"""At most so many promises are planned in other orders, in all of them together: each takes about .05 ms."""

Made = Callable[[Mapping[str, int]], DeadlinePass]
"""A pass by the turns of some jobs."""


def best_order(jobs: Sequence[JobView], found: DeadlinePass, made: Made) -> DeadlinePass:
    """`found`, where promises go by their deadlines, or the first in another order that crowds fewer out."""
    if not found.crowded_out:
        return found
    promised = sorted((job for job in jobs if job.promised), key=lambda job: (job.submitted_s, job.job_id))
    best = found
    for other in islice(_others(promised, found, made), MOST_PLANNED // len(promised)):
        if len(other.crowded_out) < len(best.crowded_out):
            best = other
        if not best.crowded_out:
            break
    return best


def _others(promised: Sequence[JobView], found: DeadlinePass, made: Made) -> Iterator[DeadlinePass]:
    """Other orders than that of `found`; `promised`: the newest last."""
    yield from _with_first(found, {}, made)
    for count in range(1, len(promised)):
        last = {job.job_id: turn for turn, job in enumerate(promised[-count:], start=1)}
        other = made(last)
        yield other
        yield from _with_first(other, last, made)


def _with_first(found: DeadlinePass, last: Mapping[str, int], made: Made) -> Iterator[DeadlinePass]:
    """Orders in which crowded out jobs go first, unless they are among the last."""
    turns = dict(last)
    for _ in range(MOST_FIRST):
        crowded = found.crowded_out.difference(turns)
        if not crowded:
            return
        turns |= dict.fromkeys(crowded, -1)
        found = made(turns)
        yield found
