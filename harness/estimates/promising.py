"""What the scheduler would promise of each way of an offer: it is asked, so that both never differ. Reads only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from django.utils import timezone

from harness.estimates.bringing import dataset_of_offer
from harness.estimates.models import OfferRow
from harness.jobs.control.views import facts_read
from scheduler.admit import promisable
from scheduler.estimation.values import Allocation, Estimate
from scheduler.offers.candidates import Candidate
from scheduler.offers.promisable import Promisable
from scheduler.types import JobView, Option


def option_of(estimate: Estimate, memory_bytes: int = 0) -> Option:
    """The way as the scheduler takes it. `memory_bytes`: what the person fixed; 0: the share of the devices."""
    way, run_s = estimate.allocation, estimate.run_s
    return Option(
        kind=way.kind,
        model_name=way.model_name,
        count=way.count,
        mode=way.mode,
        rate_per_s=1.0 / run_s.mid if run_s.mid > 0 else 0.0,
        power_w=estimate.power_w,
        memory_bytes=memory_bytes,
        parts=way.parts,
        slowdown=max(1.0, run_s.high / run_s.mid) if run_s.mid > 0 else 0.0,
        start_s=estimate.start_s,
        stages=way.stages,
    )


def with_promises(
    row: OfferRow, ways: tuple[Candidate, ...], estimates: Mapping[Allocation, Estimate]
) -> tuple[Candidate, ...]:
    """The ways with what would be promised of each; as they are where no finish is asked for, or where the pool's
    policy cannot tell it of so many.

    `estimates`: of what is left of the run. All are asked about at once and outside the scheduler's turn: others may be
    promised the same devices meanwhile, which shows at submission.
    """
    if row.deadline_at is None or row.deadline_at <= timezone.now():
        return ways
    fitting = [way for way in ways if way.within_quota and estimates[way.allocation].fits]
    options = {way.allocation: option_of(estimates[way.allocation], row.memory_bytes) for way in fitting}
    found = _ask(row, options, fitting) if options else {}
    if found is None:
        return ways
    promised = {allocation: found.get(option) for allocation, option in options.items()}
    return tuple(
        replace(way, promised=promised.get(way.allocation), promisable=promised.get(way.allocation) is not None)
        for way in ways
    )


def _ask(
    row: OfferRow, options: Mapping[Allocation, Option], ways: Sequence[Candidate]
) -> Mapping[Option, Promisable] | None:
    facts, job = facts_read(with_delayed=True), row.job
    view = JobView(
        job_id=job.pk if job else "",
        options=tuple(options.values()),
        submitted_s=facts.now_s,
        project=row.project_id or "",
        minimum_sandbox_level=facts.setting.minimum_sandbox_level(own_code=job is not None and job.own_code),
        data=facts.ways.of(dataset_of_offer(row)),
    )
    ready_s = {options[way.allocation]: facts.now_s + way.before.time_s for way in ways}
    return promisable(
        view, facts.views, facts.pool, facts.now_s, policy=facts.setting.policy, quotas=facts.quotas, ready_s=ready_s
    )
