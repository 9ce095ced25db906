"""Offers of many specs and pools stay as they were: what makes them faster changes no answer."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.estimate import estimate_all
from scheduler.estimation.prior import prior_for
from scheduler.estimation.steps import Steps
from scheduler.estimation.values import Allocation, Estimate
from scheduler.kinds import declared_name, real_name
from scheduler.offers.candidates import Candidate, DeviceGroup
from scheduler.offers.mixed_estimates import mixed_estimates
from scheduler.offers.recommend import candidates, recommend
from scheduler.offers.values import Offer, Wish
from scheduler.workload import Workload
from tests.scheduler.made_workloads import workload

GOLDEN = Path(__file__).parents[2] / "golden" / "offers.json"
NOW_S = 1_000_000.0
GIB = 2**30
SLOW = declared_name("Core", 2.0)
CORES = DeviceGroup(kind="cpu", model_name="Core", sizes=(6, 4), nodes=("n1", "n2"), memory_bytes=4 * GIB)
SLOWED = replace(CORES, model_name=SLOW, sizes=(2, 3))
GPUS = DeviceGroup(kind="cuda", model_name="NVIDIA H100", sizes=(4, 2), nodes=("n1", "n2"), memory_bytes=80 * GIB)
T4 = replace(GPUS, model_name="Tesla T4", memory_bytes=15 * GIB)
POOLS = {
    "one_core": (replace(CORES, sizes=(1,), nodes=("n1",)),),
    "cores": (CORES, SLOWED),
    "gpus": (GPUS, T4),
    "apart": (CORES, SLOWED, GPUS, T4),
    "over_nodes": tuple(replace(one, spans_nodes=True) for one in (CORES, SLOWED, GPUS, T4)),
    "quota": tuple(replace(one, quota=2) for one in (CORES, GPUS)),
}
PROGRAMS = {
    "small": workload(layers=2, batch=32),
    "wide": workload(layers=4, filters=48, batch=64),
    "half": replace(workload(layers=4, batch=64), precision="bf16", compression="fp16"),
}
WISHES = {
    "open": Wish(),
    "gpus": Wish(kind="cuda"),
    "four": Wish(count=4),
    "servers": Wish(mode="async"),
    "stages": Wish(mode="pipeline"),
    "even": Wish(even=True),
}


def model_of(kind: str, name: str) -> DeviceModel:
    real, slowdown = real_name(name)
    return replace(prior_for(kind, real), slowdown=max(1.0, slowdown))


def estimates_of(work: Workload, ways: tuple[Candidate, ...], *, even: bool) -> dict[Allocation, Estimate]:
    """As the portal prices them, of devices that nobody has measured."""
    steps, found = Steps(work), {}
    alike: dict[tuple[str, str], list[tuple[Allocation, float | None]]] = {}
    for way in ways:
        if not way.allocation.parts:
            key = way.allocation.kind, way.allocation.model_name
            alike.setdefault(key, []).append((way.allocation, way.memory_limit_bytes))
    for key, pairs in alike.items():
        found |= {one.allocation: one for one in estimate_all(steps, pairs, model_of(*key))}
    for kind in sorted({way.allocation.kind for way in ways if way.allocation.parts}):
        mixed = [way for way in ways if way.allocation.parts and way.allocation.kind == kind]
        names = {name for way in mixed for name, _ in way.allocation.parts}
        found |= mixed_estimates(steps, mixed, {name: model_of(kind, name) for name in sorted(names)}, even_shares=even)
    return found


def offer_of(program: str, pool: str, wish: str, deadline_s: float | None) -> Offer:
    work, wished = PROGRAMS[program], WISHES[wish]
    ways = candidates(work, POOLS[pool], wish=wished)
    estimates = estimates_of(work, ways, even=wished.even)
    return recommend(
        [way for way in ways if way.allocation in estimates],
        estimate_of=lambda way: estimates[way.allocation], start_of=lambda _, __: NOW_S, now_s=NOW_S,
        deadline_s=deadline_s, wish=wished, epochs=work.epochs, epoch_steps=work.steps_per_epoch,
    )  # fmt: skip


def told(offer: Offer) -> list[Any]:
    """What an offer says, figures to six digits: the last ones differ between machines."""
    lines = []
    for line in offer.lines:
        way, finish = line.allocation, line.finish_s
        run = [f"{end - NOW_S:.6g}" for end in (finish.low, finish.mid, finish.high)] if finish else []
        name = f"{way.kind} {way.model_name} {way.count} {way.mode} {way.stages}"
        figures = [f"{figure:.6g}" for figure in (line.energy_j.mid, line.estimate.peak_bytes.high)]
        lines.append(
            [name, *map(str, way.batch_split), *run, *figures, str(line.hindrance or ""), *map(str, line.marks)]
        )
    return [offer.text, *offer.changes, lines]


def all_told() -> dict[str, list[Any]]:
    """Every pool and program with every wish, with a deadline that can be kept and, of open wishes, without and with
    one that cannot."""
    found = {}
    for program in PROGRAMS:
        for pool in POOLS:
            for wish in WISHES:
                for deadline_s in (NOW_S + 36_000.0, None, NOW_S + 1.0) if wish == "open" else (NOW_S + 36_000.0,):
                    name = f"{program} {pool} {wish} {deadline_s and deadline_s - NOW_S:}"
                    found[name] = told(offer_of(program, pool, wish, deadline_s))
    return found


def digest(offer: list[Any]) -> list[str]:
    """Short enough to keep: the words, and a sum of all lines."""
    *words, lines = offer
    body = "\n".join(" ".join(line) for line in lines)
    return [*words, f"{len(lines)} lines", hashlib.sha256(body.encode()).hexdigest()[:16]]


def test_offers_of_many_specs_and_pools_stay_as_they_were() -> None:
    found = {name: digest(offer) for name, offer in all_told().items()}
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n")
    kept = json.loads(GOLDEN.read_text())
    assert found.keys() == kept.keys()
    assert not {name: (kept[name], told) for name, told in found.items() if told != kept[name]}
