"""Attempts that ended for want of memory: their programs take more than they had, which the model of memory learns.

Written by the beat; nothing that goes wrong here touches the job.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from codegen.modes import STAGED
from harness.broker import task_send_on_commit
from harness.calibration.models import RanOutRow
from harness.jobs.models import Job, JobAttempt
from harness.measuring.learning import BATCH, LOOK_BACK
from harness.measuring.ran import ran_on
from harness.measuring.tried import Tried
from harness.pool.idle import IDLE_CPU_BYTES, IDLE_CUDA_BYTES
from harness.pool.models import Device, DeviceKind
from worker.events import FailureCode, Outcome
from worker.states import JobState

OF_GPU = "CUDA out of memory"
"""What torch says where a GPU's own memory ran out, and not that of its host."""
_log = logging.getLogger(__name__)
_tried = Tried()


def ran_out_learn() -> int:
    """Write the rows of attempts that ended so without one; return how many."""
    since = timezone.now() - LOOK_BACK
    rows = JobAttempt.objects.filter(
        job__state=JobState.FAILED,
        job__finished_at__gte=since,
        outcome=str(Outcome.FAILED),
        failure__code=str(FailureCode.OUT_OF_MEMORY),
        ran_out=None,
    )
    rows = rows.exclude(pk__in=_tried.resting()).order_by("job__finished_at", "pk")
    count = 0
    for attempt in rows.select_related("job")[:BATCH]:
        learnt = False
        try:
            learnt = _learn(attempt.job, attempt)
        except Exception:
            told = "cannot keep that attempt %s of job %s ran out of memory; it is tried again later"
            _log.exception(told, attempt.number, attempt.job_id)
        if not learnt:
            # Many that cannot be learnt from must not keep all later ones.
            _tried.failed(attempt.pk)
        count += learnt
    return count


def out_of_memory_count() -> int:
    """Jobs that failed for want of memory: what they would have taken nobody knows, so they are in no error."""
    rows = Job.objects.filter(state=JobState.FAILED, failure__code=str(FailureCode.OUT_OF_MEMORY))
    return rows.exclude(options=[]).count()


def _learn(job: Job, attempt: JobAttempt) -> bool:
    ran = ran_on(job, attempt)
    told = {name: ran[name] for name in ("kind", "model_name", "workload", "allocation")}
    if job.own_code or ran["mode"] in STAGED:
        # Whoever writes a program can have it say so of any memory; of a stage nobody knows what it took.
        told["workload"] = {}
    limit_bytes = _limit_bytes(attempt, ran)
    try:
        with transaction.atomic():
            row = RanOutRow.objects.create(
                attempt=attempt, limit_bytes=limit_bytes, ended_at=attempt.ended_at or timezone.now(), **told
            )
            if row.workload and row.allocation and limit_bytes:
                task_send_on_commit("control.calibration_learn", [row.kind, row.model_name])
    except IntegrityError:
        # Another control process was faster.
        return False
    return True


def _limit_bytes(attempt: JobAttempt, ran: dict[str, Any]) -> int | None:
    """What its largest rank could have above an idle process; None where that is not known."""
    if ran["kind"] == DeviceKind.CUDA:
        held = Device.objects.filter(uses__job=attempt.job_id, uses__token=attempt.number, kind=ran["kind"])
        told = (attempt.run_failure.traceback if attempt.run_failure else None) or ""
        sizes = held.values_list("memory_bytes", flat=True)
        limit_bytes = min(sizes, default=0) - IDLE_CUDA_BYTES if OF_GPU in told else 0
    else:
        on_node = Counter(rank.node for rank in attempt.run_plan.ranks)
        limit_bytes = attempt.run_plan.limits.memory_bytes // max(on_node.values(), default=1) - IDLE_CPU_BYTES
    return limit_bytes if limit_bytes > 0 else None
