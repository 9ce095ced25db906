"""The first node of an elastic run is lost: the copy that another of its nodes saved becomes the newest checkpoint.

Once control has called the first node lost (`survivors.first_lose`) it asks the others to save, and waits for a while.
What they save lies in folders of their own, and counts for nothing until the transaction that ends the attempt takes
it: once, of the node that got farthest, where it is farther on than all that the store has.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings

from harness.jobs.control.parts import first_lost_at, nodes_of
from harness.jobs.control.placing import checkpoint_exchange
from harness.jobs.control.saved import Saved, checkpoint_is_whole, checkpoints_add, saved_read
from harness.jobs.models import Checkpoint, Job, JobAttempt
from harness.jobs.states import job_note
from harness.store import UnsafePath, folder_beneath
from worker.elastic.patience import RESCUE_MOST_S
from worker.fence import fence_raise
from worker.plan import RunPaths
from worker.transfer.tree import CHECKPOINT_NAME

RETURN_S = 120.0
WAIT = timedelta(seconds=RESCUE_MOST_S + RETURN_S)
"""So long after the loss other nodes may save and return what they hold; then they are ended.

They end by themselves, mostly in seconds. Only where steps take minutes does it take longer until they stand still.
"""
OFFERED_MAX = 4
_log = logging.getLogger(__name__)


def rescue_awaited(attempt: JobAttempt, now: datetime) -> bool:
    """Whether the nodes that are left may still save what they hold."""
    lost_at = first_lost_at(attempt)
    return lost_at is not None and abs(now - lost_at) < WAIT


def offered_read(told: Any) -> list[str]:
    """Names in the word of a node that has ended."""
    names = told if isinstance(told, list) else []
    return [name for name in names[:OFFERED_MAX] if isinstance(name, str) and CHECKPOINT_NAME.fullmatch(name)]


def rescue_take(job: Job, attempt: JobAttempt, offered: Mapping[str, Sequence[str]]) -> None:
    """Make what a node saved checkpoints of the job. `offered`: names, by node.

    Call it in the transaction that ends the attempt, with the job locked. Done again after that was rolled back, it
    finds the files where they are to be.
    """
    if first_lost_at(attempt) is None:
        return
    first, *others = nodes_of(attempt)
    root = settings.STORE.job(job.pk).root
    found = {node: saved for node in others if (saved := _saved(root, node, offered.get(node, ())))}
    node = max(found, key=lambda name: found[name][-1].step, default=None)
    if node is None or found[node][-1].step <= _farthest(job, attempt):
        return
    newest = found[node][-1]
    known = set(Checkpoint.objects.filter(job=job).values_list("name", flat=True)) - {newest.name}
    taken = [one for one in found[node] if one.name not in known]
    try:
        _place(root, node, [one.name for one in taken], attempt.number + 1)
    except (OSError, UnsafePath) as error:
        _log.warning("job %s: what %s saved cannot be taken: %s", job.pk, node, error)
        return
    checkpoints_add(job, attempt, taken)
    text = f"The node {first} was lost; {node} has saved the run as it was after step {newest.step:,}."
    job_note(job, "note", text, data={"step": newest.step, "checkpoint": newest.name})


def _saved(root: Path, node: str, names: Sequence[str]) -> list[Saved]:
    """Those that are whole, the newest last."""
    found = (saved_read(name, RunPaths(root, node), RunPaths(root)) for name in names)
    return sorted((one for one in found if one is not None), key=lambda saved: saved.step)


def _farthest(job: Job, attempt: JobAttempt) -> int:
    """Step of the newest whole checkpoint that the attempt could go on from; -1 without any."""
    rows = Checkpoint.objects.filter(job=job, removed_at=None).order_by("-step")
    if job.resume_from and attempt.run_plan.resume_from == job.resume_from:
        start = Checkpoint.objects.filter(job=job, name=job.resume_from).first()
        rows = rows.filter(step__lte=start.step) if start else rows
    paths: RunPaths = settings.STORE.job(job.pk)
    return next((row.step for row in rows if checkpoint_is_whole(paths, row.name)), -1)


def _place(root: Path, node: str, names: Sequence[str], token: int) -> None:
    """Move them to the job's checkpoints, where from now on no attempt before `token` writes. Raises `OSError`,
    `UnsafePath`."""
    paths, part = RunPaths(root), RunPaths(root, node)
    source_path, place_path = (str(one.checkpoints.relative_to(root)) for one in (part, paths))
    with folder_beneath(root, source_path) as source, folder_beneath(root, place_path) as place:
        # A first node that was only cut off, and sees the store, must neither add to these checkpoints nor purge them.
        fence_raise(place, token)
        for name in names:
            if checkpoint_is_whole(paths, name):
                continue  # moved before, or the lost node had saved it itself
            checkpoint_exchange(place, name, name, new_in=source)
        os.fsync(place)
