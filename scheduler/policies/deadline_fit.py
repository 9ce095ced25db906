"""Deadlines that are not promised: smallest share first says who is let in, not who has to start first.

A small job that could wait takes the devices that a larger one needs now, which then does not fit. So one that does
not fit is planned once more, together with all that do, by when each has to start; that plan is taken if it has room
for all of them.
"""

from __future__ import annotations

from scheduler.policies.deadline_pass import DeadlinePass

MOST_LOOKS = 3
"""So many of those that do not fit are tried in a decision, the smallest first."""
MOST_PLANNED = 500
"""At most so many jobs are planned again for that in a decision: each takes about .05 ms."""


def roomiest(found: DeadlinePass) -> DeadlinePass:
    """`found`, or a pass in which more deadlines fit, and all that did."""
    planned = 0
    for job in found.left[:MOST_LOOKS]:
        wanted = {one.job_id for one in found.fitting}
        if job.job_id in wanted:
            continue
        planned += found.size
        if planned > MOST_PLANNED:
            break
        other = found.lined_up([*found.fitting, job])
        if other.has_room_for(wanted | {job.job_id}):
            found = other
    return found
