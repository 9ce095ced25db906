"""A few real steps of a program on an idle device: they refine its estimate, and stand in where it cannot be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from harness.accounts.access import require
from harness.accounts.models import Project, Role, User
from harness.broker import publish_job, task_send_on_commit
from harness.datasets.selectors import dataset_profile
from harness.errors import Conflict, Invalid, Unavailable
from harness.estimates.inspection import content_key
from harness.estimates.models import AskState, Inspection, ProbeRow
from harness.jobs import programs
from harness.jobs.control.turn import facts_change
from harness.jobs.control.usage import measurement_use_write
from harness.jobs.models import Allocation as Held
from harness.jobs.models import Job
from harness.jobs.services import minimum_sandbox_level
from harness.plain import plain
from harness.pool.models import Device, DeviceKind, NodeState, Quota, Reservation
from harness.pool.reservations import reservation_hold, reservation_release
from harness.pool.services import node_queue
from scheduler.estimation.estimate import Probe
from scheduler.estimation.values import Allocation
from scheduler.kinds import real_name
from scheduler.offers.values import allocation_from
from scheduler.workload import OpClass, Operator, Workload
from worker.plan import RunPaths
from worker.sandbox import tree_remove

PREFIX = "probe-"
"""Of the ids of our requests; other answers to `node.measure` belong to calibration."""
PURPOSE = "A few steps of a job that has not started"
"""Everybody reads it, also who does not see the job."""
USE_NAME = "Steps tried before a run"
"""Of what it used, among the jobs."""
STEPS = 3
PEAK_BYTES_MOST = 1 << 50
"""No host has as much."""
ROW_FIGURES = ("evaluation_row_s", "load_row_s")
ANSWER_LIMIT_S = 240.0
_LATE = {"code": "no_answer", "message": "No node answered in time.", "hint": "See whether it is up, and ask again."}

Key = tuple[str, str]


def probe_request(*, user: User, job: Job, inspection: Inspection, kind: str = "", model_name: str = "") -> ProbeRow:
    """Have an idle device make a few real steps of a draft's program; nothing else starts there meanwhile.

    Raises `NotFound`, `Forbidden`, `Invalid`, `Conflict` (the program is another by now), `Unavailable` (no device of
    that kind is idle).
    """
    require(user, job.project, Role.MEMBER)
    if kind and kind not in DeviceKind.values:
        raise Invalid(f"There is no kind of device {kind[:40]!r}.", field="kind", hint="Take cpu or cuda.")
    running = inspection.probes.filter(state=AskState.WAITING).first()
    if running is not None and not _is_late(running):
        return running
    files = programs.program_of(settings.STORE.job(job.pk)).files
    if content_key(files, job.dataset_sha256 or job.dataset.sha256) != inspection.key:
        # What one program takes must never be kept as what another takes.
        raise Conflict(
            "The program was changed since this offer was made.", code="offer_stale", hint="Ask for a new offer first."
        )
    with transaction.atomic():
        # Nothing that is being decided on the facts before this starts on the device that is taken here.
        facts_change()
        device = idle_device(job, kind, model_name)
        allocation = Allocation(
            kind=device.kind, model_name=device.model_name, count=1, mode="single", batch_split=(batch_size(job),)
        )
        held = reservation_hold(
            target=device, ends_at=timezone.now() + timedelta(seconds=ANSWER_LIMIT_S),
            purpose=PURPOSE, by=user,
        )  # fmt: skip
        probe = ProbeRow.objects.create(
            inspection=inspection, project=job.project, kind=device.kind, model_name=device.model_name,
            node_name=device.node.name,
            allocation=asdict(allocation), reservation=str(held.pk),
        )  # fmt: skip
        programs.files_replace(_paths(probe).program, files)
        request = _request(probe, job, device)
        task_send_on_commit("node.measure", [request], queue=node_queue(device.node.name), expires_s=ANSWER_LIMIT_S)
    return probe


def batch_size(job: Job) -> int:
    """Rows of a step of the whole run, as the resolved spec says."""
    value = (job.resolved.get("spec") or {}).get("training", {}).get("batch_size")
    return value if isinstance(value, int) and value > 0 else 1


def _paths(probe: ProbeRow) -> RunPaths:
    return RunPaths(settings.STORE.root / "inspections" / f"{PREFIX}{probe.pk}")


def _request(probe: ProbeRow, job: Job, device: Device) -> dict[str, Any]:
    return {
        "request_id": f"{PREFIX}{probe.pk}",
        "job_dir": str(_paths(probe).root),
        "dataset_dir": str(settings.STORE.dataset(job.dataset_sha256 or job.dataset.sha256).packed),
        "batch_size": batch_size(job),
        "steps": STEPS,
        "visits": 1,
        "device": f"cuda:{device.index}" if device.kind == DeviceKind.CUDA else "cpu",
        "threads": 1,
        "minimum_sandbox_level": minimum_sandbox_level(job),
    }


def idle_device(job: Job, kind: str, model_name: str) -> Device:
    """An idle, unreserved device within the project's quota; a declared slowdown does not matter to a probe.

    Raises `Unavailable`.
    """
    now = timezone.now()
    rows = Device.objects.select_related("node").filter(
        node__state=NodeState.UP, node__sandbox_level__gte=minimum_sandbox_level(job), allocation=None, away_since=None
    )
    rows = rows.filter(kind=kind) if kind else rows
    rows = rows.filter(model_name=real_name(model_name)[0]) if model_name else rows
    until = now + timedelta(seconds=ANSWER_LIMIT_S)
    live = Reservation.objects.filter(cancelled_at=None, starts_at__lt=until, ends_at__gt=now)
    taken = {row.device_id or row.node_id for row in live}
    idle = [
        device for device in rows.order_by("node__name", "kind", "index") if not {device.pk, device.node_id} & taken
    ]
    if not idle:
        raise Unavailable(
            "No device is idle for a few steps right now.",
            hint="Ask again when one is; the pool page shows what runs.",
        )
    full = _kinds_full(job.project)
    allowed = [device for device in idle if device.kind not in full]
    if not allowed:
        raise Unavailable(
            "The project holds all the devices that its quota allows.",
            code="quota_used",
            hint="Ask again when one of its jobs has ended.",
        )
    return allowed[0]


def _kinds_full(project: Project) -> set[str]:
    """Kinds of device of which the project may hold no more, its probes counted; what may be borrowed is not full."""
    held = Counter(Held.objects.filter(job__project=project).values_list("device__kind", flat=True))
    waiting = ProbeRow.objects.filter(project=project, state=AskState.WAITING)
    held.update(probe.kind for probe in waiting if not _is_late(probe))
    quotas = Quota.objects.filter(project=project, may_borrow=False)
    return {quota.device_kind for quota in quotas if held[quota.device_kind] >= quota.devices}


def probe_done(report: dict[str, Any]) -> ProbeRow | None:
    """Take in a node's answer to our `node.measure`; one that comes twice counts once."""
    pk = str(report.get("request_id", "")).removeprefix(PREFIX)
    probe = ProbeRow.objects.select_related("inspection").filter(pk=pk, state=AskState.WAITING).first()
    if probe is None:
        return None
    try:
        report = plain(report)
    except ValueError:
        report = {}
    try:
        measured = _measured(report, allocation_from(probe.allocation))
        fields: dict[str, Any] = {
            "state": AskState.DONE,
            "step_s": list(measured.step_s),
            "peak_bytes": measured.peak_bytes,
            "row_s": {name: value for name in ROW_FIGURES if (value := getattr(measured, name))},
        }
        fields |= _told_workload(report)
    except ValueError as error:
        problem = report.get("problem")
        told = problem if isinstance(problem, dict) else {"code": "bad_answer", "message": str(error), "hint": ""}
        fields = {"state": AskState.FAILED, "problem": told}
    return _end(probe, fields, has_run=True)


def _end(probe: ProbeRow, fields: Mapping[str, Any], *, has_run: bool) -> ProbeRow:
    now = timezone.now()
    with transaction.atomic():
        if ProbeRow.objects.filter(pk=probe.pk, state=AskState.WAITING).update(**fields, finished_at=now):
            for held in Reservation.objects.filter(pk=probe.reservation).select_related("device__node", "by"):
                if has_run and held.device is not None:
                    measurement_use_write(
                        [held.device], name=USE_NAME, since=probe.sent_at, until=now, by=held.by, project=probe.project
                    )
                reservation_release(held)
    tree_remove(_paths(probe).root)
    probe.refresh_from_db()
    return probe


def _measured(report: Mapping[str, Any], allocation: Allocation) -> Probe:
    """Raises `ValueError`."""
    steps = report.get("step_s")
    if report.get("problem") or not isinstance(steps, list) or not steps:
        raise ValueError("The node measured nothing.")
    peak = _above_0(report.get("peak_bytes"))
    try:
        return Probe(
            allocation=allocation,
            step_s=tuple(float(value) for value in steps),
            peak_bytes=peak if peak is not None and peak < PEAK_BYTES_MOST else None,
            **{name: value for name in ROW_FIGURES if (value := _above_0(report.get(name)))},
        )
    except TypeError as error:
        raise ValueError(f"The node's answer is no measurement: {error}") from error


def _above_0(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 else None


def _told_workload(report: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"workload": Workload.from_dict(report["workload"]).to_dict()}
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}


def opaque_workload(job: Job) -> Workload:
    """A stand-in for a program of which nothing but its step time is known: rows, epochs, and one nameless operator."""
    spec = job.resolved.get("spec") or {}
    split, training = (spec.get("data") or {}).get("split") or {}, spec.get("training") or {}
    rows = max(1, dataset_profile(job.dataset).rows or 1)
    held_out = min(rows - 1, round(rows * (float(split.get("validation") or 0) + float(split.get("test") or 0))))
    size = batch_size(job)
    return Workload(
        batch_size=size, operators=(Operator(op=OpClass.OTHER, flops=1e6, read_bytes=1e6, write_bytes=1e6),),
        parameters=0, parameter_bytes=0, gradient_bytes=0, optimizer_bytes=0, activation_bytes=1e6,
        transient_bytes=1e6, data_bytes=0, fixed_parameters_ops=0, train_rows=rows - held_out,
        evaluated_rows=held_out, epochs=int(training.get("epochs") or 1), global_batch_size=size,
    )  # fmt: skip


def probe_complete(probe: ProbeRow, job: Job) -> None:
    """Give a probe of a program that nobody can read a workload of its own, so that it can be priced where it ran."""
    if probe.state == AskState.DONE and probe.workload is None and probe.inspection.workload is None:
        ProbeRow.objects.filter(pk=probe.pk).update(workload=opaque_workload(job).to_dict(), opaque=True)
        probe.refresh_from_db()


def probe_expire(probe: ProbeRow) -> None:
    """Let one that nobody answered fail."""
    if _is_late(probe):
        _end(probe, {"state": AskState.FAILED, "problem": _LATE}, has_run=False)


def _is_late(probe: ProbeRow) -> bool:
    waited = abs(timezone.now() - probe.sent_at)
    return probe.state == AskState.WAITING and waited > timedelta(seconds=ANSWER_LIMIT_S)


def probes_of(inspection: Inspection) -> dict[Key, Probe]:
    """The newest probe on each kind of device."""
    rows = inspection.probes.filter(state=AskState.DONE).order_by("sent_at")
    return {
        (row.kind, row.model_name): Probe(
            allocation=allocation_from(row.allocation),
            step_s=tuple(row.step_s),
            peak_bytes=float(row.peak_bytes) if row.peak_bytes else None,
            **row.row_s,
        )
        for row in rows
    }


def probe_told(probe: ProbeRow, job: Job) -> None:
    """Tell those who watch the job."""
    publish_job(job.project_id, job.pk, "probe", {"probe_id": probe.pk, "state": str(probe.state)})


def require_no_run(job: Job) -> None:
    """Raises `Conflict` for a job that runs or has run: its own steps say more than a probe."""
    if job.state not in {"draft", "queued"}:
        raise Conflict(f"{job.name} is {job.state}: a probe is made before it runs.", hint="Clone it.")
