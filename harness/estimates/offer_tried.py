"""On which devices a few real steps of an offer's program are tried, and with how many rows. Reads only."""

from __future__ import annotations

from dataclasses import replace

from harness.estimates.models import OfferRow
from harness.estimates.selectors import offer_priced
from harness.estimates.tried import Tried, batch_size, gang_rows, tried_of_way, wanted_mode
from harness.jobs.models import Job
from harness.jobs.options import wanted_devices
from scheduler.estimation.values import Allocation
from scheduler.kinds import real_name
from scheduler.offers.recommend import takes
from scheduler.offers.values import Wish
from scheduler.workload import Workload


def offer_tried(offer: OfferRow, job: Job, *, kind: str = "", model_name: str = "") -> list[Tried]:
    """What to try, the best first: on what is asked for or what the person fixed, else on what is recommended, else on
    any device. With the rows of one rank of the way that is recommended there, or fixed."""
    wish = Wish(**(offer.wish or {}))
    if not kind and not model_name:
        kind, model_name = wish.kind or "", wish.model_name or ""
    way, workload = _way(offer, wish, kind, model_name), offer.inspection.workload if offer.inspection else None
    if way is None or workload is None:
        return [Tried(kind=kind, model_name=model_name, rows=_rows_fixed(job, wish))]
    alike = tried_of_way(way, Workload.from_dict(workload))
    best = alike[0]
    if model_name:
        named = real_name(model_name)[0]
        return [tried for tried in alike if real_name(tried.model_name)[0] == named] or alike
    return [*alike, replace(best, model_name=""), *([] if kind else [replace(best, kind="", model_name="")])]


def _way(offer: OfferRow, wish: Wish, kind: str, model_name: str) -> Allocation | None:
    """The recommended way, on such devices as far as they are named; else the first that the person's choices allow."""
    priced = offer_priced(offer)
    if priced is None:
        return None
    best = priced.chosen or priced.likeliest
    lines = [*([best] if best else []), *(line for line in priced.lines if takes(line)), *priced.lines]
    ways = [line.allocation for line in lines if wish.allows(line.allocation) and kind in ("", line.allocation.kind)]
    return next((way for way in ways if not model_name or _has(way, model_name)), None)


def _has(way: Allocation, model_name: str) -> bool:
    """Whether it is of such devices, by whatever name, be it that of a mixture."""
    return way.model_name == model_name or real_name(model_name)[0] in {real_name(name)[0] for name, _ in way.by_model}


def _rows_fixed(job: Job, wish: Wish) -> int:
    """Of a rank, where no way is known: by what the person asked for, else by the spec."""
    count = wish.count or wanted_devices(job)[1]
    return gang_rows(batch_size(job), count, wish.mode or wanted_mode(job))
