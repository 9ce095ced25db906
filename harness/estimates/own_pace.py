"""What the steps that a run has made say of its pace: a probe that nobody had to ask for. Reads only."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from codegen.modes import STAGED
from harness.estimates.models import Inspection
from harness.estimates.probes import Key, batch_size, probes_of
from harness.jobs.models import DeviceUse, Job, JobAttempt, MetricPoint
from scheduler.estimation.probe import Probe
from scheduler.estimation.values import Allocation, Basis
from scheduler.offers.words import devices_words
from worker.shares import even
from worker.words import counted, step_words

_log = logging.getLogger(__name__)
SPANS_LEAST = 3
"""Below so many timed stretches of steps a run says less than what was foretold."""
OWN = (
    "Steps are counted by the run's own pace so far: {} each on {}, over {}. Other numbers of these devices follow it."
)


def probes_known(inspection: Inspection | None, job: Job | None) -> dict[Key, Probe]:
    """Of each kind of device what its program showed there: what the job's own run did counts more than a probe."""
    found = probes_of(inspection) if inspection else {}
    own = own_probe(job) if job else None
    if own is not None:
        found[own.key] = _with_rest(own, found.get(own.key))
    return found


def own_probe(job: Job) -> Probe | None:
    """The newest attempt as a probe of its devices; None where it says little, or where they were not alike, on one
    node and as many all the time."""
    attempt = job.attempts.order_by("-number").first()
    if attempt is None or attempt.width or attempt.run_plan.mode in STAGED:
        return None
    uses = list(DeviceUse.objects.filter(job=job, token=attempt.number))
    slowdown, *others = {rank.slowdown for rank in attempt.run_plan.ranks}
    alike = {(use.device_kind, use.device_model, use.node_name) for use in uses}
    step_s = _step_times(job, attempt)
    if len(alike) != 1 or others or len(step_s) < SPANS_LEAST:
        return None
    out = len(step_s) // 4  # stretches in which something else was at work
    middle = sorted(step_s)[out : len(step_s) - out]
    try:
        return Probe(
            allocation=_allocation(job, attempt, uses),
            step_s=tuple(seconds / slowdown for seconds in middle),
            power_w=_power_w(uses),
        )
    except ValueError as error:  # a program may claim any rate
        _log.info("job %s: its pace is not believed: %s", job.pk, error)
        return None


def own_notes(probes: Mapping[Key, Probe], job: Job | None) -> list[str]:
    """That the job's own pace counts, where it does."""
    own = own_probe(job) if job else None
    if own is None or own.key not in probes:
        return []
    times = counted(len(own.step_s), "timed stretch", "timed stretches")
    return [OWN.format(step_words(median(own.step_s)), devices_words(own.allocation), times)]


def _with_rest(own: Probe, before: Probe | None) -> Probe:
    """With what only a probe tells: memory, and the reading of rows."""
    if before is None:
        return own
    rows = before.peak_rows or max(before.allocation.batch_split)
    return replace(own, peak_bytes=before.peak_bytes, peak_rows=rows, load_row_s=before.load_row_s)


def _step_times(job: Job, attempt: JobAttempt) -> list[float]:
    """Seconds of a step in each stretch that all ranks of the attempt told of: its rows over the rates of all."""
    points = MetricPoint.objects.filter(
        job=job, key__startswith="rank", key__endswith="/samples_per_s", value__gt=0,
        time_s__gte=attempt.created_at.timestamp(),
    )  # fmt: skip
    rates: dict[str, list[float]] = defaultdict(list)
    for key, value in points.order_by("step").values_list("key", "value"):
        rates[key] += [value] if value else []
    if len(rates) != len(attempt.run_plan.ranks):
        return []
    return [batch_size(job) / sum(each) for each in zip(*rates.values(), strict=False)]


def _allocation(job: Job, attempt: JobAttempt, uses: Sequence[DeviceUse]) -> Allocation:
    """What it ran on, by the device's own name: probes are made at its own speed."""
    ranks, one = attempt.run_plan.ranks, uses[0]
    shares = sum(1 + len(rank.others) for rank in ranks)
    return Allocation(
        kind=one.device_kind, model_name=one.device_model, count=len(uses), mode=attempt.run_plan.mode,
        batch_split=even(batch_size(job), shares), threads=ranks[0].threads,
    )  # fmt: skip


def _power_w(uses: Sequence[DeviceUse]) -> float | None:
    """Of all devices, where meters told it."""
    spans_s = [(use.ended_at - use.started_at).total_seconds() for use in uses]
    if any(use.energy_basis != Basis.MEASURED for use in uses) or min(spans_s) <= 0:
        return None
    return sum(use.energy_j / span_s for use, span_s in zip(uses, spans_s, strict=True)) or None
