"""A few real steps of a program on an idle device: they refine its estimate, and stand in where it cannot be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from harness.accounts.access import require
from harness.accounts.models import Project, Role, User
from harness.broker import publish_job, task_send_on_commit
from harness.errors import Conflict, Invalid, Unavailable
from harness.estimates.inspection import content_key
from harness.estimates.models import AskState, Inspection, ProbeRow
from harness.estimates.tried import Tried, batch_size, whole_fits_check
from harness.jobs import programs
from harness.jobs.models import Allocation as Held
from harness.jobs.models import Job
from harness.jobs.services import minimum_sandbox_level
from harness.jobs.start_weights import TOLD, only_older_nodes
from harness.pool.models import Device, DeviceKind, NodeState, Quota, Reservation
from harness.pool.reservations import reservation_hold
from harness.pool.services import node_queue
from harness.pool.turn import facts_change
from scheduler.estimation.probe import Probe
from scheduler.estimation.values import Allocation
from scheduler.kinds import real_name
from scheduler.offers.values import allocation_from
from worker.plan import RunPaths
from worker.states import said

PREFIX = "probe-"
"""Of the ids of our requests; other answers to `node.measure` belong to calibration."""
AGAIN = "-again"
"""Ends the id of a second look's request."""
PURPOSE = "A few steps of a job that has not started"
"""Everybody reads it, also who does not see the job."""
STEPS = 3
ANSWER_LIMIT_S = 240.0

MOST_TRIED = 3
"""So many idle devices are asked about: each is a decision of the scheduler."""

NEEDED_SOON = "needed_soon"
"""Code of the refusal where none of them may be kept."""

Key = tuple[str, str]
MayHold = Callable[[Device], bool]
"""Whether an idle device may be kept for `ANSWER_LIMIT_S`."""


def probe_request(*, user: User, job: Job, inspection: Inspection, tried: Tried) -> ProbeRow:
    """Have an idle device make a few real steps of a draft's program; nothing else starts there meanwhile.

    Raises `NotFound`, `Forbidden`, `Invalid`, `Conflict` (the program is another by now), `Unavailable` (no device of
    that kind is idle).
    """
    require(user, job.project, Role.MEMBER)
    if tried.kind and tried.kind not in DeviceKind.values:
        raise Invalid(f"There is no kind of device {tried.kind[:40]!r}.", field="kind", hint="Use cpu or cuda.")
    return probe_begin(by=user, job=job, inspection=inspection, tried=tried)


def probe_begin(
    *, by: User, job: Job, inspection: Inspection, tried: Tried, may_hold: MayHold | None = None
) -> ProbeRow:
    """The same without asking who may: for a job that was submitted; `may_hold` is asked once nobody decides any more.

    Raises `Conflict`, `Unavailable`.
    """
    running = inspection.probes.filter(state=AskState.WAITING).first()
    if running is not None and not is_late(running):
        return running
    files = programs.program_of(settings.STORE.job(job.pk)).files
    if content_key(files, job.dataset_sha256 or job.dataset.sha256) != inspection.key:
        # What one program takes must never be kept as what another takes.
        raise Conflict(
            "The program has changed since this offer was made.", code="offer_stale", hint="Ask for a new offer first."
        )
    with transaction.atomic():
        # Nothing that is being decided on the facts before this starts on the device that is taken here.
        facts_change()
        device = idle_device(job, tried.kind, tried.model_name, may_hold)
        whole_fits_check(tried, device)
        allocation = Allocation(
            kind=device.kind, model_name=device.model_name, count=1, mode="single", batch_split=(tried.rows,)
        )
        held = reservation_hold(
            target=device, ends_at=timezone.now() + timedelta(seconds=ANSWER_LIMIT_S),
            purpose=PURPOSE, by=by, within=job.project,
        )  # fmt: skip
        probe = ProbeRow.objects.create(
            inspection=inspection, project=job.project, kind=device.kind, model_name=device.model_name,
            node_name=device.node.name, batch_size=batch_size(job),
            allocation=asdict(allocation), reservation=str(held.pk),
        )  # fmt: skip
        programs.files_replace(folder_of(probe).program, files)
        probe_send(probe, device, minimum_sandbox_level(job))
    return probe


def folder_of(probe: ProbeRow) -> RunPaths:
    """Its program, alone."""
    return RunPaths(settings.STORE.root / "inspections" / f"{PREFIX}{probe.pk}")


def probe_send(probe: ProbeRow, device: Device, sandbox_level: int) -> None:
    """Ask the node, on commit."""
    request = {
        "request_id": request_id(probe),
        "job_dir": str(folder_of(probe).root),
        "dataset_dir": str(settings.STORE.dataset(probe.inspection.dataset_sha256).packed),
        "batch_size": probe.rows,
        "steps": STEPS,
        "visits": 1,
        "device": f"cuda:{device.index}" if device.kind == DeviceKind.CUDA else "cpu",
        "threads": 1,
        "minimum_sandbox_level": sandbox_level,
    }
    task_send_on_commit("node.measure", [request], queue=node_queue(device.node.name), expires_s=ANSWER_LIMIT_S)


def request_id(probe: ProbeRow) -> str:
    """Of the look that is under way: an answer that comes twice is no second look."""
    return f"{PREFIX}{probe.pk}{AGAIN if probe.first_look else ''}"


def _none_idle(there: QuerySet[Device], level: int, kind: str, model_name: str) -> Unavailable:
    """`there`: devices of the kind on nodes that are up."""
    if there.filter(node__sandbox_level__gte=level).exists():
        hint = "Ask again when one is; the pool page shows what is running."
        return Unavailable("No device is idle for a few steps right now.", hint=hint)
    what = _what(kind, model_name)
    if there.exists():
        weak = f"No node that is up has a device{what} and sandbox level L{level}, which this program needs."
        return Unavailable(weak, hint="Leave the device open, or ask an admin; the pool page tells the levels.")
    hint = "Leave the device open, or ask again when such a node is up; the pool page shows what there is."
    return Unavailable(f"No node that is up has a device{what}.", hint=hint)


def _what(kind: str, model_name: str) -> str:
    return f"{f' of the kind {kind}' if kind else ''}{f' ({model_name})' if model_name else ''}"


def pool_has_check(kind: str, model_name: str = "") -> None:
    """Pass where the pool has such a device, be its node up or not. Raises `Invalid`: waiting for one is no use."""
    there = Device.objects.filter(kind=kind) if kind else Device.objects.all()
    there = there.filter(model_name=real_name(model_name)[0]) if model_name else there
    if (kind or model_name) and not there.exists():
        hint = "Leave the device open; the pool page shows what there is."
        raise Invalid(f"The pool has no device{_what(kind, model_name)}.", field="device", hint=hint)


def idle_device(
    job: Job, kind: str, model_name: str, may_hold: MayHold | None = None, *, trains: bool = False
) -> Device:
    """An idle device within the project's quota that is kept for nobody else; a declared slowdown does not matter to a
    probe.

    `may_hold`: of the first few one for which it says so. `trains`: the node is to start from the job's weights; a step
    takes as long with any. Raises `Unavailable`, `Conflict` (no node does).
    """
    now, level = timezone.now(), minimum_sandbox_level(job)
    there = Device.objects.select_related("node").filter(node__state=NodeState.UP, away_since=None)
    there = there.filter(kind=kind) if kind else there
    there = there.filter(model_name=real_name(model_name)[0]) if model_name else there
    if trains and job.weights_id:
        there = _from_weights(there)
    rows = there.filter(node__sandbox_level__gte=level, allocation=None)
    until = now + timedelta(seconds=ANSWER_LIMIT_S)
    live = Reservation.objects.filter(cancelled_at=None, starts_at__lt=until, ends_at__gt=now)
    live = live.exclude(project=job.project)
    taken = {row.device_id or row.node_id for row in live}
    idle = [
        device for device in rows.order_by("node__name", "kind", "index") if not {device.pk, device.node_id} & taken
    ]
    if not idle:
        raise _none_idle(there, level, kind, model_name)
    full = _kinds_full(job.project)
    allowed = [device for device in idle if device.kind not in full]
    if not allowed:
        raise Unavailable(
            "The project holds all the devices that its quota allows.",
            code="quota_used",
            hint="Ask again when one of its jobs has ended.",
        )
    found = next((device for device in allowed[:MOST_TRIED] if may_hold is None or may_hold(device)), None)
    if found is None:
        raise Unavailable(
            "Promised or overdue jobs need the idle devices in a moment.",
            code=NEEDED_SOON,
            hint="Ask again when another device is idle.",
        )
    return found


def _from_weights(there: QuerySet[Device]) -> QuerySet[Device]:
    """Those whose nodes start a program from the weights of its job. Raises `Conflict` where there are only others."""
    found = there.filter(**{f"node__description__{TOLD}": True})
    if there.exists() and not found.exists():
        raise only_older_nodes()
    return found


def _kinds_full(project: Project) -> set[str]:
    """Kinds of device of which the project may hold no more, its probes counted; what may be borrowed is not full."""
    held = Counter(Held.objects.filter(job__project=project).values_list("device__kind", flat=True))
    waiting = ProbeRow.objects.filter(project=project, state=AskState.WAITING)
    held.update(probe.kind for probe in waiting if not is_late(probe))
    quotas = Quota.objects.filter(project=project, may_borrow=False)
    return {quota.device_kind for quota in quotas if held[quota.device_kind] >= quota.devices}


def is_late(probe: ProbeRow) -> bool:
    """Whether nobody will answer any more."""
    waited = abs(timezone.now() - probe.sent_at)
    return probe.state == AskState.WAITING and waited > timedelta(seconds=ANSWER_LIMIT_S)


def probes_done(inspection: Inspection, rows: int = 0, model_name: str = "") -> list[ProbeRow]:
    """Those that told something, the newest last; after all others those with so many `rows` (0: no matter), and last
    those on a device of the model (empty: no matter; declared slow or not)."""
    done = inspection.probes.filter(state=AskState.DONE).order_by("sent_at")
    real = real_name(model_name)[0]
    return sorted(done, key=lambda probe: (bool(real) and probe.model_name == real, bool(rows) and probe.rows == rows))


def probes_of(inspection: Inspection, rows: int = 0) -> dict[Key, Probe]:
    """The newest probe on each kind of device; of those with so many `rows`, where there are any."""
    return {
        (row.kind, row.model_name): Probe(
            allocation=allocation_from(row.allocation),
            step_s=tuple(row.step_s),
            peak_bytes=float(row.peak_bytes) if row.peak_bytes else None,
            power_w=row.power_w,
            node=row.node_name,
            left_out_s=tuple(row.left_out_s),
            **row.row_s,
        )
        for row in probes_done(inspection, rows)
    }


def probe_told(probe: ProbeRow, job: Job) -> None:
    """Tell those who watch the job."""
    publish_job(job.project_id, job.pk, "probe", {"probe_id": probe.pk, "state": str(probe.state)})


def require_no_run(job: Job) -> None:
    """Raises `Conflict` for a job that runs or has run: its own steps say more than a probe."""
    if job.state not in {"draft", "queued"}:
        raise Conflict(f"{job.name} {said(job.state)}: a probe is made before it runs.", hint="Clone it.")
