"""What the estimator told of jobs, as the simulator takes it (`dlh simulate --estimator`)."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import QuerySet

from harness.estimates.models import JobEstimate
from harness.jobs.models import Job
from scheduler.estimation.values import Estimate
from scheduler.offers.values import Hindrance, Offer, estimate_from
from scheduler.simulate.traces import Way

ROWS_AT_ONCE = 200
"""Of offers, which have hundreds of lines each."""
_NO_WAY = frozenset({Hindrance.MEMORY, Hindrance.NOT_WISHED})
"""Lines that the job could not be run by, or that its owner did not want; a quota or a deadline says neither."""


def ways_told(jobs: QuerySet[Job]) -> dict[str, list[Way]]:
    """Id of a job -> the ways to run it, the submitted one first; mixtures of unlike devices are left out."""
    rows = JobEstimate.objects.filter(job__in=jobs.values("pk")).select_related("offer")
    return {row.job_id: list(dict.fromkeys(map(_way, _estimates(row)))) for row in rows.iterator(ROWS_AT_ONCE)}


def _estimates(row: JobEstimate) -> Iterator[Estimate]:
    """Of the whole run, as far as they can be read: rows may be of a release before this one."""
    try:
        found = [estimate_from(body) for body in (row.estimate, *row.ways)]
        if row.offer is not None and row.offer.body:
            offer = Offer.from_dict(row.offer.body)
            lines = [line for line in offer.lines if line.hindrance not in _NO_WAY]
            found += [line.estimate.of_share(1.0 / offer.left) for line in lines]
    except (KeyError, TypeError, ValueError):
        return
    yield from (item for item in found if not item.allocation.parts and item.run_s.mid > 0)


def _way(estimate: Estimate) -> Way:
    way = estimate.allocation
    return Way(
        kind=way.kind, count=way.count, run_s=estimate.run_s.mid, power_w=estimate.power_w, model=way.model_name,
        mode=way.mode, power_basis=str(estimate.energy_basis),
    )  # fmt: skip
