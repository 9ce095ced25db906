"""Small pools over time: jobs come, are promised what is asked for, and run exactly as long as was told."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from scheduler.admit import admit
from scheduler.place import place
from tests.scheduler.pools import carry_out, hard_quota, held_by, job, node, pool, way


def small(seed, *, spans=False, limited=False, projects="pq"):
    """(jobs by when they come, pool, quotas): few cores, gangs and jobs of one process, each in one to two ways."""
    random = Random(seed)
    nodes = [node(f"n{number}", cpus=random.choice([2, 3, 4])) for number in range(random.randint(2, 3))]
    comers = [_comer(random, number, projects) for number in range(random.randint(3, 8))]
    names = [name for name in "pq" if random.random() < 0.7] if limited else []
    quotas = {name: hard_quota({"cpu": random.randint(2, 4)}) for name in names}
    return sorted(comers, key=lambda one: one.submitted_s), pool(*nodes, spans=spans), quotas


def _comer(random, number, projects):
    mode, work_s = random.choice(["single", "single", "sync"]), random.choice([50.0, 100.0, 200.0])
    widths = sorted({random.choice([1, 2, 2, 3, 4, 6]) for _ in range(random.choice([1, 1, 2]))})
    at_s = random.choice([0.0, 0.0, 10.0, 30.0, 60.0, 100.0]) + number / 100
    return job(
        f"j{number}",
        *(replace(way(width, run_s=work_s / width ** random.choice([0.7, 1.0])), mode=mode) for width in widths),
        at=at_s,
        project=random.choice(projects),
        deadline_s=at_s + random.choice([60.0, 120.0, 200.0, 400.0]) if random.random() < 0.7 else None,
        can_pause=random.random() < 0.5,
    )


def late(comers, view, *, policy, quotas):
    """(promised jobs that end after their deadline, how many were promised). Who comes is asked at once; a decision is
    made whenever a job comes or ends, or is planned to begin."""
    coming, jobs, now_s, starts, found, promised = list(comers), [], 0.0, [], set(), set()
    while coming or jobs:
        ends = [now_s + one.work_left / one.running.option.rate_per_s for one in jobs if one.running]
        next_s = min([*ends, *starts, *(one.submitted_s for one in coming[:1])], default=None)
        if next_s is None:
            break  # what is left can never run
        ended, left = _run(jobs, next_s - now_s)
        view, jobs, now_s = held_by(left, view, jobs), left, next_s
        found |= {one.job_id for one in ended if one.promised and now_s > one.deadline_s + 1e-6}
        while coming and coming[0].submitted_s <= now_s:
            new = coming.pop(0)
            asks = new.deadline_s is not None
            accepted = asks and admit(new, jobs, view, now_s, policy=policy, quotas=quotas).accepted
            jobs.append(replace(new, promised=accepted))
        decision = place(jobs, view, now_s, policy=policy, quotas=quotas)
        assert all(len(placed.device_ids) == placed.option.count for placed in decision.placements)
        starts = [start_s for start_s, _ in decision.expected.values() if start_s > now_s + 1e-6]
        jobs, view = carry_out(decision, jobs, view, now_s)
        promised |= {one.job_id for one in jobs if one.promised}
    return found | {one.job_id for one in jobs if one.promised}, len(promised)


def _run(jobs, for_s):
    """(jobs that have ended, the others)."""
    after = [
        replace(one, work_left=max(0.0, one.work_left - for_s * one.running.option.rate_per_s)) if one.running else one
        for one in jobs
    ]
    return [one for one in after if one.work_left <= 1e-9], [one for one in after if one.work_left > 1e-9]
