"""What a node answers to a probe: taken in, doubted where it cannot be, looked at once more, and kept.

A second look is made on the same device, which stays kept meanwhile; there is no third.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from django.db import transaction
from django.utils import timezone

from harness.broker import task_send_on_commit
from harness.calibration.known import device_model
from harness.datasets.selectors import dataset_profile
from harness.errors import HarnessError
from harness.estimates.models import AskState, ProbeRow
from harness.estimates.probes import (
    AGAIN,
    ANSWER_LIMIT_S,
    PREFIX,
    folder_of,
    is_late,
    probe_send,
    request_id,
)
from harness.estimates.tried import batch_size
from harness.jobs.control.usage import measurement_use_write
from harness.jobs.models import Job
from harness.plain import plain
from harness.pool.models import Reservation
from harness.pool.reservations import reservation_prolong, reservation_release
from harness.pool.services import node_queue
from scheduler.estimation.doubt import is_far, is_uneven
from scheduler.estimation.power_table import WATTS_MAX
from scheduler.estimation.probe import Probe
from scheduler.estimation.values import Allocation
from scheduler.offers.values import allocation_from
from scheduler.workload import COMPRESSIONS, OpClass, Operator, Workload
from worker.trees import tree_remove

USE_NAME = "Steps tried before a run"
"""Of what it used, among the jobs."""
PEAK_BYTES_MOST = 1 << 50
"""No host has as much."""
SUMS = ("gradient_bytes", "step_messages")
SUM_BYTES_MOST = 1 << 50
ROW_FIGURES = ("evaluation_row_s", "load_row_s", "load_once_s")
CALLED_OFF = "called_off"
"""Code of the problem of a probe that was ended, not made."""
_CALLED_OFF = {
    "code": CALLED_OFF,
    "message": "No job waited for these steps any more: it had started, or was cancelled or deleted.",
    "hint": "A draft, or a job that has not started, can ask again; clone one that has started.",
}
_LATE = {"code": "no_answer", "message": "No node answered in time.", "hint": "Check that it is up, then ask again."}


def probe_done(report: dict[str, Any]) -> ProbeRow | None:
    """Take in a node's answer to our `node.measure`; one that comes twice counts once.

    None where it is of no probe that waits, or is not believed at once: then a second look follows.
    """
    told_of = str(report.get("request_id", ""))
    pk = told_of.removeprefix(PREFIX).removesuffix(AGAIN)
    probe = ProbeRow.objects.select_related("inspection").filter(pk=pk, state=AskState.WAITING).first()
    if probe is None or told_of != request_id(probe):
        return None
    try:
        report = plain(report)
    except ValueError:
        report = {}
    try:
        measured = _measured(report, allocation_from(probe.allocation), node=probe.node_name)
    except ValueError as error:
        problem = report.get("problem")
        told = problem if isinstance(problem, dict) else {"code": "bad_answer", "message": str(error), "hint": ""}
        return _end(probe, {"state": AskState.FAILED, "problem": told}, has_run=True)
    fields: dict[str, Any] = {
        "state": AskState.DONE,
        "step_s": list(measured.step_s),
        "peak_bytes": measured.peak_bytes,
        "power_w": measured.power_w,
        "row_s": {name: value for name in ROW_FIGURES if (value := getattr(measured, name))},
    }
    fields |= _told_workload(report, probe) | {"sums": _told_sums(report)}
    if not probe.first_look and _is_doubtful(probe, measured) and _look_again(probe, fields):
        return None
    return _end(probe, fields, has_run=True)


def _look_again(probe: ProbeRow, fields: Mapping[str, Any]) -> bool:
    """Have the same steps made once more. Returns False where its device cannot be kept for that."""
    now = timezone.now()
    with transaction.atomic():
        held = _kept_on(probe, now, limit_s=ANSWER_LIMIT_S)
        if held is None or held.device is None:
            return False
        rows = ProbeRow.objects.filter(pk=probe.pk, state=AskState.WAITING, first_look={})
        if rows.update(first_look=dict(fields), sent_at=now):
            _use_write(probe, held, now, fields["power_w"])
            probe.refresh_from_db()
            probe_send(probe, held.device, probe.inspection.minimum_sandbox_level)
    return True


def _is_doubtful(probe: ProbeRow, measured: Probe) -> bool:
    """Whether a first look is not believed at once. Of a program that nobody could read only its own steps tell."""
    if is_uneven(measured):
        return True
    body = probe.inspection.workload
    if not body:
        return False
    return is_far(measured, Workload.from_dict(body), device_model(probe.kind, probe.model_name))


def _kept_on(probe: ProbeRow, now: datetime, *, limit_s: float) -> Reservation | None:
    """Keep its device for so long again; None where it is kept no more, or for somebody else soon."""
    held = Reservation.objects.select_related("device__node", "by").filter(
        pk=probe.reservation, cancelled_at=None, ends_at__gt=now
    )
    kept = held.first()
    if kept is None or kept.device is None:
        return None
    try:
        reservation_prolong(kept, ends_at=now + timedelta(seconds=limit_s), within=probe.project)
    except HarnessError:
        return None
    return kept


def _both(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of the row after two looks: the shorter one counts; where the second told nothing, the first does."""
    if second.get("state") != AskState.DONE:
        return dict(first)
    shorter, longer = sorted((first, second), key=lambda look: median(look["step_s"]))
    peaks = [look["peak_bytes"] for look in (first, second) if look["peak_bytes"]]
    return {**shorter, "left_out_s": longer["step_s"], "peak_bytes": max(peaks, default=None)}


def _use_write(probe: ProbeRow, held: Reservation, until: datetime, watts: float | None) -> None:
    """Keep what its device did since the last look was asked for. `watts`: as its meter told."""
    if held.device is not None:
        measurement_use_write(
            [held.device], name=USE_NAME, since=probe.sent_at, until=until, by=held.by, project=probe.project,
            watts=watts,
        )  # fmt: skip


def _end(probe: ProbeRow, fields: Mapping[str, Any], *, has_run: bool) -> ProbeRow:
    now, watts = timezone.now(), fields.get("power_w")
    if probe.first_look:
        fields = _both(probe.first_look, fields)
    with transaction.atomic():
        if ProbeRow.objects.filter(pk=probe.pk, state=AskState.WAITING).update(**fields, finished_at=now):
            for held in Reservation.objects.filter(pk=probe.reservation).select_related("device__node", "by"):
                if has_run:
                    _use_write(probe, held, now, watts)
                reservation_release(held)
    tree_remove(folder_of(probe).root)
    probe.refresh_from_db()
    return probe


def _measured(report: Mapping[str, Any], allocation: Allocation, *, node: str) -> Probe:
    """Raises `ValueError`."""
    steps = report.get("step_s")
    if report.get("problem") or not isinstance(steps, list) or not steps:
        raise ValueError("The node measured nothing.")
    peak, watts = _above_0(report.get("peak_bytes")), _above_0(report.get("power_w"))
    try:
        return Probe(
            allocation=allocation,
            node=node,
            step_s=tuple(float(value) for value in steps),
            peak_bytes=peak if peak is not None and peak < PEAK_BYTES_MOST else None,
            power_w=watts if watts is not None and watts <= WATTS_MAX else None,
            evaluation_row_s=_above_0(report.get("evaluation_row_s")),
            load_row_s=_above_0(report.get("load_row_s")),
            load_once_s=_above_0(report.get("load_once_s")),
        )
    except TypeError as error:
        raise ValueError(f"The node's answer is not a measurement: {error}") from error


def _above_0(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 else None


def _told_workload(report: Mapping[str, Any], probe: ProbeRow) -> dict[str, Any]:
    """As the node read it, which saw no more rows of a step than were tried; the run has all of them."""
    try:
        told = Workload.from_dict(report["workload"])
        return {"workload": replace(told, global_batch_size=probe.batch_size or told.global_batch_size).to_dict()}
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}


def _told_sums(report: Mapping[str, Any]) -> dict[str, int]:
    """What ranks add up; empty where the node does not tell, or tells what cannot be."""
    found = {name: report.get(name) for name in SUMS}
    told = {name: value for name, value in found.items() if type(value) is int and 0 <= value < SUM_BYTES_MOST}
    return told if len(told) == len(SUMS) else {}


def opaque_workload(job: Job, sums: Mapping[str, int]) -> Workload:
    """A stand-in for a program of which nothing but its step time is known, and what its ranks add up: rows, epochs,
    and one nameless operator."""
    spec = job.resolved.get("spec") or {}
    split, training = (spec.get("data") or {}).get("split") or {}, spec.get("training") or {}
    rows = max(1, dataset_profile(job.dataset).rows or 1)
    held_out = min(rows - 1, round(rows * (float(split.get("validation") or 0) + float(split.get("test") or 0))))
    size, sent_in = batch_size(job), training.get("compression")
    return Workload(
        batch_size=size, operators=(Operator(op=OpClass.OTHER, flops=1e6, read_bytes=1e6, write_bytes=1e6),),
        parameters=0, parameter_bytes=0, optimizer_bytes=0, activation_bytes=1e6,
        gradient_bytes=sums.get("gradient_bytes", 0), step_messages=sums.get("step_messages", 0),
        transient_bytes=1e6, data_bytes=0, fixed_parameters_ops=0, train_rows=rows - held_out,
        evaluated_rows=held_out, epochs=int(training.get("epochs") or 1), global_batch_size=size,
        compression=sent_in if sent_in in COMPRESSIONS else "none",
    )  # fmt: skip


def probe_complete(probe: ProbeRow, job: Job) -> None:
    """Give a probe of a program that nobody can read a workload of its own, so that it can be priced where it ran, and
    on several such devices."""
    if probe.state == AskState.DONE and probe.workload is None and probe.inspection.workload is None:
        ProbeRow.objects.filter(pk=probe.pk).update(workload=opaque_workload(job, probe.sums).to_dict(), opaque=True)
        probe.refresh_from_db()


def probe_expire(probe: ProbeRow) -> None:
    """Let one that nobody answered fail."""
    if is_late(probe):
        _end(probe, {"state": AskState.FAILED, "problem": _LATE}, has_run=False)


def probe_call_off(probe: ProbeRow) -> None:
    """End one that nobody waits for any more: its device is free, and its node drops it."""
    with transaction.atomic():
        # A second look may have begun since it was read: it is that one that the node then has to drop.
        now = ProbeRow.objects.select_for_update().filter(pk=probe.pk, state=AskState.WAITING).first()
        if now is None:
            return
        task_send_on_commit("node.measure_stop", [request_id(now)], queue=node_queue(now.node_name))
        _end(now, {"state": AskState.FAILED, "problem": _CALLED_OFF}, has_run=True)
