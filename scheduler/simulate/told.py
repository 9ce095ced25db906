"""What the estimator told of a job of our own history: the ways to run it that it never tried."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from scheduler.simulate.pool import Part, SimPool
from scheduler.simulate.traces import Way
from scheduler.types import Option


def told_options(ran: Option, ways: Iterable[Way], pool: SimPool) -> tuple[Option, ...]:
    """As the job ran first, then as it was told that it could, on devices that the pool has and in gangs that fit.

    `ran`: as it did run. All estimates of a job err alike: they are scaled by what it took over what was told of that.
    """
    ways = tuple(ways)
    own = next((way for way in ways if (way.kind, way.count) == (ran.kind, ran.count)), None)
    factor = ran.run_s / own.run_s if own else 1.0
    first = replace(ran, model_name=_model_of(ran, own, pool), mode=own.mode if own else "")
    found = [first] if first.count <= pool.most(first.kind, first.model_name) else []
    for part in pool.parts:
        most, done = pool.most(part.kind, part.model), first.count if first.key == (part.kind, part.model) else 0
        likely = (way for way in _ways_on(part, ways, own) if way.count <= most and way.count != done)
        found += [_option(part, way, factor) for way in likely]
    return tuple(dict.fromkeys(found))


def _model_of(ran: Option, own: Way | None, pool: SimPool) -> str:
    """The pool's model of device that it ran on; empty where nobody can tell which."""
    models = {part.model for part in pool.parts if part.kind == ran.kind}
    if own and own.model in models:
        return own.model
    return min(models) if len(models) == 1 else ""


def _ways_on(part: Part, ways: Sequence[Way], own: Way | None) -> list[Way]:
    """What was told of such devices; of a model that nothing was told of, what was told of the one that it ran on."""
    like = [way for way in ways if way.kind == part.kind]
    model = part.model
    if like and all(way.model != model for way in like):
        model = own.model if own and own.kind == part.kind else like[0].model
    return [way for way in like if way.model == model]


def _option(part: Part, way: Way, factor: float) -> Option:
    return Option(
        kind=way.kind,
        count=way.count,
        model_name=part.model,
        mode=way.mode,
        rate_per_s=1.0 / (way.run_s * factor),
        power_w=way.power_w or way.count * part.power.busy_w,
    )
