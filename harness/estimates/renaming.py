"""Ways that jobs may be run, when the names of their devices change because a pace was measured.

The figures are scaled, never to less than they were; `control.estimates_renew` prices them anew a moment later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from codegen.modes import ONE_PROCESS
from harness.estimates.groups import most_together, option_there
from harness.estimates.models import JobEstimate
from harness.estimates.openings import Key
from harness.estimates.promising import option_of
from harness.jobs.models import Job
from harness.jobs.options import job_options_set, wanted_memory_bytes
from harness.pool.paces import PaceChange
from scheduler.estimation.values import Estimate
from scheduler.kinds import Parts, kind_name, mixed_name, real_name
from scheduler.offers.values import estimate_from
from worker.states import HOLDS_DEVICES, TERMINAL


def ways_rename(kind: str, model_name: str, changed: Collection[PaceChange]) -> int:
    """Give all jobs that have not ended the ways on devices whose names changed; return how many jobs got some.

    A way stays for as long as the pool has its devices; of a job that runs it stays anyhow, for its forecast. Call it
    in the transaction that changes the names.
    """
    most = most_together()
    rows = JobEstimate.objects.filter(job__deleted_at=None).exclude(job__state__in=TERMINAL)
    count = 0
    for kept in rows.exclude(job__options=[]).select_related("job"):
        before = [estimate_from(body) for body in (kept.estimate, *kept.ways)]
        after = _renamed(before, kind, model_name, changed, most, stays=kept.job.state in HOLDS_DEVICES)
        if after != before:
            count += 1
            _keep(kept.job, after)
    return count


def _keep(job: Job, ways: Sequence[Estimate]) -> None:
    first, *others = (way.to_dict() for way in ways)
    JobEstimate.objects.filter(job=job).update(estimate=first, ways=others)
    options = [option_of(way, wanted_memory_bytes(job)) for way in ways]
    job_options_set(job, options, slowdown=max(option.slowdown for option in options))


def _renamed(
    ways: Sequence[Estimate],
    kind: str,
    model_name: str,
    changed: Collection[PaceChange],
    most: Mapping[Key, int],
    *,
    stays: bool,
) -> list[Estimate]:
    """The ways, and after them their like on devices of new names."""
    more = [
        _on(way, parts)
        for way in ways
        if way.allocation.kind == kind
        for parts in _parts_since(way, model_name, changed, most)
        if parts != way.allocation.by_model
    ]
    known = {_way(way) for way in ways}
    more = [way for way in more if _way(way) not in known and option_there(option_of(way), most)]
    if not more:
        return list(ways)
    old = [way for way in ways if stays or option_there(option_of(way), most)]
    return [*old, *{_way(way): way for way in more}.values()]


def _way(estimate: Estimate) -> tuple[object, ...]:
    way = estimate.allocation
    return way.kind, frozenset(way.by_model), way.mode, way.threads, way.stages, way.count


def _parts_since(
    estimate: Estimate, model_name: str, changed: Collection[PaceChange], most: Mapping[Key, int]
) -> Iterator[Parts]:
    """The way's devices by all names that they may have since."""
    way = estimate.allocation
    choices = []
    for name, count in way.by_model:
        real, found = real_name(name), [[(name, count)]]
        paces = [change.new for change in changed if (real.model_name, real.pace) == (model_name, change.old)]
        have = min(most.get((way.kind, name), 0), count - 1)
        for pace in paces:
            other = kind_name(real.model_name, real.slowdown, pace)
            found.append([(other, count)])
            if have and way.mode not in ONE_PROCESS:
                found.append([(name, have), (other, count - have)])
        choices.append(found)
    for chosen in product(*choices):
        counts: Counter[str] = Counter()
        for part in chosen:
            counts.update(dict(part))
        yield tuple(sorted(counts.items()))


def _on(estimate: Estimate, parts: Parts) -> Estimate:
    """The estimate on other devices: as long as on the slowest of them, and no shorter than before."""
    way = estimate.allocation
    slowest = max(real_name(name).pace for name, _ in parts)
    factor = max(1.0, slowest / max(real_name(name).pace for name, _ in way.by_model))
    is_mixed = len(parts) > 1
    name = mixed_name(parts) if is_mixed else parts[0][0]
    return replace(
        estimate,
        allocation=replace(way, model_name=name, parts=parts if is_mixed else ()),
        step_s=estimate.step_s.scaled(factor),
        run_s=estimate.run_s.scaled(factor),
        energy_j=estimate.energy_j.scaled(factor),
        epoch_s=estimate.epoch_s * factor,
    )
