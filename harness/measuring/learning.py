"""What a finished job cost, beside what was foretold; and what the model of its device learns from it.

A job's row is written by control some moments after its end, at the latest by the beat: no job waits for it, and
nothing that goes wrong here touches the job.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from statistics import median
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from codegen.modes import STAGED
from harness.broker import task_send_on_commit
from harness.calibration.models import FinishedJobRow
from harness.errors import HarnessError, Unavailable
from harness.jobs.control.parts import nodes_of
from harness.jobs.models import DeviceUse, Job, JobAttempt, JobEvent, MetricPoint
from harness.jobs.results import job_results
from harness.measuring.ran import ran_on
from harness.measuring.stretches import RATES_LEAST, Stretch, stretches_of
from harness.measuring.tried import Tried
from scheduler.estimation.values import Basis
from scheduler.offers.values import estimate_from
from worker.events import Outcome
from worker.states import JobState

LOOK_BACK = timedelta(days=2)
"""Jobs that ended longer ago and have no row are let be."""
RESULTS_AWAITED = timedelta(days=1)
"""For so long a job has no row while its results cannot be read; then one without what they tell."""
LEAST, MOST = 1e-9, 1e18
"""No second, byte or rate that a run tells lies beyond."""
BATCH = 50
LATE_S = 5.0
"""A node that begins its part so much later than another one fetched data, for which the others waited: that is no part
of a start, and is foretold by itself."""
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
    """Keep what a job that has succeeded cost, and have the models of its devices corrected. Once per job.

    Returns False where there is nothing to keep, or not yet.
    """
    job = Job.objects.filter(pk=job_id, state=JobState.SUCCEEDED, finished_cost=None).first()
    if job is None:
        return False
    attempt = job.attempts.filter(outcome=str(Outcome.SUCCEEDED)).order_by("-number").first()
    if attempt is None:
        return False
    parts = stretches_of(job) if not _is_alike(job, attempt) else []
    try:
        whole = _cost(job, attempt, parts)
    except Unavailable as error:
        _log.warning("job %s: what it cost is kept later: %s", job.pk, error)
        return False
    told = [whole, *_before(job, parts, whole)]
    common = {"own_code": job.own_code, "author": job.owner if job.own_code else None, "family": job.family}
    rows = [FinishedJobRow(job=job, part=part, **common, **cost) for part, cost in enumerate(told)]
    try:
        with transaction.atomic():
            FinishedJobRow.objects.bulk_create(rows)
            for kind, model_name in sorted({(row.kind, row.model_name) for row in rows if row.workload and row.step_s}):
                task_send_on_commit("control.calibration_learn", [kind, model_name])
    except IntegrityError:
        # Another control process was faster.
        return False
    _log.info("job %s: kept what it cost", job.pk)
    return True


def _cost(job: Job, attempt: JobAttempt, parts: Sequence[Stretch]) -> dict[str, Any]:
    """Of the whole job, with the steps on the devices that it had last."""
    timing = _timing(job)
    made = epochs_made(job, timing)
    last = parts[-1] if parts and parts[-1].attempt.pk == attempt.pk else None
    ran = ran_on(job, attempt, ranks=last.ranks if last else 0)
    if made is not None:
        ran = _of_epochs(ran, made, job)
    shared = ran["mode"] not in STAGED and _is_alike(job, attempt)
    start_s, load_s = _start_s(job, attempt), _positive(timing.get("load_s"))
    energy_j, energy_basis = _energy(list(DeviceUse.objects.filter(job=job)))
    return {
        **ran,
        "token": attempt.number,
        "step_s": _positive(last.step_s) if last else step_s_of(job, timing, shared=shared),
        "start_s": start_s,
        "load_s": load_s if start_s is not None and load_s is not None and load_s < start_s else None,
        "run_s": _run_s(job),
        # Where ranks came and went it is that of the fewest, each of which had the most rows.
        "peak_bytes": None if attempt.width else _positive(timing.get("peak_bytes")),
        "energy_j": energy_j,
        "energy_basis": energy_basis,
        "run_comparable": _is_whole(job, attempt) and (made is None or bool(ran["predicted"].get("epoch_s"))),
        "finished_at": job.finished_at or timezone.now(),
    }


def _before(job: Job, parts: Sequence[Stretch], ended: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of each other way on which it made steps before it `ended`, by the longest stretch: their time alone."""
    longest: dict[tuple[Any, ...], tuple[int, dict[str, Any]]] = {}
    for part in parts:
        ran = {**ran_on(job, part.attempt, ranks=part.ranks), "token": part.attempt.number}
        way = _way(part.attempt, ran)
        if way not in longest or part.told > longest[way][0]:
            longest[way] = (part.told, {**ran, "step_s": _positive(part.step_s)})
    if parts:
        longest.pop(_way(job.attempts.get(number=ended["token"]), ended), None)
    rest = {"run_comparable": False, "finished_at": ended["finished_at"]}
    return [{**ran, **rest} for _, ran in longest.values()]


def _way(attempt: JobAttempt, ran: Mapping[str, Any]) -> tuple[Any, ...]:
    return (*nodes_of(attempt), *(ran[name] for name in ("kind", "model_name", "count", "mode")))


def _timing(job: Job) -> dict[str, Any]:
    """`timing` of results.json. The ranks wrote it: every value is checked before use.

    Raises `Unavailable` where it may be there later, and the job has ended only now.
    """
    try:
        timing = job_results(job).get("timing")
    except Unavailable:
        if timezone.now() - (job.finished_at or timezone.now()) < RESULTS_AWAITED:
            raise
        return {}
    except HarnessError:
        return {}
    return timing if isinstance(timing, dict) else {}


def _positive(value: Any) -> float | None:
    """A figure that a run may have: everybody's means and pictures are made of it."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and LEAST <= value <= MOST
    return float(value) if good else None


def step_s_of(job: Job, timing: dict[str, Any], *, shared: bool = True) -> float | None:
    """Median seconds per step: rows of a step over the rates that all ranks told while training.

    Where these do not add up to the rows of a step, or are few, by what the attempt told of itself: ranks that do not
    share out the rows (stages of a model), and attempts or widths before this one, which may have had other devices.
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
    """From the start of the ranks to the first step, as the run told it; None where a node came late."""
    events = JobEvent.objects.filter(job=job, token=attempt.number)
    ran = events.filter(kind="state", new_state=JobState.RUNNING).order_by("-pk").first()
    if ran is None:
        return None
    came = events.filter(kind="attempt", pk__lt=ran.pk).values_list("at", flat=True)
    if came and (max(came) - min(came)).total_seconds() > LATE_S:
        return None
    return _positive(ran.data.get("start_s"))


def _run_s(job: Job) -> float | None:
    """From the start of the ranks to their end, over all attempts: what was lost was spent as well."""
    spans = [
        ((attempt.released_at or attempt.ended_at) - (attempt.started_at or attempt.created_at)).total_seconds()
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
    return int(done) if done is not None and 1 <= done < job.epochs else None


def _of_epochs(ran: dict[str, Any], made: int, job: Job) -> dict[str, Any]:
    """What `ran_on` tells, over the epochs that were made: forecast, and what the model learns from.

    An estimate that does not say what an epoch takes, as older ones, stays as it is: nothing is held against it.
    """
    if not ran["predicted"].get("epoch_s"):
        return ran
    predicted = estimate_from(ran["predicted"]).of_epochs(made, job.epochs).to_dict()
    return {**ran, "predicted": predicted, "workload": ran["workload"] and {**ran["workload"], "epochs": made}}


def _is_whole(job: Job, attempt: JobAttempt) -> bool:
    """Whether one attempt of one width made the whole run, or all of it until it stopped: no resumed part."""
    return _is_alike(job, attempt) and not attempt.run_plan.resume_from


def _is_alike(job: Job, attempt: JobAttempt) -> bool:
    """Whether it had the same devices from its beginning to its end."""
    return job.attempts.count() == 1 and not attempt.width
