"""What devices did for jobs: one row of `DeviceUse` per device and attempt, with the energy it took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Count, F, Max, Min, Window
from django.db.models.functions import Floor, RowNumber

from harness.accounts.models import Project, User
from harness.calibration.known import Key, powers_known
from harness.jobs.control.metered import Power, idle_power_of, power_of
from harness.jobs.models import Allocation, DeviceUse, JobAttempt, ResourceSample
from harness.pool.models import Device
from scheduler.estimation.device_parts import PowerModel
from scheduler.estimation.values import Basis

NO_JOB = 0
"""`DeviceUse.token` of measurements of the harness's own: attempts of jobs count from 1."""
LAST_SAMPLES = 3
"""What a device draws now is the mean of so many: a meter's single readings jump."""
SAMPLES_MOST = 240
"""An attempt's mean power is taken from at most so many of its samples, spread evenly over it."""


def uses_write(attempt: JobAttempt, ended_at: datetime, *, ranks: Collection[int] | None = None) -> None:
    """Keep what the attempt's devices did; call it in the transaction that frees them.

    `ranks`: of these alone; the attempt goes on with the others.
    """
    held = list(_held(attempt))
    beside = Counter(allocation.device.node_id for allocation in held)
    samples = attempt_samples(attempt)
    powers = powers_known({device_key(allocation.device) for allocation in held})
    freed = [allocation for allocation in held if ranks is None or allocation.rank in ranks]
    DeviceUse.objects.bulk_create(
        use_of(allocation, ended_at, samples, beside[allocation.device.node_id], powers) for allocation in freed
    )


def _held(attempt: JobAttempt) -> Sequence[Allocation]:
    return list(
        Allocation.objects.filter(attempt=attempt).select_related(
            "device__node", "job__project", "job__owner", "attempt"
        )
    )


def attempt_samples(attempt: JobAttempt) -> list[dict[str, Any]]:
    """Data of its samples, oldest first; of many, one per stretch of time and node: of a long run those of long ago
    lie further apart (`retention`), and must not count less for it."""
    rows = ResourceSample.objects.filter(job_id=attempt.job_id, token=attempt.number)
    told = rows.aggregate(
        count=Count("pk"), nodes=Count("node", distinct=True), first_s=Min("time_s"), last_s=Max("time_s")
    )
    every = -(-told["count"] // SAMPLES_MOST)
    if every > 1:
        between_s = (told["last_s"] - told["first_s"]) / (told["count"] - 1)
        stretch_s = max(1e-3, every * max(1, told["nodes"]) * between_s)
        placed = rows.annotate(stretch=Floor((F("time_s") - told["first_s"]) / stretch_s))
        of_one = [F("node_id"), F("stretch")]
        numbered = placed.annotate(number=Window(RowNumber(), partition_by=of_one, order_by=("time_s", "pk")))
        rows = numbered.filter(number=1)
    return list(rows.order_by("time_s").values_list("data", flat=True))


def device_key(device: Device) -> Key:
    """What its power is known by."""
    return device.kind, device.model_name


def use_of(
    allocation: Allocation,
    until: datetime,
    samples: Sequence[Mapping[str, Any]],
    held: int,
    powers: Mapping[Key, PowerModel],
) -> DeviceUse:
    """The row of one device up to `until`, not saved. `held`: devices of the attempt on the same node; `powers`: what
    is known of devices like it."""
    device, job = allocation.device, allocation.job
    # A clock that was set back must not make time or energy negative.
    until = max(until, allocation.created_at)
    known, here = powers[device_key(device)], _of_its_node(allocation, samples)
    running = _running_power(allocation, here, held, known)
    energy_j, basis = _energy(allocation, until, running, idle_power_of(known), is_sampled=bool(here))
    return DeviceUse(
        device=device,
        node_name=device.node.name,
        device_kind=device.kind,
        device_index=device.index,
        device_model=device.model_name,
        job=job,
        job_name=job.name,
        project=job.project,
        project_name=job.project.name,
        owner=job.owner,
        owner_name=job.owner.username,
        token=allocation.attempt.number,
        started_at=allocation.created_at,
        ended_at=until,
        energy_j=energy_j,
        energy_basis=str(basis),
    )


def power_now_w(allocations: Sequence[Allocation], powers: Mapping[Key, PowerModel]) -> float:
    """What devices draw that one attempt holds, by its last samples; while it has not begun they idle."""
    if not allocations:
        return 0.0
    held = Counter(allocation.device.node_id for allocation in allocations)
    attempt = allocations[0].attempt
    samples = [data for node_id in held for data in _last_samples(attempt, node_id)]
    has_begun = bool(samples or attempt.started_at or attempt.running_at)
    total_w = 0.0
    for allocation in allocations:
        known, here = powers[device_key(allocation.device)], _of_its_node(allocation, samples)
        running = _running_power(allocation, here, held[allocation.device.node_id], known)
        total_w += (running if has_begun else idle_power_of(known)).watts
    return total_w


def _last_samples(attempt: JobAttempt, node_id: str) -> list[dict[str, Any]]:
    """Data of the newest few of one of its nodes."""
    rows = ResourceSample.objects.filter(job_id=attempt.job_id, token=attempt.number, node_id=node_id)
    return list(rows.order_by("-time_s", "-pk").values_list("data", flat=True)[:LAST_SAMPLES])


def _of_its_node(allocation: Allocation, samples: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """On several nodes each tells of its own ranks alone, and says so."""
    name = allocation.device.node.name
    return [sample for sample in samples if sample.get("node", name) == name]


def _running_power(allocation: Allocation, here: Sequence[Mapping[str, Any]], held: int, known: PowerModel) -> Power:
    device = allocation.device
    # Of a run that was wider or narrower, what all of its ranks did says nothing of those that are there now.
    rank = allocation.rank if allocation.attempt.width else None
    power = power_of(device.kind, device.index, here, held, known, rank=rank)
    if not allocation.drives_rank and power.basis != Basis.MEASURED:
        return idle_power_of(known)  # loads are of ranks, of which it has none
    return power


def _energy(
    allocation: Allocation, until: datetime, running: Power, idle: Power, *, is_sampled: bool
) -> tuple[float, Basis]:
    """(joules, where most of them come from) of a device that idles until its attempt begins: data and program are
    fetched first. `is_sampled`: its node has told of the run."""
    since, attempt = allocation.created_at, allocation.attempt
    begun_at = attempt.started_at or attempt.running_at
    if begun_at is None or begun_at > until:  # unheard, or by a clock that is ahead
        begun_at = since if is_sampled else until
    idle_s = (min(until, max(since, begun_at)) - since).total_seconds()
    idle_j = idle.watts * idle_s
    run_j = running.watts * ((until - since).total_seconds() - idle_s)
    return idle_j + run_j, running.basis if run_j >= idle_j else idle.basis


def measurement_use_write(
    devices: Sequence[Device],
    *,
    name: str,
    since: datetime,
    until: datetime,
    by: User | None = None,
    project: Project | None = None,
    watts: float | None = None,
) -> None:
    """Keep what devices did for a measurement of the harness's own, `name` in one or two words.

    `project`: whose it was; None: the pool's. `watts`: of all of them together, where a meter told.
    """
    until, powers = max(since, until), powers_known({device_key(device) for device in devices})
    for device in devices:
        power = power_of(device.kind, device.index, (), 1, powers[device_key(device)])
        if watts is not None:
            power = Power(watts=watts / len(devices), basis=Basis.MEASURED)
        DeviceUse.objects.create(
            device=device,
            node_name=device.node.name,
            device_kind=device.kind,
            device_index=device.index,
            device_model=device.model_name,
            job_name=name,
            project=project,
            project_name=project.name if project else name,
            owner=by,
            owner_name=by.username if by else name,
            token=NO_JOB,
            started_at=since,
            ended_at=until,
            energy_j=power.watts * (until - since).total_seconds(),
            energy_basis=str(power.basis),
        )
