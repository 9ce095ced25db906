"""Data, program and checkpoints go to the nodes on which waiting jobs are going to start while they wait: no device
stands idle for them then.

A node keeps a wish for `AHEAD_S` and is told again as long as the job waits. Nothing hangs on it: what did not arrive,
or went elsewhere, the attempt fetches itself.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from django.conf import settings

from harness.broker import task_send
from harness.jobs.control.data_ways import dataset_of
from harness.jobs.control.views import Facts
from harness.jobs.models import Checkpoint, Job
from harness.pool.services import node_queue
from scheduler.placing.foreseen import foreseen
from scheduler.types import Decision
from worker.transfer.folders import AHEAD_S

SOON_S = 6 * 3600.0
"""A start that is expected later than that: until then much changes, and the room is of use to others."""
NODES_MOST = 8
"""So many nodes fetch ahead at once: they share the portal's link with those whose runs start."""
PER_NODE = 3
"""For so many waiting jobs, with so many datasets, a node fetches ahead."""
AGAIN_S, CHANGED_S = AHEAD_S / 5, 5.0
"""A node is told again after so long; of a change sooner, but not with each tick."""
_told: dict[str, tuple[tuple[str, ...], float]] = {}
"""Node -> what this process told it, and when (monotonic)."""


def data_foreseen(facts: Facts, decision: Decision, starting: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Node with a cache -> folders of the store that it is to have, those of the most urgent job first.

    `starting`: jobs that have their devices.
    """
    places = foreseen(facts.views, facts.pool, decision, starting=starting) if facts.caches else {}
    soon = {job_id: nodes for job_id, nodes in places.items() if _is_soon(facts, decision, job_id)}
    return _Wishes(facts, {start.job_id: start.node for start in decision.placements}).made(soon)


class _Wishes:
    """Who is to have what, with the limits above kept. `firsts`: node of the first rank of those that have a place."""

    def __init__(self, facts: Facts, firsts: Mapping[str, str]) -> None:
        self._facts, self._firsts = facts, firsts
        self._datasets: dict[str, list[str]] = {name: [] for name in facts.caches}
        self._jobs: dict[str, list[Job]] = {name: [] for name in facts.caches}
        self._fetching: set[str] = set()

    def made(self, places: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """Node -> folders."""
        for job_id, nodes in places.items():
            job = self._facts.jobs[job_id]
            for node in nodes:
                has_room = node in self._jobs and len(self._jobs[node]) < PER_NODE
                if has_room and self._has_dataset(node, dataset_of(job)):
                    self._jobs[node].append(job)
        saved = _saved({job.pk for jobs in self._jobs.values() for job in jobs})
        return {node: tuple(self._folders(node, jobs, saved)) for node, jobs in self._jobs.items() if jobs}

    def _has_dataset(self, node: str, dataset: str) -> bool:
        """Whether it is, or can be made, one of those that a node is to have."""
        mine = self._datasets[node]
        if dataset not in mine:
            is_here = dataset in self._facts.caches[node].datasets
            if len(mine) >= PER_NODE or not (is_here or self._may_fetch(node)):
                return False
            mine.append(dataset)
        return True

    def _may_fetch(self, node: str) -> bool:
        if node in self._fetching or len(self._fetching) < NODES_MOST:
            self._fetching.add(node)
            return True
        return False

    def _folders(self, node: str, jobs: Sequence[Job], saved: Mapping[str, Sequence[str]]) -> list[str]:
        """Of the checkpoints a run's first node has need alone."""
        store, found = settings.STORE, []
        for job in jobs:
            paths, is_first = store.job(job.pk), self._firsts.get(job.pk, node) == node
            names = saved.get(job.pk, ()) if is_first else ()
            found += [store.dataset(dataset_of(job)).packed, paths.program]
            found += [Path(job.weights_dir)] if job.weights else []
            if names and self._may_fetch(node):
                # the one that it continues from first
                found += [paths.checkpoints / name for name in sorted(names, key=lambda name: name != job.resume_from)]
        return [*dict.fromkeys(map(str, found))]


def _saved(job_ids: Collection[str]) -> dict[str, list[str]]:
    """Job -> the checkpoints that its next attempt is given, the one that is farthest on first."""
    found: dict[str, list[str]] = {}
    rows = Checkpoint.objects.filter(job_id__in=job_ids, removed_at=None).order_by("-step")
    for job_id, name in rows.values_list("job_id", "name") if job_ids else ():
        found.setdefault(job_id, []).append(name)
    return found


def _is_soon(facts: Facts, made: Decision, job_id: str) -> bool:
    """Where nobody can tell when it starts, that may be soon."""
    return made.expected.get(job_id, (facts.now_s, 0.0))[0] - facts.now_s < SOON_S


def data_send_ahead(wished: Mapping[str, tuple[str, ...]]) -> None:
    """Tell each node what it is to have, unless it was told a moment ago."""
    now_s = time.monotonic()
    for node in [node for node, (_, told_s) in _told.items() if now_s - told_s >= AGAIN_S]:
        del _told[node]
    for node, folders in wished.items():
        before, told_s = _told.get(node, ((), -AGAIN_S))
        if now_s - told_s < CHANGED_S or before == folders:
            continue
        if task_send("node.preload", [list(folders)], queue=node_queue(node), expires_s=AGAIN_S):
            _told[node] = (folders, now_s)
