"""How a job of our own history may run: as it did, and in the ways that the estimator told of it and it never tried."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from scheduler.estimation.values import Basis
from scheduler.simulate.models import is_named, model_meant
from scheduler.simulate.pool import Part, SimPool
from scheduler.simulate.power import Power
from scheduler.simulate.tables import as_it_ran
from scheduler.simulate.traces import TraceJob, Way
from scheduler.types import Option


def history_options(
    job: TraceJob, pool: SimPool, power: Power, *, estimator: bool
) -> tuple[tuple[Option, ...], dict[Option, Basis]]:
    """(ways to run a job, what the watts of those rest on of which the trace tells them); none where nothing fits.

    `power`: of a device of its kind. With `estimator` also as it was estimated. Raises `TraceError`, `ValueError`.
    """
    ran = as_it_ran(job, power)
    own = job.power_basis if job.power_w else None
    if estimator and job.ways:
        found = told_options(ran, job.ways, pool, ran_on=job.device_model, basis=own)
    else:
        found = dict.fromkeys(_as_ran(job, ran, pool), own)
    return tuple(found), {option: basis for option, basis in found.items() if basis is not None}


def _as_ran(job: TraceJob, ran: Option, pool: SimPool) -> tuple[Option, ...]:
    """As it ran, on devices of the model that it ran on, or on any of its kind where the trace does not say which."""
    if not job.device_model:
        return (ran,) if ran.count <= pool.most(ran.kind) else ()
    parts = {part.model: part for part in pool.parts if part.kind == ran.kind and stands_for(part, job.device_model)}
    fitting = (part for name, part in parts.items() if ran.count <= pool.most(ran.kind, name))
    return tuple(as_it_ran(job, part.power, model_name=part.model) for part in fitting)


def stands_for(part: Part, model: str) -> bool:
    """Whether devices of the pool are of this model, or nobody said of which they are."""
    return not part.named or not model or is_named(model, part.model)


def told_options(
    ran: Option, ways: Iterable[Way], pool: SimPool, *, ran_on: str = "", basis: Basis | None = None
) -> dict[Option, Basis | None]:
    """As the job ran first, then as it was told that it could, on devices that the pool has and in gangs that fit; each
    with what its watts rest on where the trace tells them.

    `ran`: as it did run, on the model `ran_on`; empty: on that of the way that it was submitted with, or nobody knows.
    `basis`: of the watts that it drew then.
    All estimates of a job err alike: they are scaled by what it took over what was told of that. On a model that
    nothing was told of it does not run. Raises `ValueError` for a name that may mean several models.
    """
    ways = tuple(ways)
    own = next((way for way in ways if (way.kind, way.count) == (ran.kind, ran.count) and _is_of(way, ran_on)), None)
    model = ran_on or (own.model if own else "")
    factor = ran.run_s / own.run_s if own else 1.0
    first = [replace(ran, model_name=name, mode=own.mode if own else "") for name in _models_of(ran, model, pool)]
    fitting = (option for option in first if option.count <= pool.most(option.kind, option.model_name))
    found: dict[Option, Basis | None] = dict.fromkeys(fitting, basis)
    for part in pool.parts:
        most = pool.most(part.kind, part.model)
        done = {option.count for option in first if option.key == (part.kind, part.model)}
        likely = (way for way in ways_on(part, ways, ran.kind, model) if way.count <= most and way.count not in done)
        for way in likely:
            found.setdefault(_option(part, way, factor), _basis_of(way))
    return found


def _basis_of(way: Way) -> Basis | None:
    """What the watts of a way rest on; none where it tells none."""
    return Basis(way.power_basis or Basis.ASSUMED) if way.power_w else None


def _is_of(way: Way, model: str) -> bool:
    return not model or not way.model or is_named(way.model, model)


def _models_of(ran: Option, model: str, pool: SimPool) -> list[str]:
    """The pool's models of device that it runs on as it ran; one without a name where that may be any of several."""
    parts = {part.model: part for part in pool.parts if part.kind == ran.kind}
    if model and any(part.named and is_named(model, name) for name, part in parts.items()):
        parts = {name: part for name, part in parts.items() if part.named}
    names = [name for name, part in parts.items() if stands_for(part, model)]
    return names if model or len(names) < 2 else [""]


def ways_on(part: Part, ways: Sequence[Way], ran_kind: str, ran_on: str) -> list[Way]:
    """What was told of such devices. Those without a model stand for the one that the job ran on, else for the only one
    of their kind that something was told of. Raises `ValueError` for a name that may mean several models."""
    like = [way for way in ways if way.kind == part.kind]
    names = {way.model for way in like}
    if part.named:
        model = model_meant(part.model, names)
        return [way for way in like if way.model == model] if model else []
    of_ran = {name for name in names if ran_on and is_named(name, ran_on)} if part.kind == ran_kind else set()
    chosen = ran_on if ran_on in of_ran else min(of_ran or names, default="") if len(of_ran or names) == 1 else None
    return [] if chosen is None else [way for way in like if way.model == chosen]


def _option(part: Part, way: Way, factor: float) -> Option:
    return Option(
        kind=way.kind,
        count=way.count,
        model_name=part.model,
        mode=way.mode,
        rate_per_s=1.0 / (way.run_s * factor),
        power_w=way.power_w or way.count * part.power.busy_w,
    )
