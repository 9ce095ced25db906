"""Step times of a pipeline from the step time on one device: `rank` of a device is a stage of the model.

A workload tells its operators, not their chain, so the cut is foretold by what any chain allows: no stage is shorter
than an even share, and none need be longer than that and the costliest operator; half of it is added. With t(b) the
seconds of b rows on one device, without what a step does once (the update), K stages and M micro-batches of b rows:

    step = (M + K - 1) (t(b) (1 / K + share of the costliest / 2) + message) + once / K

Every operator's fixed costs are in t(b), so that too many micro-batches show as too slow. M is the best of
`worker.stages.COUNTS`, as a run chooses it.

Several pipelines share out the rows of a step, and each stage then averages its gradients with its like:

    step = step of a pipeline at its rows + allreduce of gradients / K among the pipelines
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.intervals import is_near
from scheduler.estimation.link import allreduce_s
from scheduler.estimation.predict import group_seconds, member_seconds, tabulate
from scheduler.estimation.ranks import StepTime, contention_factor
from scheduler.estimation.steps import Steps
from scheduler.estimation.values import Allocation
from scheduler.workload import Workload
from worker.stages import COUNTS

PIPELINE, PIPELINES = "pipeline", "pipeline+sync"
FEWEST_STAGES = 2
"""Of several pipelines where nobody named a number, as a run cuts the model."""
SCALED = ("parameters", "parameter_bytes", "gradient_bytes", "optimizer_bytes", "activation_bytes")
"""Of a workload: what the stages share out."""


def pipelines_split(shares: Sequence[int], stages: int) -> tuple[int, ...]:
    """Rows per rank where each pipeline takes one share: all of its stages see the same rows."""
    return tuple(share for share in shares for _ in range(stages))


def stages_of(workload: Workload, allocation: Allocation) -> int:
    """Stages of one pipeline: the rows of a step pass so many ranks."""
    return max(1, round(sum(allocation.batch_split) / workload.global_batch_size))


def staged_times(steps: Steps, allocations: Sequence[Allocation], model: DeviceModel) -> list[StepTime]:
    """Step times in stages, each on a device of its own, by one pipeline or several."""
    if not allocations:
        return []
    shares = {max(allocation.batch_split) for allocation in allocations}
    costliest = {rows: costliest_share(steps, rows, model) for rows in shares}
    once_s = _once_s(steps.workload, model)
    return [_staged_time(steps, way, model, costliest[max(way.batch_split)], once_s) for way in allocations]


def _staged_time(steps: Steps, allocation: Allocation, model: DeviceModel, costliest: float, once_s: float) -> StepTime:
    workload, rows = steps.workload, max(allocation.batch_split)
    stages = stages_of(workload, allocation)
    parts = {count: -(-rows // count) for count in COUNTS if count <= rows}
    found = steps.on(model, parts.values())
    longer = 1.0 / stages + costliest / 2
    times = {
        count: (count + stages - 1) * (max(0.0, found[part].alone_s - once_s) * longer + model.ranks_link.latency_s)
        + once_s / stages
        for count, part in parts.items()
    }
    best = min(times, key=times.__getitem__)
    filled = best / (best + stages - 1)  # the rest is the bubble
    own = model.correction.factor * contention_factor(model, allocation.count)
    factor = own * model.slowdown
    stage = _shared_out(steps.whole(rows), stages)
    local_s = times[best] * factor
    communication_s = allreduce_s(model.ranks_link, workload.gradient_bytes / stages, allocation.count // stages)
    return StepTime(
        step_s=local_s + communication_s,
        local_s=local_s,
        communication_s=communication_s,
        forward_row_s=found[rows].alone_s * found[rows].forward_share * own / rows,
        work_share=found[parts[best]].work_share * filled * local_s / (local_s + communication_s),
        disagreement=found[parts[best]].disagreement,
        near=is_near(model, stage),
        rank_totals=replace(stage, operators=()),
    )


def _shared_out(workload: Workload, stages: int) -> Workload:
    """One stage's part of the weights and of what they keep."""
    figures = {name: getattr(workload, name) for name in SCALED}
    return replace(workload, **{name: type(value)(value / stages) for name, value in figures.items()})


def costliest_share(steps: Steps, rows: int, model: DeviceModel) -> float:
    """Of the time of all operators on so many rows, that of the costliest single one: no cut goes through it."""
    counts = np.array(list(Counter(map(id, steps.whole(rows).operators)).values()), dtype=float)
    seconds = np.mean([member_seconds(steps.apart(rows), member) for member in model.members], axis=0)
    each = np.maximum(seconds[1:] - seconds[0], 0.0)
    total = float(each @ counts)
    return float(each.max()) / total if total > 0 else 0.0


def _once_s(workload: Workload, model: DeviceModel) -> float:
    """Seconds that each step spends once whatever its rows: on the optimizer."""
    table = tabulate([replace(workload, operators=())])
    spent = [
        float(seconds @ table.blocks[name].once)
        for member in model.members
        for name, seconds in group_seconds(table, member).items()
    ]
    return sum(spent) / len(model.members)
