"""Jobs submitted without an offer whose program cannot be read: a few real steps tell how long they take.

Only for a requested finish: it is promised then, or the job says why not. Without one the job runs as well.
"""

from __future__ import annotations

import logging

from django.utils import timezone

from harness.errors import HarnessError
from harness.estimates.accepting import estimate_fixed
from harness.estimates.inspection import may_pass
from harness.estimates.models import AskState, Inspection, JobEstimate, ProbeRow
from harness.estimates.probe_answers import probe_complete, probe_expire
from harness.estimates.probes import probe_begin
from harness.estimates.settling import probed_workload
from harness.jobs.admission import unpromised_tell
from harness.jobs.models import Job
from harness.jobs.options import wanted_devices
from harness.jobs.promises import PromiseState
from scheduler.workload import Workload
from worker.states import JobState

MEASURE_INSTEAD = frozenset({"cannot_trace", "time_limit"})
"""Problems of a reading after which a few real steps tell what a program takes."""
PROBES_MOST = 3
"""So many probes that come to nothing through no fault of the program."""
_ONE_ALONE = "A few steps only tell about the device model that made them, and it asks for other devices."
_log = logging.getLogger(__name__)


def is_measured_instead(inspection: Inspection) -> bool:
    """Whether a few real steps are the way to know what its program takes."""
    return inspection.workload is None and (inspection.problem or {}).get("code") in MEASURE_INSTEAD


def job_measure(job: Job, inspection: Inspection) -> JobEstimate | None:
    """Go on with the measurement of a waiting job: begin it, wait for it, or estimate the job from what it told.

    None where there is no estimate yet, or never will be; the job says which. Called again, it does nothing twice.
    """
    if job.state != JobState.QUEUED or job.deadline_at is None or job.deadline_at <= timezone.now():
        return None
    kind, _ = wanted_devices(job)
    probes = list(inspection.probes.filter(kind=kind).order_by("-sent_at"))
    for probe in probes:
        probe_expire(probe)
        probe.refresh_from_db()
    if any(probe.state == AskState.DONE for probe in probes):
        return _estimated(job, inspection, next(probe for probe in probes if probe.state == AskState.DONE))
    if any(probe.state == AskState.WAITING for probe in probes):
        unpromised_tell(job, PromiseState.BEING_MEASURED)
    elif probes and (len(probes) >= PROBES_MOST or not may_pass(probes[0])):
        unpromised_tell(job, PromiseState.NOT_MEASURED, (probes[0].problem or {}).get("message", ""))
    else:
        _begin(job, inspection, kind)
    return None


def _begin(job: Job, inspection: Inspection, kind: str) -> None:
    try:
        probe_begin(by=job.owner, job=job, inspection=inspection, kind=kind)
    except HarnessError as error:
        _log.info("job %s: no steps are tried yet: %s", job.pk, error.message)
        unpromised_tell(job, PromiseState.TO_BE_MEASURED)
    else:
        unpromised_tell(job, PromiseState.BEING_MEASURED)


def _estimated(job: Job, inspection: Inspection, probe: ProbeRow) -> JobEstimate | None:
    probe_complete(probe, job)
    workload, only = probed_workload(inspection)
    made = estimate_fixed(job, Workload.from_dict(workload), only) if workload else None
    if made is None:
        unpromised_tell(job, PromiseState.NOT_MEASURED, _ONE_ALONE)
    return made
