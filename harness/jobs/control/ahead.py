"""Data go to the nodes on which waiting jobs are going to start while they wait: no device stands idle for them then.

A node keeps a wish for `AHEAD_S` and is told again as long as the job waits. Nothing hangs on it: what did not arrive,
or went elsewhere, the attempt fetches itself.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from django.conf import settings

from harness.broker import task_send
from harness.jobs.control.data_ways import dataset_of
from harness.jobs.control.views import Facts
from harness.pool.services import node_queue
from scheduler.placing.foreseen import foreseen
from scheduler.types import Decision
from worker.transfer.datasets import AHEAD_S

SOON_S = 6 * 3600.0
"""A start that is expected later than that: until then much changes, and the room is of use to others."""
NODES_MOST = 8
"""So many nodes fetch ahead at once: they share the portal's link with those whose runs start."""
PER_NODE = 3
"""So many datasets are kept for waiting jobs on one node."""
AGAIN_S, CHANGED_S = AHEAD_S / 5, 5.0
"""A node is told again after so long; of a change sooner, but not with each tick."""
_told: dict[str, tuple[tuple[str, ...], float]] = {}
"""Node -> what this process told it, and when (monotonic)."""


def data_foreseen(facts: Facts, decision: Decision, starting: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Node with a cache -> datasets that it is to have, the most urgent first.

    `starting`: jobs that have their devices.
    """
    places = foreseen(facts.views, facts.pool, decision, starting=starting) if facts.caches else {}
    wished: dict[str, list[str]] = {name: [] for name in facts.caches}
    fetching: set[str] = set()
    for job_id, nodes in places.items():
        if not _is_soon(facts, decision, job_id):
            continue
        dataset = dataset_of(facts.jobs[job_id])
        for node in nodes:
            mine = wished.get(node)
            if mine is None or dataset in mine or len(mine) >= PER_NODE:
                continue
            if dataset not in facts.caches[node].datasets:
                if node not in fetching and len(fetching) >= NODES_MOST:
                    continue
                fetching.add(node)
            mine.append(dataset)
    return {node: tuple(mine) for node, mine in wished.items() if mine}


def _is_soon(facts: Facts, made: Decision, job_id: str) -> bool:
    """Where nobody can tell when it starts, that may be soon."""
    return made.expected.get(job_id, (facts.now_s, 0.0))[0] - facts.now_s < SOON_S


def data_send_ahead(wished: Mapping[str, tuple[str, ...]]) -> None:
    """Tell each node what it is to have, unless it was told a moment ago."""
    now_s = time.monotonic()
    for node in [node for node, (_, told_s) in _told.items() if now_s - told_s >= AGAIN_S]:
        del _told[node]
    for node, datasets in wished.items():
        before, told_s = _told.get(node, ((), -AGAIN_S))
        if now_s - told_s < CHANGED_S or before == datasets:
            continue
        folders = [str(settings.STORE.dataset(name).packed) for name in datasets]
        if task_send("node.preload", [folders], queue=node_queue(node), expires_s=AGAIN_S):
            _told[node] = (datasets, now_s)
