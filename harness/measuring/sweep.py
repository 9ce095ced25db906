"""A sweep gets on: one step at a time, from the database alone, so that a restart of anything loses one point at most.

One point is out at a time: two at once would measure each other. Between two points the model is fitted anew.
"""

from __future__ import annotations

import logging
import math
import time
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from harness.broker import task_send_on_commit
from harness.calibration.exchange import row_of
from harness.calibration.holding import devices_hold, run_devices
from harness.calibration.models import OPEN, CalibrationPointRow, CalibrationRun, DeviceModelRow, RunState
from harness.calibration.plans import Planned, next_point, others_measured, points_known, run_plan
from harness.calibration.states import run_break, run_gets_on, run_move, run_tell
from harness.database import DATABASE_AWAY
from harness.errors import HarnessError, fault_told
from harness.jobs.control.telemetry import number_of
from harness.jobs.control.usage import measurement_use_write
from harness.measuring.idle import devices_idle
from harness.measuring.links import link_read, link_store
from harness.measuring.requests import (
    LINK,
    LINK_RANKS,
    NODE_BUDGET_S,
    answer_read,
    link_request_of,
    request_make,
    request_of,
    requests_remove,
)
from harness.plain import text_plain
from harness.pool.models import DeviceKind, NodeState
from harness.pool.services import node_queue
from scheduler.estimation.power_table import WATTS_MAX

ANSWER_LIMIT_S = NODE_BUDGET_S + 60.0
"""A node that has not answered by then is asked again: it gives up by itself before."""
SENDS_MAX = 2
FIT_FIRST, FIT_GROWTH = 6, 1.5
"""Points of the first fit, and how many times more there are at the next: fitting takes a part of the time only."""
USE_NAME = "Calibration of devices"
"""Of what it used, among the jobs, people and projects."""
FIT_LIMIT = timedelta(minutes=15)
"""A fit that takes longer has died with its process."""
_log = logging.getLogger(__name__)


def sweep_before(run: CalibrationRun) -> CalibrationRun | None:
    """Another sweep of its node that has to end first: two at once would measure each other."""
    others = CalibrationRun.objects.filter(node_name=run.node_name, state__in=OPEN).exclude(pk=run.pk)
    first = Q(state=RunState.RUNNING) | Q(created_at__lt=run.created_at)
    return others.filter(first).order_by("created_at").first() if run.state == RunState.WAITING else None


def _planned(run: CalibrationRun, point_id: str) -> Planned | None:
    return next((planned for planned in run_plan(run) if planned.point_id == point_id), None)


def calibrations_advance() -> int:
    """Have every open sweep take its next step; return how many are open."""
    open_runs = list(CalibrationRun.objects.filter(state__in=OPEN).values_list("pk", flat=True))
    for run_id in open_runs:
        try:
            run_advance(run_id)
        except DATABASE_AWAY:
            raise
        except Exception as error:
            # One that cannot get on must not keep the others, and what finished jobs teach, from being seen to.
            if run_break(run_id, error):
                requests_remove(run_id)
    return len(open_runs)


def run_advance(run_id: str) -> None:
    """Take the next step of a sweep, if it is time for one. Safe to call at any time, from anywhere, twice."""
    with transaction.atomic():
        run = CalibrationRun.objects.select_for_update(of=("self",)).select_related("node").filter(pk=run_id).first()
        if run is None or run.state not in OPEN:
            return
        run_gets_on(run)  # undone with the rest where it does not
        if run.node is None:
            run_move(run, RunState.FAILED, message="The node left the pool.")
            return
        before = sweep_before(run)
        if before is not None:
            _note(run, f"Waits for the calibration of {before.model_name or before.kind} on {run.node_name} to end.")
            return
        devices = run_devices(run)
        if not devices:
            run_move(run, RunState.FAILED, message=f"{run.node_name} no longer has a {run.model_name}.")
            return
        try:
            devices_hold(run)
        except HarnessError as error:
            run_move(run, RunState.STOPPED, message=f"Its devices are no longer free: {error.message}")
            return
        if run.node.state == NodeState.DOWN:
            _note(run, f"Waits for {run.node_name}: it does not answer.")
        elif any(device.away_since for device in devices):
            _note(run, f"Waits for a device of {run.node_name} that the node does not see.")
        elif run.state == RunState.WAITING:
            _begin(run)
        elif _is_busy(run):
            return
        elif devices_idle(run):
            _next(run)
        else:
            # Control was away for longer than its hold reached, and a job came.
            _note(run, f"Waits for the jobs that run on {run.node_name} to end; no new one starts there.")


def _begin(run: CalibrationRun) -> None:
    if not devices_idle(run):
        _note(run, f"Waits for the jobs that run on {run.node_name} to end; no new one starts there.")
        return
    run_move(run, RunState.RUNNING, running_at=timezone.now(), message="")
    task_send_on_commit("control.calibrate")


def _is_busy(run: CalibrationRun) -> bool:
    """Whether a fit or a point is under way; a point without an answer is sent again, and given up in the end."""
    if run.fitting_since is not None:
        if abs(timezone.now() - run.fitting_since) < FIT_LIMIT:
            return True
        run.fitting_since = None
        run.save(update_fields=["fitting_since"])
    for point_id, sent in dict(run.pending).items():
        # A message from the time to come was sent before the clock was set back.
        quiet_s = abs(time.time() - sent["sent_s"])
        if quiet_s < ANSWER_LIMIT_S:
            return True
        planned = _planned(run, point_id)
        if sent["sends"] < SENDS_MAX and point_id == LINK:
            _send_link(run, sends=sent["sends"] + 1)
            return True
        if sent["sends"] < SENDS_MAX and planned is not None:
            _send(run, planned, sends=sent["sends"] + 1)
            return True
        _refuse(run, point_id, sent["family"], "The node did not answer.", ANSWER_LIMIT_S)
    return False


def _next(run: CalibrationRun) -> None:
    """Fit, end, or send the next point."""
    if fit_is_due(run):
        run.fitting_since = timezone.now()
        run.save(update_fields=["fitting_since"])
        task_send_on_commit("control.calibration_fit", [run.kind, run.model_name, run.pk])
        return
    if _link_is_due(run):
        _send_link(run, sends=1)
        return
    planned = None if run.used_s >= run.budget_s else next_point(run)
    if planned is None:
        _end(run)
    else:
        _send(run, planned, sends=1)


def _link_is_due(run: CalibrationRun) -> bool:
    """Once per sweep, where there are two devices to join."""
    if len(run_devices(run)) < LINK_RANKS or any(item["point_id"] == LINK for item in run.refused):
        return False
    row = DeviceModelRow.objects.filter(kind=run.kind, model_name=run.model_name).first()
    if row is None or not row.link:
        return True
    # Another sweep of such devices may have timed theirs meanwhile: by turns they would do so again and again.
    is_older = datetime.fromisoformat(row.link["measured_at"]) < run.created_at
    return bool(row.link.get("run") != run.pk and is_older)


def fit_is_due(run: CalibrationRun) -> bool:
    """After the first few points, then each time there are half as many again, and at the end."""
    if run.measured <= run.fitted_points:
        return False
    enough = math.ceil(run.fitted_points * FIT_GROWTH) if run.fitted_points else FIT_FIRST
    return run.measured >= enough or run.used_s >= run.budget_s or next_point(run) is None


def _end(run: CalibrationRun) -> None:
    all_done = next_point(run) is None
    message = "Every point of the sweep is measured." if all_done else "The budget is used up."
    state = RunState.FINISHED
    if run.refused and not run.measured:
        problem = run.refused[-1]["problem"]
        if all_done and others_measured(run):
            message = f"Other sweeps measured all but what could not be measured here: {problem}"
        else:
            state, message = RunState.FAILED, f"No point could be measured: {problem}"
    if run_move(run, state, message=message) and run.measured:
        # Its last fit is made by now.
        task_send_on_commit("control.estimates_renew")
    requests_remove(run.pk)


def _send(run: CalibrationRun, planned: Planned, *, sends: int) -> None:
    """Write the point's program and have the node measure it."""
    try:
        request_make(run.pk, planned)
    except (HarnessError, OSError) as error:
        doing = f"calibration {run.pk}: the program of {planned.point_id} cannot be made"
        told = error.message if isinstance(error, HarnessError) else fault_told(_log, error, doing)
        _refuse(run, planned.point_id, planned.family, f"The program could not be made: {told}", 0.0)
        task_send_on_commit("control.calibrate")
        return
    _ask(run, planned.point_id, planned.family, request_of(run, planned), sends)


def _send_link(run: CalibrationRun, *, sends: int) -> None:
    _ask(run, LINK, "", link_request_of(run), sends)


def _ask(run: CalibrationRun, point_id: str, family: str, request: dict[str, Any], sends: int) -> None:
    run.pending = {point_id: {"family": family, "sent_s": time.time(), "sends": sends}}
    run.save(update_fields=["pending"])
    task_send_on_commit("node.measure", [request], queue=node_queue(run.node_name), expires_s=ANSWER_LIMIT_S)


def point_measured(report: dict[str, Any], run_id: str, point_id: str) -> None:
    """Take in a node's answer. One that comes twice, late, or for a sweep that has ended counts not at all."""
    with transaction.atomic():
        run = CalibrationRun.objects.select_for_update().filter(pk=run_id, state__in=OPEN).first()
        sent = run.pending.get(point_id) if run else None
        if run is None or sent is None:
            return
        # The budget is for points: the link is timed once, whatever it takes. Nor is it for a clock that was set.
        busy_s = min(abs(time.time() - sent["sent_s"]), ANSWER_LIMIT_S)
        took_s = 0.0 if point_id == LINK else busy_s
        _use_write(run, point_id, busy_s, report)
        try:
            _keep(run, point_id, report)
        except ValueError as error:
            _refuse(run, point_id, sent["family"], str(error), took_s)
        else:
            _answered(run, point_id, took_s)
        task_send_on_commit("control.calibrate")


def _use_write(run: CalibrationRun, point_id: str, busy_s: float, report: dict[str, Any]) -> None:
    """Count what the devices of a point did as work, whatever came of it."""
    planned = _planned(run, point_id)
    count = max(planned.ranks, planned.threads if run.kind == DeviceKind.CPU else 1) if planned else LINK_RANKS
    now, watts, devices = timezone.now(), number_of(report.get("power_w")), run_devices(run)[:count]
    measurement_use_write(
        devices,
        name=USE_NAME,
        since=now - timedelta(seconds=busy_s),
        until=now,
        watts=watts if watts is not None and 0 < watts <= WATTS_MAX * len(devices) else None,
    )


def _keep(run: CalibrationRun, point_id: str, report: dict[str, Any]) -> None:
    """Keep what was measured. Raises `ValueError` for what is no measurement."""
    if point_id == LINK:
        link_store(run, link_read(report))
        return
    planned = _planned(run, point_id)
    if planned is None:
        raise ValueError("The plan of the sweep has changed meanwhile.")
    row = row_of(answer_read(report, run, planned), run=run)
    CalibrationPointRow.objects.filter(kind=row.kind, model_name=row.model_name, point_id=point_id).delete()
    row.save()
    run.measured += 1


def _refuse(run: CalibrationRun, point_id: str, family: str, problem: str, took_s: float) -> None:
    """Count a point that gave nothing usable; it is not tried again in this sweep."""
    _log.warning("calibration %s: %s refused: %s", run.pk, point_id, problem)
    run.refused = [*run.refused, {"point_id": point_id, "family": family, "problem": text_plain(problem)[:500]}]
    _answered(run, point_id, took_s)


def _answered(run: CalibrationRun, point_id: str, took_s: float) -> None:
    run.pending = {key: value for key, value in run.pending.items() if key != point_id}
    run.used_s += took_s
    known = points_known(run) & {planned.point_id for planned in run_plan(run)}
    run.before = max(run.before, len(known) - run.measured)
    run.message = ""
    run.save(update_fields=["pending", "used_s", "measured", "before", "refused", "message"])
    run_tell(run)


def _note(run: CalibrationRun, message: str) -> None:
    if run.message != message:
        run.message = message
        run.save(update_fields=["message"])
        run_tell(run)
