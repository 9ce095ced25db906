"""The one place where the state of a sweep changes: compare-and-set, and the live word."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from harness.broker import publish_pool
from harness.calibration.holding import devices_release
from harness.calibration.models import OPEN, CalibrationRun, RunState
from harness.database import passes_by_itself
from harness.errors import fault_told

_log = logging.getLogger(__name__)
STUCK_LIMIT = timedelta(minutes=15)
"""So long a sweep tries again what may pass by itself, such as a full disk."""
TRANSITIONS: dict[RunState, frozenset[RunState]] = {
    RunState.WAITING: frozenset({RunState.RUNNING, RunState.STOPPED, RunState.FAILED}),
    RunState.RUNNING: frozenset({RunState.FINISHED, RunState.STOPPED, RunState.FAILED}),
    RunState.FINISHED: frozenset(),
    RunState.STOPPED: frozenset(),
    RunState.FAILED: frozenset(),
}


def run_move(run: CalibrationRun, new: RunState, **fields: Any) -> bool:
    """Move a sweep on from the state it was read in. Returns False where another was faster."""
    old = RunState(run.state)
    if new not in TRANSITIONS[old]:
        raise ValueError(f"no sweep moves from {old} to {new}")
    if new not in OPEN:
        fields = {"ended_at": timezone.now(), "pending": {}, **fields}
    with transaction.atomic():
        if CalibrationRun.objects.filter(pk=run.pk, state=old).update(state=new, **fields) != 1:
            return False
        run.refresh_from_db()
        if new not in OPEN:
            devices_release(run)
        _log.info("calibration %s: %s -> %s %s", run.pk, old, new, run.message)
        run_tell(run)
    return True


def run_break(run_id: str, error: Exception) -> bool:
    """End a sweep that an unforeseen error stops, which it would at each later look; what it measured is kept.

    Returns False where the error may pass by itself, and has had no `STUCK_LIMIT` for it yet: the sweep goes on.
    """
    run = CalibrationRun.objects.filter(pk=run_id, state__in=OPEN).first()
    if run is None:
        return True
    since = run.stuck_since or timezone.now()
    if passes_by_itself(error) and abs(timezone.now() - since) <= STUCK_LIMIT:
        _log.warning("calibration %s cannot get on for now", run_id, exc_info=error)
        CalibrationRun.objects.filter(pk=run_id, stuck_since=None).update(stuck_since=since)
        return False
    fault = fault_told(_log, error, f"calibration {run_id} cannot get on")
    run_move(run, RunState.FAILED, message=f"It cannot get on: {fault}. Start it again.")
    return True


def run_gets_on(run: CalibrationRun) -> None:
    """Note that a sweep has taken a step."""
    if run.stuck_since is not None:
        run.stuck_since = None
        run.save(update_fields=["stuck_since"])


def run_tell(run: CalibrationRun) -> None:
    """Tell those who watch the pool that a sweep got on."""
    publish_pool("calibration", {"run": run.pk, "state": run.state, "measured": run.measured})
