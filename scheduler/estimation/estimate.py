"""`estimate`: time, memory and energy of one run of a program on one allocation, each with its range and its basis.

run_s = start + epochs x (steps x step_s + evaluated rows x forward_row_s) + checkpoints + end
energy_j = run_s x power of all devices, whose doubts are two

The last step of an epoch, which has more or fewer rows, counts by what these take.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from codegen.modes import STAGED
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.in_precision import in_precision
from scheduler.estimation.intervals import LEVEL, log_range
from scheduler.estimation.notes import note
from scheduler.estimation.peaks import or_loading, peak_interval, steps_interval
from scheduler.estimation.pipelines import staged_times
from scheduler.estimation.prior import HOST_LINK
from scheduler.estimation.probe import PROBE_RANGE, Probe
from scheduler.estimation.ranks import StepTime, most_of, rows_at_once, step_times
from scheduler.estimation.run_time import (
    CUT_S,
    RunParts,
    all_rows,
    epoch_s,
    forward_rows,
    joined_s,
    load_s,
    overhead_range,
    saves_s,
    steps_s,
)
from scheduler.estimation.steps import Steps
from scheduler.estimation.values import Allocation, Basis, Estimate, Interval
from scheduler.workload import Workload, totals_at_batch

PROBE_MOVED_RANGE = 0.08
"""More of it where the probe ran on another allocation of the same kind of device: the rest of the formula counts."""
PROBE_POWER_RANGE = 0.1
"""Half width of the log range of watts read during a few steps: meters are off by some 5 %, and a run does more than
steps. Not measured ..."""
PROBE_POWER_MOVED_RANGE = 0.15
"""... and nor is this: more of it on another allocation of the same kind of device."""
PROBE_PEAK_HEADROOM = 1.1
"""A peak seen in a few steps is nearly the peak of the run: evaluation and checkpoints may need a little more."""
BASIS_ORDER = (Basis.MEASURED, Basis.MODELLED, Basis.ASSUMED)


def worst(*bases: Basis) -> Basis:
    """The weakest of several bases."""
    return max(bases, key=BASIS_ORDER.index)


def estimate(
    workload: Workload,
    allocation: Allocation,
    model: DeviceModel,
    *,
    memory_limit_bytes: float | None = None,
    probe: Probe | None = None,
) -> Estimate:
    """What one run costs on `allocation`. `memory_limit_bytes` is of one rank; None: not limited.

    Raises `ValueError` for an allocation of another kind of device than the model's.
    """
    return estimate_all(Steps(workload), [(allocation, memory_limit_bytes)], model, probe=probe)[0]


def estimate_all(
    steps: Steps,
    ways: Sequence[tuple[Allocation, float | None]],
    model: DeviceModel,
    *,
    probe: Probe | None = None,
) -> list[Estimate]:
    """Estimates of many allocations of one kind of device (and their memory limits): the terms are looked at once.

    `steps`: the same for all kinds of device. Raises `ValueError` for a way of another device than the model's.
    """
    for allocation, _ in ways:
        if (allocation.kind, allocation.model_name) != model.key:
            raise ValueError(f"the model is of {model.key}, the allocation of {allocation.kind, allocation.model_name}")
    model = in_precision(model, steps.workload)
    times = _step_times(steps, [allocation for allocation, _ in ways], model)
    probe = probe if probe is not None and probe.allocation.kind == model.kind else None
    factor, peaks = probe_factor(steps, model, probe), _peaks(model, times)
    return [
        _estimate(steps, allocation, model, time, limit, probe, factor, peaks)
        for (allocation, limit), time in zip(ways, times, strict=True)
    ]


def _step_times(steps: Steps, allocations: Sequence[Allocation], model: DeviceModel) -> list[StepTime]:
    """Of any modes, in order."""
    whole = iter(step_times(steps, [way for way in allocations if way.mode not in STAGED], model))
    staged = iter(staged_times(steps, [way for way in allocations if way.mode in STAGED], model))
    return [next(staged if way.mode in STAGED else whole) for way in allocations]


def probe_factor(steps: Steps, model: DeviceModel, probe: Probe | None) -> float:
    """Measured over predicted step time of the probe; 1 without one, or if it ran on another kind of device.

    What its node is slower or faster than others is no part of it.
    """
    if probe is None or probe.key != model.measured_key:
        return 1.0
    as_probed = replace(model, slowdown=1.0, nodes_link=None, host_link=model.host_link and HOST_LINK)
    foretold_s = step_times(steps, [probe.allocation], as_probed)[0].step_s * model.pace_on(probe.node)
    return median(probe.step_s) / foretold_s


def _estimate(
    steps: Steps,
    allocation: Allocation,
    model: DeviceModel,
    time: StepTime,
    limit: float | None,
    probe: Probe | None,
    factor: float,
    peaks: Mapping[int, Interval],
) -> Estimate:
    probed = probe if probe is not None and probe.key == model.measured_key else None
    moved = forward_moved(steps, time, model, probed)
    time = at_probed_pace(time, probed, factor)
    step_s, time_basis = _step_interval(allocation, model, time, probed)
    parts = parts_of_run(steps.workload, allocation, model, time, probed, moved)
    run_s = _run_interval(parts, model, step_s)
    # a probe holds the whole model, a rank of a pipeline one stage of it
    foretold, its_probe = peaks[id(time.rank_totals)], None if allocation.mode in STAGED else probed
    peak, memory_basis = _peak(model, time, allocation, its_probe, foretold)
    device_w, power_half, power_basis = _device_power(model, allocation, time, probed)
    power_w = device_w * allocation.count
    return Estimate(
        allocation=allocation,
        step_s=step_s,
        run_s=run_s,
        peak_bytes=peak,
        power_w=power_w,
        power_half=power_half,
        energy_j=run_s.times(power_w, power_half),
        fits=limit is None or peak.high <= limit,
        time_basis=time_basis,
        memory_basis=memory_basis,
        energy_basis=worst(power_basis, time_basis),
        epoch_s=epoch_s(steps.workload, parts),
        start_s=parts.start_s,
        note=note(model, allocation, probed, steps.workload),
    )


def at_probed_pace(time: StepTime, probe: Probe | None, factor: float) -> StepTime:
    """What is foretold of a step, as the probe showed it. One device alone sends nothing: messages stay modelled."""
    return time.at_pace(factor, with_messages=probe is not None and not probe.is_alone)


def _step_interval(
    allocation: Allocation, model: DeviceModel, time: StepTime, probe: Probe | None
) -> tuple[Interval, Basis]:
    mid = time.step_s
    if probe is not None:
        half = PROBE_RANGE + probe.spread
        basis = Basis.MEASURED
        if probe.allocation != allocation:
            half += PROBE_MOVED_RANGE * abs(math.log2(_ways_apart(probe.allocation, allocation)))
            basis = worst(Basis.MODELLED, *_moved_bases(model, allocation, probe))
        low, high = -half, half
    else:
        low, high = log_range(model, time.near, time.disagreement)
        low, high = low - time.precision_half, high + time.precision_half
        basis = worst(model.basis, *_extra_bases(model, allocation))
    # Nobody knows yet on which node it will run: the range has to hold on the slowest and on the fastest.
    quickest, slowest = (math.log(pace) for pace in model.pace_range)
    low, high = low - time.half + quickest, high + time.half + slowest
    return Interval(low=mid * math.exp(low), mid=mid, high=mid * math.exp(high), level=LEVEL), basis


def _moved_bases(model: DeviceModel, allocation: Allocation, probe: Probe) -> list[Basis]:
    """Bases of what a probe elsewhere did not show: all that several devices add, or what lies between the nodes."""
    if probe.is_alone:
        return _extra_bases(model, allocation)
    return [model.nodes_link.basis] if model.nodes_link else []


def _extra_bases(model: DeviceModel, allocation: Allocation) -> list[Basis]:
    """Bases of what several devices add."""
    if len(allocation.batch_split) > 1:
        link = model.stages_link if allocation.mode in STAGED else model.sums_link
        return [link.basis, *([model.contention_basis] if allocation.ranks_together > 1 else [])]
    return [model.parallel_basis] if allocation.threads > 1 and model.kind == "cpu" else []


def _ways_apart(first: Allocation, second: Allocation) -> float:
    """At least 2: the larger of the ratios of devices and of rows per rank."""
    ratios = [first.count / second.count, max(first.batch_split) / max(second.batch_split), 2.0]
    return max(max(ratio, 1.0 / ratio) for ratio in ratios)


def forward_moved(steps: Steps, foretold: StepTime, model: DeviceModel, probe: Probe | None) -> float:
    """How many times as long a row of a forward pass is foretold to take as on what the probe ran on; 1 of no work."""
    if probe is None or probe.evaluation_row_s is None:
        return 1.0
    return (foretold.forward_row_s or 1.0) / (step_times(steps, [probe.allocation], model)[0].forward_row_s or 1.0)


def parts_of_run(
    workload: Workload,
    allocation: Allocation,
    model: DeviceModel,
    time: StepTime,
    probe: Probe | None,
    moved: float,
) -> RunParts:
    """The middle of the time of each part of a run: what an estimate adds up. `time`: of its steps, as the probe of
    such devices showed them; `moved`: see `forward_moved`.
    """
    ranks = len(allocation.batch_split)
    passes_s = forward_rows(workload) / ranks * time.forward_row_s
    if probe is not None and probe.evaluation_row_s is not None:
        row_s = probe.evaluation_row_s / model.pace_on(probe.node)
        passes_s = forward_rows(workload) / ranks * row_s * len(probe.allocation.batch_split) * moved
    start_s = _start_s(workload, model, allocation, probe)
    return RunParts(
        start_s=start_s + (CUT_S if allocation.mode in STAGED else 0.0),
        steps_s=steps_s(workload, time.step_s, time.last_share),
        passes_s=passes_s,
        saves_s=saves_s(workload, model.overheads),
        end_s=model.overheads.end_s,
    )


def _run_interval(parts: RunParts, model: DeviceModel, step_s: Interval) -> Interval:
    """Steps and passes over rows vary with the step; start, checkpoints and end by themselves."""
    share = overhead_range(model.overheads)
    # Nobody knows yet on which node it will run: what is promised has to hold on the one that starts slowest.
    slow_s = parts.start_s * (model.overheads.slowest_start - 1.0)
    return Interval(
        low=parts.rows_s * step_s.low / step_s.mid + parts.fixed_s * (1 - share),
        mid=parts.run_s,
        high=parts.rows_s * step_s.high / step_s.mid + (parts.fixed_s + slow_s) * (1 + share),
        level=step_s.level,
    )


def _start_s(workload: Workload, model: DeviceModel, allocation: Allocation, probe: Probe | None) -> float:
    """Until the first step on the node that has most ranks, for the others wait for it; the probe knows how long
    reading a row takes, else bytes tell."""
    known = model.overheads
    if probe is None or probe.load_row_s is None:
        reading_s = load_s(workload, known)
    else:
        reading_s = probe.load_row_s * all_rows(workload) + (probe.load_once_s or 0.0)
        if workload.words_s:  # of many rows, words are learned from some alone: they take less each than a probe's few
            reading_s = min(reading_s, load_s(workload, known) + (probe.load_once_s or 0.0))
    start_s = known.start_s + known.rank_start_s * (allocation.ranks_together - 1) + reading_s
    if model.nodes_link is None:
        return start_s
    return start_s + known.meet_s + joined_s(workload, allocation, model.nodes_link)


def _peaks(model: DeviceModel, times: Sequence[StepTime]) -> dict[int, Interval]:
    """By the identity of `rank_totals`: ranks of as many rows have the same."""
    alike = {id(time.rank_totals): time.rank_totals for time in times}
    return {key: peak_interval(model.memory, totals) for key, totals in alike.items()}


def _peak(
    model: DeviceModel, time: StepTime, allocation: Allocation, probe: Probe | None, foretold: Interval
) -> tuple[Interval, Basis]:
    if probe is None or probe.peak_bytes is None:
        return foretold, model.memory.basis
    peak = steps_interval(model.memory, time.rank_totals)
    rows = probe.peak_rows or max(probe.allocation.batch_split)
    at_probe = totals_at_batch(time.rank_totals, rows_at_once(time.rank_totals, rows))
    ratio = probe.peak_bytes / steps_interval(model.memory, at_probe).mid
    mid = peak.mid * ratio
    same = rows == most_of(
        time.rank_totals, max(allocation.batch_split)
    )  # steps that a probe has not seen may have more
    high = mid * PROBE_PEAK_HEADROOM if same else max(mid * PROBE_PEAK_HEADROOM, mid * model.memory.high_ratio)
    low = mid / PROBE_PEAK_HEADROOM if same else mid * min(1 / PROBE_PEAK_HEADROOM, model.memory.low_ratio)
    seen = Interval(low=low, mid=mid, high=high, level=peak.level)
    whole = or_loading(seen, model.memory, time.rank_totals)  # a probe reads a few rows alone
    return whole, Basis.MEASURED if same and whole == seen else Basis.MODELLED


def _device_power(
    model: DeviceModel, allocation: Allocation, time: StepTime, probe: Probe | None
) -> tuple[float, float, Basis]:
    """Watts of one device while the program runs, half of the range of their logarithm, and their basis."""
    if probe is None or probe.power_w is None:
        return model.power.at(time.work_share), model.power.half, model.power.basis
    device_w = probe.power_w / probe.allocation.count
    if probe.allocation == allocation:
        return device_w, PROBE_POWER_RANGE, Basis.MEASURED
    return device_w, PROBE_POWER_RANGE + PROBE_POWER_MOVED_RANGE, Basis.MODELLED
