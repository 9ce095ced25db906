"""What a finished job cost, beside what was foretold; and what the model of its device learns from it.

A job's row is written by control some moments after its end, at the latest by the beat: no job waits for it, and
nothing that goes wrong here touches the job.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from statistics import median
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from codegen.modes import STAGED
from harness.broker import task_send_on_commit
from harness.calibration.models import FinishedJobRow
from harness.errors import HarnessError
from harness.estimates.forecasts import forecast_of, workload_of
from harness.jobs.models import DeviceUse, Job, JobAttempt, JobEvent, MetricPoint
from harness.jobs.results import job_results
from harness.measuring.tried import Tried
from harness.pool.models import DeviceKind
from scheduler.estimation.values import Basis
from scheduler.kinds import declared_name
from scheduler.offers.values import estimate_from
from worker.events import Outcome
from worker.states import JobState

LOOK_BACK = timedelta(days=2)
"""Jobs that ended longer ago and have no row are let be."""
RATES_LEAST = 3
"""Below so many measured rates the run's own summary is taken."""
LEAST, MOST = 1e-9, 1e18
"""No second, byte or rate that a run tells lies beyond."""
BATCH = 50
_log = logging.getLogger(__name__)
_tried = Tried()


def jobs_learn() -> int:
    """Write the rows of jobs that ended without one; return how many."""
    since = timezone.now() - LOOK_BACK
    rows = Job.objects.filter(state=JobState.SUCCEEDED, finished_at__gte=since, finished_cost=None)
    rows = rows.exclude(pk__in=_tried.resting()).order_by("finished_at", "pk")
    count = 0
    for job_id in list(rows.values_list("pk", flat=True)[:BATCH]):
        learnt = False
        try:
            learnt = job_learn(job_id)
        except Exception:
            _log.exception("cannot keep what job %s cost; it is tried again later", job_id)
        if not learnt:
            # Many that cannot be learnt from must not keep all later ones.
            _tried.failed(job_id)
        count += learnt
    return count


def job_learn(job_id: str) -> bool:
    """Keep what a job that has succeeded cost, and have the model of its devices corrected. Once per job."""
    job = Job.objects.filter(pk=job_id, state=JobState.SUCCEEDED, finished_cost=None).first()
    if job is None:
        return False
    attempt = job.attempts.filter(outcome=str(Outcome.SUCCEEDED)).order_by("-number").first()
    if attempt is None:
        return False
    try:
        with transaction.atomic():
            row = FinishedJobRow.objects.create(job=job, **_cost(job, attempt))
            if row.workload and row.step_s:
                task_send_on_commit("control.calibration_learn", [row.kind, row.model_name])
    except IntegrityError:
        # Another control process was faster.
        return False
    _log.info("job %s: kept what it cost", job.pk)
    return True


def _cost(job: Job, attempt: JobAttempt) -> dict[str, Any]:
    timing = _timing(job)
    made = epochs_made(job, timing)
    ran = ran_on(job, attempt)
    if made is not None:
        ran = _of_epochs(ran, made, job)
    start_s, load_s = _start_s(job, attempt), _positive(timing.get("load_s"))
    energy_j, energy_basis = _energy(list(DeviceUse.objects.filter(job=job)))
    return {
        **ran,
        "family": job.family,
        "step_s": step_s_of(job, timing, shared=ran["mode"] not in STAGED and _is_alike(job, attempt)),
        "start_s": start_s,
        "load_s": load_s if start_s is not None and load_s is not None and load_s < start_s else None,
        "run_s": _run_s(job),
        "peak_bytes": _positive(timing.get("peak_bytes")),
        "energy_j": energy_j,
        "energy_basis": energy_basis,
        "run_comparable": _is_whole(job, attempt) and (made is None or bool(ran["predicted"].get("epoch_s"))),
        "finished_at": job.finished_at or timezone.now(),
    }


def ran_on(job: Job, attempt: JobAttempt) -> dict[str, Any]:
    """`kind`, `model_name`, `count`, `mode`, `predicted`, `workload` and `allocation`, as in `FinishedJobRow`."""
    uses = list(DeviceUse.objects.filter(job=job, token=attempt.number))
    on_gpu = any(rank.device.startswith(DeviceKind.CUDA) for rank in attempt.run_plan.ranks[:1])
    kind = uses[0].device_kind if uses else (DeviceKind.CUDA if on_gpu else DeviceKind.CPU).value
    model_name = uses[0].device_model if uses else ""
    count = attempt.world_size if attempt.width else len(uses) or attempt.world_size
    mode = attempt.run_plan.mode
    priced_as = _priced_as(attempt, model_name)
    predicted = forecast_of(job, kind=kind, model_name=priced_as, count=count, mode=mode)
    return {
        "kind": kind,
        "model_name": model_name,
        "count": count,
        "mode": mode,
        "predicted": predicted,
        "workload": workload_of(job) if _teaches(job, attempt, mode) and priced_as == model_name else {},
        "allocation": predicted.get("allocation") or {},
    }


def _teaches(job: Job, attempt: JobAttempt, mode: str) -> bool:
    """Who writes the program writes what it tells of its pace too: only our own teach the model of everybody.

    Nor do stages (their pace is not that of a model), devices that were declared slower than they are, and runs whose
    number of ranks changed on the way.
    """
    return not (job.own_code or mode in STAGED or attempt.width)


def _priced_as(attempt: JobAttempt, model_name: str) -> str:
    """What its devices are called in estimates: a declared slowdown, or a mixture of models, is part of it."""
    told = attempt.option.get("model_name")
    if told:
        return str(told)
    factors = [rank.slowdown for rank in attempt.run_plan.ranks]
    return declared_name(model_name, max(factors, default=1.0))


def _timing(job: Job) -> dict[str, Any]:
    """`timing` of results.json. The ranks wrote it: every value is checked before use."""
    try:
        timing = job_results(job).get("timing")
    except HarnessError:
        return {}
    return timing if isinstance(timing, dict) else {}


def _positive(value: Any) -> float | None:
    """A figure that a run may have: everybody's means and pictures are made of it."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and LEAST <= value <= MOST
    return float(value) if good else None


def step_s_of(job: Job, timing: dict[str, Any], *, shared: bool = True) -> float | None:
    """Median seconds per step: rows of a step over the rates that all ranks told while training.

    Where these do not add up to the rows of a step, by what the attempt told of itself: ranks that do not share out the
    rows (stages of a model), and attempts or widths before this one, which may have had other devices and more ranks.
    """
    batch = (job.resolved.get("spec") or {}).get("training", {}).get("batch_size")
    if not isinstance(batch, int) or batch < 1:
        return None
    rates: dict[str, list[float]] = {}
    points = MetricPoint.objects.filter(job=job, key__startswith="rank", key__endswith="/samples_per_s")
    for key, value in points.values_list("key", "value"):
        if value is not None and value > 0:
            rates.setdefault(key, []).append(value)
    if shared and rates and min(len(values) for values in rates.values()) >= RATES_LEAST:
        return _positive(batch / sum(median(values) for values in rates.values()))
    told = _positive(timing.get("samples_per_s"))
    return _positive(batch / told) if told else None


def _start_s(job: Job, attempt: JobAttempt) -> float | None:
    """From the start of the ranks to the first step, as the run told it."""
    events = JobEvent.objects.filter(job=job, kind="state", new_state=JobState.RUNNING, token=attempt.number)
    event = events.order_by("-pk").first()
    return _positive(event.data.get("start_s")) if event else None


def _run_s(job: Job) -> float | None:
    """From the start of the ranks to the end, over all attempts: what was lost was spent as well."""
    spans = [
        (attempt.ended_at - (attempt.started_at or attempt.created_at)).total_seconds()
        for attempt in job.attempts.all()
        if attempt.ended_at is not None
    ]
    return sum(seconds for seconds in spans if seconds > 0) or None


def _energy(uses: list[DeviceUse]) -> tuple[float | None, str]:
    """Energy of all devices, and the weakest basis among them."""
    total = sum(use.energy_j for use in uses)
    order = [basis.value for basis in (Basis.MEASURED, Basis.MODELLED, Basis.ASSUMED)]
    known = [use.energy_basis for use in uses if use.energy_basis in order]
    return (total, max(known, key=order.index)) if total > 0 and known else (None, "")


def epochs_made(job: Job, timing: dict[str, Any]) -> int | None:
    """Epochs of a run that stopped early; None where it made all of them, or nobody knows."""
    done = _positive(timing.get("epochs"))
    return int(done) if done is not None and 1 <= done < epochs_planned(job) else None


def epochs_planned(job: Job) -> int:
    """By its spec; 0: not known."""
    epochs = (job.resolved.get("spec") or {}).get("training", {}).get("epochs")
    return epochs if isinstance(epochs, int) else 0


def _of_epochs(ran: dict[str, Any], made: int, job: Job) -> dict[str, Any]:
    """What `ran_on` tells, over the epochs that were made: forecast, and what the model learns from.

    An estimate that does not say what an epoch takes, as older ones, stays as it is: nothing is held against it.
    """
    if not ran["predicted"].get("epoch_s"):
        return ran
    predicted = estimate_from(ran["predicted"]).of_epochs(made, epochs_planned(job)).to_dict()
    return {**ran, "predicted": predicted, "workload": ran["workload"] and {**ran["workload"], "epochs": made}}


def _is_whole(job: Job, attempt: JobAttempt) -> bool:
    """Whether one attempt of one width made the whole run, or all of it until it stopped: no resumed part."""
    return _is_alike(job, attempt) and not attempt.run_plan.resume_from


def _is_alike(job: Job, attempt: JobAttempt) -> bool:
    """Whether it had the same devices from its beginning to its end."""
    return job.attempts.count() == 1 and not attempt.width
