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
from typing import Any

import numpy as np

from scheduler.device_model import DeviceModel
from scheduler.estimates import Allocation
from scheduler.features import Vector
from scheduler.link import allreduce_s
from scheduler.predict import group_seconds, member_seconds, predict, tabulate
from scheduler.ranks import StepTime, contention_factor
from scheduler.workload import Workload, at_batch
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


def staged_time(workload: Workload, allocation: Allocation, model: DeviceModel) -> StepTime:
    """Step time of `workload` in stages, each on a device of its own, by one pipeline or several."""
    stages, rows = stages_of(workload, allocation), max(allocation.batch_split)
    counts = [count for count in COUNTS if count <= rows]
    parts = [at_batch(workload, -(-rows // count)) for count in counts]
    found = predict(model, parts)
    alone_s, once_s = np.exp(found.log_step_s), _once_s(parts, model)
    longer = 1.0 / stages + costliest_share(parts[0], model) / 2
    times = [
        (count + stages - 1) * (max(0.0, alone_s[place] - once_s[place]) * longer + model.link.latency_s)
        + once_s[place] / stages
        for place, count in enumerate(counts)
    ]
    best = int(np.argmin(times))
    own = model.correction.factor * contention_factor(model, allocation.count)
    factor = own * model.slowdown
    whole = at_batch(workload, rows)
    local_s = float(times[best]) * factor
    communication_s = allreduce_s(model.link, workload.gradient_bytes / stages, allocation.count // stages)
    return StepTime(
        step_s=local_s + communication_s,
        local_s=local_s,
        communication_s=communication_s,
        forward_row_s=float(alone_s[0] * found.forward_share[0]) * own / rows,
        disagreement=float(found.disagreement[best]),
        rank_workload=replace(whole, **_shared_out(whole, stages)),
    )


def _shared_out(workload: Workload, stages: int) -> dict[str, Any]:
    """What the stages share out: each holds its part of the weights and of what they keep."""
    figures = {name: getattr(workload, name) for name in SCALED}
    return {name: type(value)(value / stages) for name, value in figures.items()}


def costliest_share(workload: Workload, model: DeviceModel) -> float:
    """Of the time of all operators, that of the costliest single one: no cut goes through it."""
    counts = Counter(map(id, workload.operators))
    different = {id(operator): operator for operator in workload.operators}
    lone = [replace(workload, operators=(operator,)) for operator in different.values()]
    table = tabulate([replace(workload, operators=()), *lone])
    seconds = np.mean([member_seconds(table, member) for member in model.members], axis=0)
    each = np.maximum(seconds[1:] - seconds[0], 0.0)
    total = float(each @ np.array([counts[key] for key in different], dtype=float)) if len(each) else 0.0
    return float(each.max()) / total if total > 0 else 0.0


def _once_s(parts: Sequence[Workload], model: DeviceModel) -> Vector:
    """Seconds that each step spends once whatever its rows: on the optimizer."""
    table = tabulate(parts)
    once_s = np.zeros(len(parts))
    for member in model.members:
        for name, seconds in group_seconds(table, member).items():
            block = table.blocks[name]
            once_s += np.bincount(block.owner, seconds * block.once, table.size) / len(model.members)
    return once_s
