"""Step times of a pipeline from the step time on one device: `rank` of a device is a stage of the model.

A workload tells its operators, not their chain, so the cut is foretold by what any chain allows: no stage is shorter
than an even share, and none need be longer than that and the costliest operator; half of it is added. With t(b) the
seconds of b rows on one device, without what a step does once (the update), K stages and M micro-batches of b rows:

    step = (M + K - 1) (1.15 t(b) (1 / K + share of the costliest / 2) + message) + once * share of the weights
    message = latency + 2 b * bytes per row at the widest cut / bandwidth       there, and its gradient back

Every operator's fixed costs are in t(b), so that too many micro-batches show as too slow. M is the best of
`worker.stages.COUNTS`, as a run chooses it. The weights of the heaviest stage are told from the program's pieces as the
time of the slowest is: an even share and half of the largest piece, and no less than that piece.

Several pipelines share out the rows of a step, and each stage then averages its gradients with its like:

    step = step of a pipeline at its rows + allreduce of the heaviest stage's gradients among the pipelines

Finished runs in stages teach one factor on the step of a pipeline: what it is made up of cannot be told apart in them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.in_precision import in_precision
from scheduler.estimation.link import allreduce_s
from scheduler.estimation.predict import group_seconds, member_seconds
from scheduler.estimation.ranks import StepTime, contention_factor, most_of
from scheduler.estimation.steps import Step, Steps
from scheduler.estimation.values import Allocation
from scheduler.workload import Workload, with_figures
from worker.stages import COUNTS

PIPELINE, PIPELINES = "pipeline", "pipeline+sync"
FEWEST_STAGES = 2
"""Of several pipelines where nobody named a number, as a run cuts the model."""
WEIGHED = ("parameters", "parameter_bytes", "gradient_bytes", "optimizer_bytes")
"""Of a workload: what goes with the weights that a stage holds."""
OVERLAP_FACTOR = 1.15
"""Stages wait for each other: two on two cores took 1.13 to 1.2 times as long as their pieces and the machine allow
(docs/benchmarks.md, Modes)."""
OVERLAP_HALF = 0.2
"""Half width of the log range of that."""


def pipelines_split(shares: Sequence[int], stages: int) -> tuple[int, ...]:
    """Rows per rank where each pipeline takes one share: all of its stages see the same rows."""
    return tuple(share for share in shares for _ in range(stages))


def stages_of(workload: Workload, allocation: Allocation) -> int:
    """Stages of one pipeline: the rows of a step pass so many ranks."""
    return allocation.stages or max(1, round(sum(allocation.batch_split) / workload.global_batch_size))


def weights_share(workload: Workload, stages: int) -> float:
    """Of all weights, those of the stage that holds most; an even share where nobody knows the pieces."""
    sizes = [piece.parameter_bytes for piece in workload.pieces or ()]
    largest = max(sizes, default=0.0) / sum(sizes) if sum(sizes) else 0.0
    return min(1.0, max(largest, 1.0 / stages + largest / 2))


def handed_bytes(workload: Workload) -> float:
    """Per row, from one stage to the next: at the widest cut; what an operator writes where nobody knows the cuts."""
    cuts = [piece.output_bytes for piece in (workload.pieces or ())[:-1]]
    if cuts:
        return max(cuts)
    written = sum(operator.write_bytes for operator in workload.operators)
    return written / max(1, len(workload.operators)) / workload.batch_size


def micro_rows(rows: int) -> dict[int, int]:
    """Number of micro-batches of so many rows -> rows of the largest."""
    return {count: -(-rows // count) for count in COUNTS if count <= rows}


def staged_times(steps: Steps, allocations: Sequence[Allocation], model: DeviceModel) -> list[StepTime]:
    """Step times in stages, each on a device of its own, by one pipeline or several."""
    if not allocations:
        return []
    model = in_precision(model, steps.workload)
    shares = {max(allocation.batch_split) for allocation in allocations}
    parts = {rows: micro_rows(rows) for rows in shares}
    found = steps.on(model, {part for each in parts.values() for part in each.values()})
    costliest, once_s = steps.kept_with(found, lambda: (costliest_share(steps, model), _once_s(steps, model)))
    known = _Known(
        found=found,
        costliest=costliest,
        once_s=once_s,
        row_s=2.0 * handed_bytes(steps.workload) / model.stages_link.bytes_per_s,
    )
    return [_staged_time(steps, way, model, known, parts[max(way.batch_split)]) for way in allocations]


@dataclass(frozen=True, kw_only=True)
class _Known:
    """Of a program on one kind of device, whatever its stages."""

    found: Mapping[int, Step]
    """By rows."""
    costliest: float
    """See `costliest_share`."""
    once_s: float
    """Of the update of all weights."""
    row_s: float
    """In which a row is handed on, and its gradient back."""


def _staged_time(
    steps: Steps, allocation: Allocation, model: DeviceModel, known: _Known, parts: Mapping[int, int]
) -> StepTime:
    """`parts`: number of micro-batches -> rows of the largest."""
    workload, rows, found = steps.workload, max(allocation.batch_split), known.found
    stages = stages_of(workload, allocation)
    held = weights_share(workload, stages)
    share = 1.0 / stages + known.costliest / 2
    longer = OVERLAP_FACTOR * share
    own = model.correction.factor * contention_factor(model, allocation.ranks_together)
    factor = own * model.slowdown
    times = {
        count: (
            ((count + stages - 1) * max(0.0, found[part].alone_s - known.once_s) * longer + known.once_s * held)
            * factor,
            (count + stages - 1) * (model.stages_link.latency_s + part * known.row_s),
        )
        for count, part in parts.items()
    }
    best = min(times, key=lambda count: sum(times[count]))
    filled = best / (best + stages - 1)  # the rest is the bubble
    local_s, communication_s = (part_s * model.stages.factor for part_s in times[best])
    last_share = workload.last_rows / workload.global_batch_size  # as many micro-batches, each of other size
    communication_s += allreduce_s(model.ranks_link, workload.gradient_bytes * held, allocation.count // stages)
    return StepTime(
        step_s=local_s + communication_s,
        local_s=local_s,
        communication_s=communication_s,
        # stages pass rows forward one behind the other, too: the slowest of them tells, not an even share
        forward_row_s=found[rows].alone_s * found[rows].forward_share * own / rows * stages * longer,
        work_share=found[parts[best]].work_share * filled * local_s / (local_s + communication_s),
        disagreement=found[parts[best]].disagreement,
        near=found[rows].near,
        precision_half=found[parts[best]].half,
        half=OVERLAP_HALF + math.log((1.0 / stages + known.costliest) / share),
        last_local_share=last_share,
        last_sent_share=last_share,
        micro_rows=parts[best],
        rank_totals=_shared_out(steps.totals(most_of(workload, rows)), stages, held),
    )


def _shared_out(workload: Workload, stages: int, held: float) -> Workload:
    """One stage's part of the weights, of which it holds the share `held`, and of what is kept for the way back."""
    figures = {name: getattr(workload, name) for name in WEIGHED}
    weighed = {name: type(value)(value * held) for name, value in figures.items()}
    kept = workload.activation_bytes / stages
    return with_figures(workload, operators=workload.operators, **weighed, activation_bytes=kept)


def costliest_share(steps: Steps, model: DeviceModel) -> float:
    """Of the time of all operators on the traced rows, that of the costliest single one: no cut goes through it."""
    counts = np.array(list(Counter(map(id, steps.workload.operators)).values()), dtype=float)
    each = np.mean([member_seconds(steps.apart, member) for member in model.members], axis=0)
    total = float(each @ counts)
    return float(each.max()) / total if total > 0 else 0.0


def _once_s(steps: Steps, model: DeviceModel) -> float:
    """Seconds that each step spends once whatever its rows: on the optimizer."""
    table = steps.idle
    spent = [
        float(seconds @ table.blocks[name].once)
        for member in model.members
        for name, seconds in group_seconds(table, member).items()
    ]
    return sum(spent) / len(model.members)
