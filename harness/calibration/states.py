"""The one place where the state of a sweep changes: compare-and-set, and the live word."""

from __future__ import annotations

import logging
from typing import Any

from django.db import transaction
from django.utils import timezone

from harness.broker import publish_pool
from harness.calibration.holding import devices_release
from harness.calibration.models import OPEN, CalibrationRun, RunState
from harness.errors import fault_words

_log = logging.getLogger(__name__)
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


def run_break(run_id: str, error: Exception) -> None:
    """End a sweep that an unforeseen error stops, which it would at each later look; what it measured is kept."""
    run = CalibrationRun.objects.filter(pk=run_id, state__in=OPEN).first()
    if run is not None:
        told = f"It cannot get on: {fault_words(error)}. Start it again; if that fails too, control's log tells more."
        run_move(run, RunState.FAILED, message=told)


def run_tell(run: CalibrationRun) -> None:
    """Tell those who watch the pool that a sweep got on."""
    publish_pool("calibration", {"run": run.pk, "state": run.state, "measured": run.measured})
