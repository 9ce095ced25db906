"""The parts of a run's time besides its steps: start, passes over rows without learning, checkpoints, end.

start = of one rank + (ranks - 1) x of each further one      passes = evaluated rows of all epochs + all rows once

Where ranks lie on several nodes, their meeting is a part of the start, with t the way over the network and back:

    meeting = until all nodes are there + 6 (ranks - 1) t + rounds of a broadcast x bytes of the weights / bandwidth
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scheduler.estimation.device_parts import LinkModel, RunOverheads
from scheduler.estimation.pipelines import PIPELINE
from scheduler.estimation.values import Allocation
from scheduler.workload import Workload

CHECKPOINTS = 20
"""About so many over a run, and at most one per epoch: the platform's default policy."""
CUT_S = 0.5
"""In which stages time the pieces of a model and agree where it is cut: two on two cores took 0.4 to 0.6 s."""
JOINING_TRIPS = 6
"""Ways over the network and back that each further rank adds until all are joined: the first one looks whether it is
there, and every rank looks up where it listens, for all ranks and for those of their nodes."""
OVERHEAD_RANGE = 0.25
"""Share by which start and end of a run vary: files in the page cache or not, other work on the host."""
LEAST_OVERHEAD_RANGE = 0.1
OVERHEAD_RUNS = 3.0
"""After so many runs that were seen whole half of what is not known of start and end is left: one may be lucky."""


@dataclass(frozen=True, kw_only=True)
class RunParts:
    """Seconds of each part of one run."""

    start_s: float
    """From the start of the ranks to the first step."""
    steps_s: float
    passes_s: float
    """Forward passes after each epoch and at the end."""
    saves_s: float
    end_s: float

    @property
    def rows_s(self) -> float:
        """What varies with the step."""
        return self.steps_s + self.passes_s

    @property
    def fixed_s(self) -> float:
        """What does not."""
        return self.start_s + self.saves_s + self.end_s

    @property
    def run_s(self) -> float:
        """All of it."""
        return self.rows_s + self.fixed_s


def steps_s(workload: Workload, step_s: float, last_share: float) -> float:
    """Seconds of all steps, of which the last of each epoch takes `last_share` of the others' `step_s`."""
    return workload.epochs * (workload.steps_per_epoch - 1 + last_share) * step_s


def forward_rows(workload: Workload) -> float:
    """Rows that a run passes forward only: after each epoch, and all rows at its end."""
    return workload.epochs * workload.evaluated_rows + all_rows(workload)


def all_rows(workload: Workload) -> float:
    """Rows of all parts."""
    if not workload.data_bytes or not workload.dataset_bytes:
        return workload.train_rows + workload.evaluated_rows
    return workload.train_rows * max(1.0, workload.dataset_bytes / workload.data_bytes)


def load_s(workload: Workload, overheads: RunOverheads) -> float:
    """Seconds that a rank reads its rows and learns their words before the first step, at least those that its own code
    was seen to take."""
    return max(workload.load_s, rows_read_s(workload, overheads) + overheads.words_times * workload.words_s)


def rows_read_s(workload: Workload, overheads: RunOverheads) -> float:
    """Of it the reading alone, by the bytes of the rows."""
    return (workload.dataset_bytes or workload.data_bytes) / overheads.load_bytes_per_s


def joined_s(workload: Workload, allocation: Allocation, link: LinkModel) -> float:
    """Seconds in which ranks whose nodes are all there meet over `link` between them, and get the weights of the first;
    stages of one pipeline hold other weights each."""
    ranks = len(allocation.batch_split)
    rounds = 0 if allocation.mode == PIPELINE else math.ceil(math.log2(ranks))
    return JOINING_TRIPS * (ranks - 1) * link.latency_s + rounds * workload.parameter_bytes / link.bytes_per_s


def epoch_s(workload: Workload, parts: RunParts) -> float:
    """Seconds of one epoch: its steps, and the rows that are evaluated after it."""
    evaluated = workload.evaluated_rows / max(1.0, forward_rows(workload))
    return parts.steps_s / workload.epochs + parts.passes_s * evaluated


def saves_s(workload: Workload, overheads: RunOverheads) -> float:
    """Seconds that checkpoints take."""
    state_bytes = workload.parameter_bytes + workload.optimizer_bytes
    saves = min(workload.epochs, CHECKPOINTS) + 1
    return saves * (overheads.checkpoint_s + state_bytes / overheads.checkpoint_bytes_per_s)


def overhead_range(overheads: RunOverheads) -> float:
    """Share by which start and end vary: from what nobody has seen to what many runs leave."""
    unknown = OVERHEAD_RUNS / (OVERHEAD_RUNS + overheads.n_runs)
    return LEAST_OVERHEAD_RANGE + unknown * (OVERHEAD_RANGE - LEAST_OVERHEAD_RANGE)
