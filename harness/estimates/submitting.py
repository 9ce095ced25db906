"""A draft that is submitted without an offer: where its program was read before, its estimate comes before its promise.

Else its deadline would be queued unexamined, however impossible, and an offer that was looked at and not taken be for
nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from harness.database import DATABASE_AWAY
from harness.errors import HarnessError
from harness.estimates.accepting import estimate_keep, estimates_fixed
from harness.estimates.models import Inspection
from harness.estimates.offers import job_key
from harness.estimates.settling import probed_workload
from harness.estimates.tried import rank_rows
from harness.jobs.models import Job
from harness.jobs.options import wanted_model
from scheduler.estimation.values import Estimate
from scheduler.workload import Workload

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Foretold:
    """What a draft costs on the devices that its spec fixes, and of which state of the draft."""

    estimates: Sequence[Estimate]
    draft: str


def _state(job: Job) -> str:
    told = [job.spec, job.resolved, job.program_sha256, job.dataset_sha256]
    return json.dumps(told, sort_keys=True, default=str)  # as the database has it, where it is not read from there


def estimate_foreseen(job: Job) -> Foretold | None:
    """The estimate of a draft with a deadline, before a transaction, since pricing takes long; None where it has one,
    or nothing is known of its program.

    Never raises for what is wrong with the job: without an estimate it is queued as well.
    """
    if job.deadline_at is None or job.options:
        return None
    try:
        inspection = Inspection.objects.filter(key=job_key(job)).first()
        workload, only = (inspection.workload, None) if inspection else (None, None)
        if inspection is not None and workload is None:
            workload, only = probed_workload(inspection, rank_rows(job), wanted_model(job))
        found = estimates_fixed(job, Workload.from_dict(workload), only) if workload else []
    except (HarnessError, OSError) as error:
        _log.info("draft %s cannot be estimated: %s", job.pk, error)
        return None
    except DATABASE_AWAY:
        raise
    except Exception:
        _log.exception("draft %s cannot be estimated", job.pk)
        return None
    return Foretold(estimates=found, draft=_state(job)) if found else None


def estimate_before(job: Job, foretold: Foretold | None) -> None:
    """Keep it with the draft, unless that was changed or took an offer meanwhile."""
    if foretold is not None and not job.options and foretold.draft == _state(job):
        estimate_keep(job, foretold.estimates[0], foretold.estimates[1:])
