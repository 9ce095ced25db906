"""What a run on a mixture of unlike devices of one kind costs. Pure.

    step = max over models of (seconds of a rank on it for its rows) + allreduce over the slowest link

The rows are shared out as a run begins with (`scheduler.estimation.split`): all ranks end together by the estimates. Of
a mixture each model's part is estimated as a gang of that model alone with the same number of ranks, at the largest
share that a rank of it has; the mixture takes the worst of each figure, and the power of all. So does one in stages:
that a run cuts the model by the speed and the memory of each device is not counted on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from codegen.modes import STAGED
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.estimate import estimate_all, worst
from scheduler.estimation.foreseen import rows_foreseen
from scheduler.estimation.in_precision import of_gang
from scheduler.estimation.probe import Probe
from scheduler.estimation.split import Member, gang_split, lone_seconds, most_rows, rank_line
from scheduler.estimation.steps import Steps
from scheduler.estimation.values import Allocation, Estimate, Interval
from scheduler.offers.candidates import Candidate
from scheduler.offers.words import split_words
from scheduler.workload import Workload
from worker.shares import Line


def mixed_estimates(
    steps: Steps,
    ways: Sequence[Candidate],
    models: Mapping[str, DeviceModel],
    *,
    probes: Mapping[tuple[str, str], Probe] | None = None,
    even_shares: bool = False,
) -> dict[Allocation, Estimate]:
    """What runs on mixtures cost, by the candidates' allocations; without those where a device would only delay the
    others.

    `steps`: the same as for ways on like devices. `models`: by the names in the parts. `even_shares`: as the person
    wants it, not by speed.
    """
    found: dict[Allocation, Estimate] = {}
    for workload, alike in _by_precision(steps.workload, ways):
        if workload is steps.workload:
            found |= _mixed(steps, alike, models, probes or {}, even_shares)
        else:  # probes ran on one device, in what that takes alone
            own = Steps(workload, rows_foreseen(workload, (way.allocation for way in alike)))
            found |= _mixed(own, alike, models, {}, even_shares)
    return found


def _by_precision(workload: Workload, ways: Sequence[Candidate]) -> list[tuple[Workload, list[Candidate]]]:
    """The program as it computes on some mixtures: what is best for one model another may not be built for."""
    found: dict[str, tuple[Workload, list[Candidate]]] = {}
    for way in ways:
        agreed = of_gang(workload, [(way.allocation.kind, name) for name, _ in way.allocation.parts])
        found.setdefault(agreed.precision, (agreed, []))[1].append(way)
    return list(found.values())


def _mixed(
    steps: Steps,
    ways: Sequence[Candidate],
    models: Mapping[str, DeviceModel],
    probes: Mapping[tuple[str, str], Probe],
    even_shares: bool,
) -> dict[Allocation, Estimate]:
    split = _Split(steps, models)
    shared = {
        way.allocation: way.allocation if even_shares or way.allocation.mode in STAGED else split.of(way)
        for way in ways
    }
    alone: dict[str, list[tuple[Allocation, float | None]]] = {name: [] for name in models}
    for way in ways:
        found = shared[way.allocation]
        for (name, one), limit in zip(_alone(found), way.part_limits_bytes, strict=True):
            alone[name].append((one, limit))
    priced = {
        name: iter(estimate_all(steps, pairs, models[name], probe=probes.get(models[name].measured_key)))
        for name, pairs in alone.items()
    }
    estimates = {}
    for way in ways:
        found = shared[way.allocation]
        each = [next(priced[name]) for name, _ in found.parts]
        if all(found.batch_split):
            estimates[way.allocation] = _together(found, each)
    return estimates


def _alone(allocation: Allocation) -> Iterator[tuple[str, Allocation]]:
    """Each part as a gang of its model alone, with as many ranks, at the largest share that one of it has."""
    first = 0
    for name, count in allocation.parts:
        rows = max(1, *allocation.batch_split[first : first + count])
        first += count
        yield name, replace(allocation, model_name=name, parts=(), batch_split=(rows,) * allocation.count)


class _Split:
    """Rows per rank as a run would begin, of many mixtures of the same models."""

    def __init__(self, steps: Steps, models: Mapping[str, DeviceModel]) -> None:
        """What is looked at is kept: mixtures differ in little."""
        self._workload, self._models = steps.workload, models
        own_speed = {model.measured_key: replace(model, slowdown=1.0) for model in models.values()}
        own_s = {key: lone_seconds(steps, model) for key, model in own_speed.items()}
        self._alone = {
            name: [(rows, seconds * model.slowdown) for rows, seconds in own_s[model.measured_key]]
            for name, model in models.items()
        }
        self._line = lru_cache(maxsize=None)(self._line_of)
        self._most = lru_cache(maxsize=None)(self._most_of)

    def of(self, way: Candidate) -> Allocation:
        """The allocation with its shares; even ones where the memory is too small for any split."""
        allocation = way.allocation
        members: list[Member] = []
        for (name, count), limit in zip(allocation.parts, way.part_limits_bytes, strict=True):
            line = self._line(name, allocation.count, allocation.ranks_together, allocation.threads)
            members += [Member(name=name, seconds_of=line, most=self._most(name, limit))] * count
        try:
            shares = gang_split(self._workload.global_batch_size, members).shares
        except ValueError:
            return allocation
        return replace(allocation, batch_split=shares)

    def _line_of(self, name: str, ranks: int, together: int, threads: int) -> Line:
        model, alone = self._models[name], self._alone[name]
        return rank_line(self._workload, model, ranks=ranks, together=together, threads=threads, alone=alone)

    def _most_of(self, name: str, limit_bytes: int) -> int:
        return most_rows(self._workload, self._models[name], limit_bytes)


def _together(allocation: Allocation, each: Sequence[Estimate]) -> Estimate:
    """The worst of each figure: ranks wait for the slowest, and the run for the last to start."""
    part_w = [
        one.power_w * count / one.allocation.count for one, (_, count) in zip(each, allocation.parts, strict=True)
    ]
    power_w = sum(part_w)
    # As if all were off to the same side: tables and meters of one kind of device may well be.
    power_half = sum(watts * one.power_half for watts, one in zip(part_w, each, strict=True)) / max(power_w, 1e-9)
    run_s = _latest([one.run_s for one in each])
    return Estimate(
        allocation=allocation,
        step_s=_latest([one.step_s for one in each]),
        run_s=run_s,
        peak_bytes=_latest([one.peak_bytes for one in each]),
        power_w=power_w,
        power_half=power_half,
        energy_j=run_s.times(power_w, power_half),
        fits=all(one.fits for one in each),
        time_basis=worst(*(one.time_basis for one in each)),
        memory_basis=worst(*(one.memory_basis for one in each)),
        energy_basis=worst(*(one.energy_basis for one in each)),
        epoch_s=max(each, key=lambda one: one.run_s.mid).epoch_s,
        start_s=max(one.start_s for one in each),
        note="; ".join(dict.fromkeys(filter(None, (split_words(allocation), *(one.note for one in each))))),
    )


def _latest(ranges: Sequence[Interval]) -> Interval:
    ends = {name: max(getattr(one, name) for one in ranges) for name in ("low", "mid", "high")}
    return Interval(**ends, level=ranges[0].level)
