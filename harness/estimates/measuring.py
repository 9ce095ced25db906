"""Jobs submitted without an offer whose program cannot be read: a few real steps tell how long they take.

With a requested finish at once: it is promised then, or the job says why not. Without one as soon as the job waits: on
idle devices it starts as well, but beside what is planned for others only where it is known to end before that.
"""

from __future__ import annotations

import logging
from hashlib import sha256

from django.core.cache import cache
from django.db.models import Count
from django.utils import timezone

from codegen.modes import ONE_PROCESS, STAGED
from harness.errors import HarnessError
from harness.estimates.accepting import estimate_fixed
from harness.estimates.inspection import may_pass
from harness.estimates.models import AskState, Inspection, JobEstimate, ProbeRow
from harness.estimates.probe_answers import CALLED_OFF, probe_complete, probe_expire
from harness.estimates.probes import ANSWER_LIMIT_S, NEEDED_SOON, probe_begin
from harness.estimates.settling import probed_workload
from harness.estimates.tried import Tried, rank_rows, wanted_mode
from harness.jobs.admission import unpromised_tell
from harness.jobs.models import Job
from harness.jobs.options import wanted_devices, wanted_model
from harness.jobs.promises import PromiseState
from harness.jobs.reservation_preview import PromisesWithout
from harness.jobs.services import minimum_sandbox_level
from harness.jobs.states import job_note
from harness.pool.models import Device, NodeState
from scheduler.kinds import real_name
from scheduler.workload import Workload
from worker.states import JobState

MEASURE_INSTEAD = frozenset({"cannot_trace", "time_limit"})
"""Problems of a reading after which a few real steps tell what a program takes."""
PROBES_MOST = 3
"""So many probes that come to nothing through no fault of the program."""
_NOTES = {
    PromiseState.BEING_MEASURED: (
        "It waits, and its program cannot be read without running it, so an idle device is running a few of its steps. "
        "Once they show how long it takes, it is planned like any other job."
    ),
    PromiseState.NOT_MEASURED: (
        "Its run time could not be measured, so it starts where nothing else is planned on its devices for later, and "
        "goes before whatever was submitted after it once it has waited for a day."
    ),
}
"""Of a job without a requested finish."""
_REFUSED_FOR_S = 30
"""Less than the time from one look at all waiting jobs to the next."""
_ONE_ALONE = "A few steps only tell about the device model that made them, and it asks for other devices."
_STAGES = "Its model is cut into stages, and while its program cannot be read nobody can tell where."
_log = logging.getLogger(__name__)


def is_measured_instead(inspection: Inspection) -> bool:
    """Whether a few real steps are the way to know what its program takes."""
    return inspection.workload is None and (inspection.problem or {}).get("code") in MEASURE_INSTEAD


def job_measure(job: Job, inspection: Inspection) -> JobEstimate | None:
    """Go on with the measurement of a waiting job: begin it, wait for it, or estimate the job from what it told.

    None where there is no estimate yet, or never will be; the job says which. Called again, it does nothing twice.
    """
    if not _is_to_be_measured(job):
        return None
    kind, _ = wanted_devices(job)
    probes = [probe for probe in inspection.probes.filter(kind=kind).order_by("-sent_at") if _is_of(probe, job)]
    for probe in probes:
        probe_expire(probe)
        probe.refresh_from_db()
    if any(probe.state == AskState.DONE for probe in probes):
        return _estimated(job, inspection, next(probe for probe in probes if probe.state == AskState.DONE))
    if any(probe.state == AskState.WAITING for probe in probes):
        _tell(job, PromiseState.BEING_MEASURED)
    elif probes and (len(probes) >= PROBES_MOST or not may_pass(probes[0])):
        _tell(job, PromiseState.NOT_MEASURED, (probes[0].problem or {}).get("message", ""))
    else:
        _begin(job, inspection, kind)
    return None


def _is_of(probe: ProbeRow, job: Job) -> bool:
    """Whether it tells what a rank of the job does: on a device of the model that its spec names, if it names one, and
    with other rows where the node read the program as it ran. One that was called off tells nothing."""
    if (probe.problem or {}).get("code") == CALLED_OFF:
        return False
    named = real_name(wanted_model(job))[0]
    if named and probe.model_name != named:
        return False
    return probe.rows == rank_rows(job) or (probe.workload is not None and not probe.opaque)


def _is_to_be_measured(job: Job) -> bool:
    if job.state != JobState.QUEUED:
        return False
    # What no decision has left waiting yet may just start; steps on one device tell of ranks, not of what one process
    # or stages make of several.
    waits = bool(job.waiting_code) and job.retry_at is None
    is_ranked = wanted_mode(job) not in ONE_PROCESS | STAGED
    return _awaits_promise(job) or (waits and is_ranked)


def _awaits_promise(job: Job) -> bool:
    return job.deadline_at is not None and job.deadline_at > timezone.now()


def _begin(job: Job, inspection: Inspection, kind: str) -> None:
    # Of several devices that are alike each rank is as the one that is tried: of another model there may be too few.
    is_one = wanted_devices(job)[1] == 1
    model_name = wanted_model(job) or ("" if is_one and _awaits_promise(job) else _usual_model(job, kind))
    tried = Tried(kind=kind, model_name=model_name, rows=rank_rows(job))
    # Each answer takes a few decisions, and the next job would be told the same.
    asked = f"{job.project_id}:{minimum_sandbox_level(job)}:{kind}:{model_name}"
    refused = f"{NEEDED_SOON}:{sha256(asked.encode()).hexdigest()}"  # no cache takes the spaces of a name
    if cache.get(refused):
        _tell(job, PromiseState.TO_BE_MEASURED)
        return
    may_hold = PromisesWithout(ANSWER_LIMIT_S).are_kept
    try:
        probe_begin(by=job.owner, job=job, inspection=inspection, tried=tried, may_hold=may_hold)
    except HarnessError as error:
        _log.info("job %s: no steps are tried yet: %s", job.pk, error.message)
        if error.code == NEEDED_SOON:
            cache.set(refused, True, timeout=_REFUSED_FOR_S)
        _tell(job, PromiseState.TO_BE_MEASURED)
    else:
        _tell(job, PromiseState.BEING_MEASURED)


def _usual_model(job: Job, kind: str) -> str:
    """The model that the pool has most of where the job may run: it may wait for this one alone afterwards."""
    there = Device.objects.filter(kind=kind, away_since=None, node__state=NodeState.UP)
    there = there.filter(node__sandbox_level__gte=minimum_sandbox_level(job))
    row = there.values("model_name").annotate(count=Count("pk")).order_by("-count", "model_name").first()
    return row["model_name"] if row else ""


def _tell(job: Job, state: PromiseState, why: str = "") -> None:
    """What becomes of the measurement, once."""
    if _awaits_promise(job):
        unpromised_tell(job, state, why)
    elif state in _NOTES:
        message = f"{_NOTES[state]} {why}".strip()
        if not job.events.filter(message=message).exists():
            job_note(job, "note", message)


def _estimated(job: Job, inspection: Inspection, probe: ProbeRow) -> JobEstimate | None:
    probe_complete(probe, job)
    workload, only = probed_workload(inspection, rank_rows(job), wanted_model(job))
    made = estimate_fixed(job, Workload.from_dict(workload), only) if workload else None
    if made is None:
        _tell(job, PromiseState.NOT_MEASURED, _STAGES if wanted_mode(job) in STAGED else _ONE_ALONE)
    return made
