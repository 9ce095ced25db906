"""The order of rows: a seeded permutation per epoch, shared out over ranks, resumable at any step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from worker.runtime.data import DataError, Part
from worker.shares import epoch_steps, even, in_proportion
from worker.words import counted

LEAST_ROWS = 2
"""Of a rank at a step: batch normalisation cannot do with one."""
CHUNK_BYTES = 4 << 20
"""Rows are gathered for several steps at once, up to this much: one gather is cheaper than many small ones."""


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """Which rows each rank takes at each step of one epoch. The same on every rank; pure."""

    rows: int
    batch_size: int
    """Over all ranks."""
    world_size: int = 1
    split: tuple[int, ...] = ()
    """Rows per rank of a whole batch, on devices that are not alike; empty: even. It says only who takes which rows of
    a step: the rows of the step, and with them the update, are the same for every split."""
    most: tuple[int, ...] = ()
    """Rows that fit in the memory of each rank's device; 0 or missing: any number."""

    def __post_init__(self) -> None:
        if self.split and (len(self.split) != self.world_size or sum(self.split) != self.batch_size):
            raise ValueError(
                f"a split into {self.split} is none of {self.batch_size} over {counted(self.world_size, 'rank')}"
            )
        if self.batch_size < self.world_size:
            rows, ranks = counted(self.batch_size, "row"), counted(self.world_size, "rank")
            raise ValueError(f"a batch of {rows} cannot be shared out over {ranks}")
        if self.rows < 2 * self.world_size:
            raise ValueError(
                f"{counted(self.rows, 'training row')} cannot be shared out over {counted(self.world_size, 'rank')}"
            )

    @property
    def steps(self) -> int:
        """Steps per epoch; the last one may have more or fewer rows."""
        return epoch_steps(self.rows, self.batch_size, self.world_size)

    def bounds(self, step: int) -> tuple[int, int]:
        """First and past-the-last place in the permutation of the global batch."""
        start = step * self.batch_size
        return start, self.rows if step == self.steps - 1 else start + self.batch_size

    def shares(self, step: int) -> tuple[int, ...]:
        """Rows of each rank; even ones differ by one at most."""
        start, stop = self.bounds(step)
        if not self.split:
            return even(stop - start, self.world_size)
        return in_proportion(self.split, stop - start, least=LEAST_ROWS, most=self.most)

    def share(self, step: int, rank: int) -> tuple[int, int]:
        """First and past-the-last place of one rank's rows."""
        shares = self.shares(step)
        start = self.bounds(step)[0] + sum(shares[:rank])
        return start, start + shares[rank]


def batch_plan(part: Part, batch_size: int, world_size: int) -> BatchPlan:
    """Of an even split of these rows. Raises `DataError` where they are too few."""
    try:
        return BatchPlan(rows=len(part), batch_size=batch_size, world_size=world_size)
    except ValueError as error:
        hint = "Use fewer ranks, a larger batch, more rows or smaller shares of validation and test."
        raise DataError(f"{error}.", hint) from None


@dataclass(frozen=True, kw_only=True)
class ElasticPlan(BatchPlan):
    """Rows of each rank as for the ranks there are, steps as for the most there may be: an epoch keeps its length."""

    most_ranks: int = 1

    @property
    def steps(self) -> int:
        """Steps per epoch."""
        plain = BatchPlan(rows=self.rows, batch_size=self.batch_size, world_size=self.most_ranks)
        return plain.steps


def going_on(plan: BatchPlan, made: int, begun_steps: int, begun_batch: int = 0) -> tuple[int, int]:
    """(step at which an epoch goes on, rows of it that are left out) where `made` of its `begun_steps` (0: not known)
    are made, of `begun_batch` rows each (0: of as many as now).

    Where a batch has fewer than 4 rows a rank, other numbers of ranks may make an epoch in a step more or less: its
    last few rows are a step of their own, or go with the step before. Batches of another size begin with the one in
    which the first row is that was not taken: some rows before it may come again.
    """
    begun_steps = begun_steps or plan.steps
    if begun_batch not in (0, plan.batch_size) and made < begun_steps:
        return min(made * begun_batch // plan.batch_size, plan.steps - 1), 0
    if made < min(begun_steps, plan.steps):
        return made, 0
    # Either all rows were taken, the last few with the step before; or these few would not be enough for all ranks.
    return plan.steps, 0 if made >= begun_steps else plan.rows - made * plan.batch_size


def epoch_order(rows: int, seed: int, epoch: int) -> Tensor:
    """Permutation [rows] of one epoch; depends on nothing else."""
    generator = torch.Generator().manual_seed((seed * 1_000_003 + epoch * 7919 + 17) % 2**63)
    return torch.randperm(rows, generator=generator)


PlanOf = Callable[[], BatchPlan]
Batch = tuple[tuple[Tensor, ...], Tensor]


def iterate(
    part: Part, plan: BatchPlan | PlanOf, order: Tensor, rank: int, first_step: int, device: torch.device
) -> Iterator[Batch]:
    """Yield (inputs, targets) of this rank, step by step, on `device`.

    A function for `plan` is asked at every step: its split may be another one from there on.
    """
    plan_of: PlanOf = plan if callable(plan) else lambda: plan
    step = first_step
    while step < plan_of().steps:
        now = plan_of()
        for batch in _chunk(part, now, order, rank, step, device):
            yield batch
            step += 1
            if plan_of() is not now:
                break


def _chunk(
    part: Part, plan: BatchPlan, order: Tensor, rank: int, first_step: int, device: torch.device
) -> Iterator[Batch]:
    """Batches of a few steps, gathered at once."""
    widest = max(plan.split, default=-(-plan.batch_size // plan.world_size))
    count = max(1, CHUNK_BYTES // max(1, part.row_bytes * widest))
    steps = range(first_step, min(first_step + count, plan.steps))
    shares = [plan.share(step, rank) for step in steps]
    if plan.world_size == 1:
        index = order[shares[0][0] : shares[-1][1]]
    else:
        index = torch.cat([order[start:stop] for start, stop in shares])
    index = index.to(part.targets.device)
    tensors = [tensor.index_select(0, index).to(device) for tensor in (*part.inputs, part.targets)]
    sizes = [stop - start for start, stop in shares]
    pieces = [torch.split(tensor, sizes) for tensor in tensors]
    for place in range(len(sizes)):
        *inputs, targets = (piece[place] for piece in pieces)
        yield tuple(inputs), targets
