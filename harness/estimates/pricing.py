"""Price a workload on the whole pool: the devices there are, when they fall free, what each way costs.

Reads only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from django.utils import timezone

from codegen.modes import STAGED
from harness.calibration.known import ModelsRead
from harness.estimates.before import tests_told, with_tests
from harness.estimates.bringing import bringing_notes, with_bringing
from harness.estimates.groups import groups_read
from harness.estimates.models import OfferRow
from harness.estimates.offer_notes import (
    CUT,
    GUESSED,
    LEAST,
    LEFT,
    ONLY,
    UNCUT,
    alone_notes,
    basis_notes,
    declared_notes,
    explained,
    kept_of_all,
    looks_notes,
    model_note,
    quota_notes,
    reserved_notes,
    staged_notes,
)
from harness.estimates.openings import Key, Openings, openings_read
from harness.estimates.over_nodes import link_notes, links_read, over_nodes
from harness.estimates.own_pace import own_notes
from harness.estimates.promising import with_promises
from harness.estimates.rate_wishes import untested_steps
from harness.jobs.options import work_left
from harness.pool.models import Reservation
from scheduler.estimation.alone import tells_of
from scheduler.estimation.estimate import estimate_all
from scheduler.estimation.foreseen import rows_foreseen
from scheduler.estimation.pipelines import PIPELINE, PIPELINES
from scheduler.estimation.probe import Probe
from scheduler.estimation.steps import Steps
from scheduler.estimation.values import Allocation, Estimate
from scheduler.offers.candidates import Candidate, DeviceGroup
from scheduler.offers.mixed_estimates import mixed_estimates
from scheduler.offers.recommend import candidates, recommend
from scheduler.offers.staged import UNASKED, is_unasked, why_staged, without_vain
from scheduler.offers.values import Offer, Wish
from scheduler.offers.words import bound_words
from scheduler.workload import Workload
from worker.words import percent_words

Nodes = tuple[str, ...]
LEFT_LEAST = 0.01
"""A run that has made all its steps still starts, evaluates and saves."""


def estimates_of(
    workload: Workload,
    ways: tuple[Candidate, ...],
    probes: Mapping[Key, Probe] | None = None,
    *,
    even: bool = False,
    read: ModelsRead | None = None,
) -> dict[Allocation, Estimate]:
    """Every way priced, by the candidate's allocation; each kind of device read and each step foretold once.

    Mixtures of which a device would only delay the others are left out. `even`: rows are shared out so. `read`: kinds
    of device that may have been read before.
    """
    if not ways:
        return {}
    by_kind: dict[tuple[Key, Nodes], list[Candidate]] = defaultdict(list)
    mixed: dict[tuple[str, Nodes], list[Candidate]] = defaultdict(list)
    for way in ways:
        if way.allocation.parts:
            mixed[way.allocation.kind, way.over_nodes].append(way)
        else:
            by_kind[(way.allocation.kind, way.allocation.model_name), way.over_nodes].append(way)
    keys = {key for key, _ in by_kind} | {(kind, name) for (kind, _), group in mixed.items() for name in _inside(group)}
    models, links = (read or ModelsRead()).of(keys), links_read(ways)
    steps = Steps(workload, rows_foreseen(workload, (way.allocation for way in ways)))
    found: dict[Allocation, Estimate] = {}
    for (key, nodes), group in by_kind.items():
        pairs = [(way.allocation, way.memory_limit_bytes) for way in group]
        model = over_nodes(models[key], nodes, links, workload)
        priced = estimate_all(steps, pairs, model, probe=(probes or {}).get(model.measured_key))
        found |= {estimate.allocation: estimate for estimate in priced}
    for (kind, nodes), group in mixed.items():
        of_parts = {name: over_nodes(models[kind, name], nodes, links, workload) for name in _inside(group)}
        found |= mixed_estimates(steps, group, of_parts, probes=probes, even_shares=even)
    return found


def _inside(group: Sequence[Candidate]) -> list[str]:
    """Names of the models that any of these mixtures has."""
    return sorted({name for way in group for name, _ in way.allocation.parts})


def offer_compute(
    row: OfferRow,
    workload: Workload,
    *,
    probes: Mapping[Key, Probe] | None = None,
    only: Allocation | None = None,
) -> tuple[Offer, list[str]]:
    """(the offer of `row`, what its figures rest on in sentences). `only`: what alone the program was tried on.

    Of its job what is left is priced, and what it holds itself does not stand in its way.
    """
    project, job, wish, deadline_at = row.project, row.job, Wish(**row.wish), row.deadline_at
    groups, kept = _groups_kept(row)
    read = ModelsRead()
    ways, estimates, staged = _priced(workload, groups, wish, probes, only, read)
    ways = with_tests(untested_steps(job) if job else row.untested_steps, ways, estimates, deadline_at)
    left = max(LEFT_LEAST, work_left(job)) if job else 1.0
    now = timezone.now()
    now_s = now.timestamp()

    @cache  # not read where the scheduler tells all starts
    def openings() -> Openings:
        without = job.pk if job else ""
        return openings_read(groups, project=project, without=without, with_reserved=bool(kept), now=now)

    def start_of(allocation: Allocation, run_s: float) -> float | None:
        return openings().earliest_s(_wanted(allocation), run_s, now_s)

    rest = {way.allocation: estimates[way.allocation].of_share(left) for way in ways}
    ways = with_bringing(row, with_promises(row, ways, rest), groups)
    offer = recommend(
        ways, estimate_of=lambda way: rest[way.allocation], start_of=start_of, now_s=now_s,
        deadline_s=deadline_at.timestamp() if deadline_at else None, wish=wish,
        epochs=workload.epochs if left == 1.0 else 1, epoch_steps=workload.steps_per_epoch,
    )  # fmt: skip
    is_uncut = only is None and bool(ways) and wish.mode in STAGED and workload.pieces == ()
    offer = replace(offer, left=left, text=UNCUT if is_uncut else offer.text)
    offer = explained(offer, kept, project=project, only=only)
    notes = [ONLY] if only is not None else []
    notes += _asked_notes(row, workload, offer, is_staged=staged)
    notes += own_notes(probes or {}) + alone_notes(estimates, workload, probes or {})
    notes += basis_notes(estimates, workload, probes or {}, read)
    notes += _start_notes(ways, wish, openings, now_s) + declared_notes(groups)
    notes += link_notes(ways, links_read(ways), workload) + reserved_notes(project, all_of_them=bool(kept))
    notes = [note for note in notes if note]
    return offer, notes + looks_notes(probes or {}) + tests_told(offer) + bringing_notes(offer.lines)


def _groups_kept(row: OfferRow) -> tuple[tuple[DeviceGroup, ...], list[Reservation]]:
    """(devices that the project may get, what keeps it off all of them); where something does, with reserved ones."""
    groups = groups_read(row.project, memory_bytes=row.memory_bytes)
    kept = [] if groups else kept_of_all(row.project)
    if kept:
        groups = groups_read(row.project, memory_bytes=row.memory_bytes, with_reserved=True)
    return groups, kept


def _asked_notes(row: OfferRow, workload: Workload, offer: Offer, *, is_staged: bool) -> list[str]:
    """What is priced: the wish, the model, what is left of a run, and why stages are, or are not, among the ways."""
    notes = [bound_words(offer.wish), *_model_notes(row)]
    notes += [LEFT.format(percent_words(offer.left, 0))] if offer.left < 1.0 else []
    if is_staged:
        return [*notes, CUT, *staged_notes(workload, row.job.spec if row.job else {})]
    return [*notes, why_staged(offer.chosen, offer.lines, offer.wish)] if offer.chosen else notes


def _start_notes(ways: Iterable[Candidate], wish: Wish, openings: Callable[[], Openings], now_s: float) -> list[str]:
    """What the starts rest on that the scheduler does not tell itself."""
    unasked = [way for way in ways if way.promised is None]
    if not unasked:
        return []
    within = [way.allocation for way in unasked if way.within_quota]
    guessed = [GUESSED] if openings().guessed else []
    return guessed + quota_notes([way for way in within if wish.allows(way)], openings(), now_s)


def _model_notes(row: OfferRow) -> list[str]:
    """Which model it is of, and that it leaves `resources.least` aside; of a spec without a job the row has it from
    the beginning."""
    job = row.job
    if job is None:
        return list(row.notes)
    resolved = job.resolved.get("spec") or {}
    least = (resolved.get("resources") or {}).get("least")
    dropped = isinstance(least, int) and row.wish.get("least") is None
    return [model_note(job.spec, resolved, is_own=job.program_own), *([LEAST.format(least)] if dropped else [])]


def _wanted(allocation: Allocation) -> dict[Key, int]:
    """Devices of each model."""
    return {(allocation.kind, name): count for name, count in allocation.by_model}


def _priced(
    workload: Workload,
    groups: Sequence[DeviceGroup],
    wish: Wish,
    probes: Mapping[Key, Probe] | None,
    only: Allocation | None,
    read: ModelsRead,
) -> tuple[tuple[Candidate, ...], dict[Allocation, Estimate], bool]:
    """(ways with an estimate, their estimates, whether pipelines are among them that nobody asked for)."""
    ways = candidates(workload, groups, wish=wish)
    if only is not None:
        ways = tuple(way for way in ways if tells_of(only, way.allocation, workload))
    estimates = estimates_of(workload, ways, probes, even=wish.even, read=read)
    too_large = only is None and _too_large(ways, estimates, wish)
    staged = _staged(workload, groups, wish) if too_large else ()
    staged = tuple(way for way in staged if way.allocation not in estimates)
    estimates |= estimates_of(workload, staged, probes, even=wish.even, read=read)
    ways = without_vain((*ways, *staged), estimates, wish)
    return ways, estimates, too_large and any(is_unasked(way.allocation, wish) for way in ways)


def _too_large(ways: Iterable[Candidate], estimates: Mapping[Allocation, Estimate], wish: Wish) -> bool:
    """Whether no process can hold the model and its rows on the devices that the person left open or fixed."""
    whole = [way.allocation for way in ways if wish.allows(way.allocation) and not is_unasked(way.allocation, wish)]
    asked = [estimates[allocation] for allocation in whole if allocation in estimates]
    return wish.mode is None and bool(asked) and not any(estimate.fits for estimate in asked)


def _staged(workload: Workload, groups: Sequence[DeviceGroup], wish: Wish) -> tuple[Candidate, ...]:
    """Pipelines, of which each rank holds a part of the model, whatever they do not know of the spec; of unlike
    devices, too, and of several pipelines each number of stages that is a way unasked."""
    several = (wish.stages,) if wish.stages else UNASKED
    wishes = [replace(wish, mode=PIPELINE), *(replace(wish, mode=PIPELINES, stages=stages) for stages in several)]
    found = [way for wished in wishes for way in candidates(workload, groups, wish=wished)]
    return tuple(way for way in found if way.allocation.mode in STAGED)
