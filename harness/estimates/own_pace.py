"""What the steps that a run has made say of its pace: a probe that nobody had to ask for. Reads only."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median, median_low

from codegen.modes import STAGED
from harness.estimates.models import Inspection
from harness.estimates.probes import Key, probes_of
from harness.estimates.tried import batch_size
from harness.jobs.models import DeviceUse, Job, JobAttempt, MetricPoint
from scheduler.estimation.probe import Probe
from scheduler.estimation.values import Allocation, Basis
from scheduler.offers.words import devices_words
from worker.shares import even
from worker.words import step_words

_log = logging.getLogger(__name__)
PARTS = 3
"""Of a run whose paces are compared; with fewer timed stretches it says less than what was foretold."""
OWN = "Steps count by the run's own pace so far, {} each on {}; other numbers of these devices follow it."


def probes_known(inspection: Inspection | None, job: Job | None, *, rows: int = 0) -> dict[Key, Probe]:
    """Of each kind of device what its program showed there: what the job's own run did counts more than a probe.

    `rows`: see `probes_of`.
    """
    found = probes_of(inspection, rows) if inspection else {}
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
    if len(alike) != 1 or others or len(step_s) < PARTS:
        return None
    # One stretch may be twice another by what else was at work; parts of the run differ by as much as its rest may.
    ends = [len(step_s) * part // PARTS for part in range(PARTS + 1)]
    parts = [median_low(step_s[begin:end]) / slowdown for begin, end in pairwise(ends)]
    try:
        return Probe(
            allocation=allocation_ran(job, attempt, uses),
            step_s=tuple(parts),
            own_run=True,
            power_w=_power_w(uses),
            node=uses[0].node_name,
        )
    except ValueError as error:  # a program may claim any rate
        _log.info("job %s: its pace is not believed: %s", job.pk, error)
        return None


def own_notes(probes: Mapping[Key, Probe]) -> list[str]:
    """That the job's own pace counts, where it does."""
    own = [probe for probe in probes.values() if probe.own_run]
    return [OWN.format(step_words(median(one.step_s)), devices_words(one.allocation)) for one in own]


def _with_rest(own: Probe, before: Probe | None) -> Probe:
    """With what only a probe tells: memory, and the reading of rows."""
    if before is None:
        return own
    rows = before.peak_rows or max(before.allocation.batch_split)
    own = replace(own, load_row_s=before.load_row_s, load_once_s=before.load_once_s)
    return replace(own, peak_bytes=before.peak_bytes, peak_rows=rows)


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


def allocation_ran(job: Job, attempt: JobAttempt, uses: Sequence[DeviceUse]) -> Allocation:
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
