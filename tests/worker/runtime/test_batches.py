"""The order of rows: complete, shared out evenly, resumable, the same for the same seed."""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from worker.runtime.batches import BatchPlan, batch_plan, epoch_order, going_on, iterate
from worker.runtime.data import DataError, Part
from worker.shares import in_proportion

CPU = torch.device("cpu")


def numbered(rows: int) -> Part:
    """Rows that hold their own number."""
    number = torch.arange(rows)
    return Part((number.float().unsqueeze(1),), number, number)


@given(rows=st.integers(8, 300), batch=st.integers(1, 64), world=st.integers(1, 4))
def test_every_row_is_taken_once_and_ranks_step_together(rows: int, batch: int, world: int) -> None:
    plan = BatchPlan(rows=rows, batch_size=max(batch, 2 * world), world_size=world)
    order = epoch_order(rows, seed=1, epoch=2)
    seen: list[int] = []
    for rank in range(world):
        batches = list(iterate(numbered(rows), plan, order, rank, 0, CPU))
        assert len(batches) == plan.steps
        assert all(len(targets) >= 2 for _, targets in batches)
        seen += [int(target) for _, targets in batches for target in targets]
    assert sorted(seen) == list(range(rows))


@given(rows=st.integers(8, 300), first=st.integers(0, 10), world=st.integers(1, 3))
def test_an_epoch_goes_on_in_the_middle_with_the_same_batches(rows: int, first: int, world: int) -> None:
    plan = BatchPlan(rows=rows, batch_size=8, world_size=world)
    order = epoch_order(rows, seed=3, epoch=0)
    whole = [targets for _, targets in iterate(numbered(rows), plan, order, 0, 0, CPU)]
    rest = [targets for _, targets in iterate(numbered(rows), plan, order, 0, first, CPU)]
    assert [t.tolist() for t in rest] == [t.tolist() for t in whole[first:]]


@given(
    rows=st.integers(12, 100), batch=st.integers(4, 20), before=st.integers(1, 4), after=st.integers(1, 4),
    made=st.integers(0, 30),
)  # fmt: skip
def test_an_epoch_goes_on_with_other_ranks_and_takes_no_row_twice(
    rows: int, batch: int, before: int, after: int, made: int
) -> None:
    old, new = (BatchPlan(rows=rows, batch_size=batch, world_size=world) for world in (before, after))
    made = min(made, old.steps)
    step, left_out = going_on(new, made, old.steps)
    spans = [*map(old.bounds, range(made)), *map(new.bounds, range(step, new.steps))]
    taken = [row for start, stop in spans for row in range(start, stop)]
    assert taken == list(range(rows - left_out))
    assert left_out < 2 * after and (not left_out or made == new.steps < old.steps)


@given(
    rows=st.integers(12, 100), batches=st.tuples(st.integers(4, 20), st.integers(4, 20)),
    worlds=st.tuples(st.integers(1, 2), st.integers(1, 2)), made=st.integers(0, 30),
)  # fmt: skip
def test_an_epoch_goes_on_with_batches_of_another_size_and_leaves_no_row_out(
    rows: int, batches: tuple[int, int], worlds: tuple[int, int], made: int
) -> None:
    assume(batches[0] != batches[1])
    old, new = (BatchPlan(rows=rows, batch_size=each, world_size=of) for each, of in zip(batches, worlds, strict=True))
    made = min(made, old.steps)
    step, left_out = going_on(new, made, old.steps, old.batch_size)
    spans = [*map(old.bounds, range(made)), *map(new.bounds, range(step, new.steps))]
    taken = [row for start, stop in spans for row in range(start, stop)]
    assert set(taken) == set(range(rows)) and left_out == 0
    again = max((stop - start for start, stop in spans[made : made + 1]), default=1)
    assert len(taken) - rows < again, "only of the step that is begun again"


def test_an_older_checkpoint_that_does_not_tell_the_steps_of_its_epoch_goes_on() -> None:
    plan = BatchPlan(rows=43, batch_size=4, world_size=2)
    assert [going_on(plan, made, 0) for made in (0, 9, 10)] == [(0, 0), (9, 0), (10, 0)]


@pytest.mark.parametrize(("batch", "world"), [(1, 2), (3, 4)])
def test_a_batch_that_leaves_a_rank_without_a_row_is_refused(batch: int, world: int) -> None:
    with pytest.raises(ValueError, match="cannot be shared out"):
        BatchPlan(rows=100, batch_size=batch, world_size=world)


def test_too_few_rows_for_the_ranks_are_a_fault_of_the_data_with_a_next_step() -> None:
    with pytest.raises(DataError) as told:
        batch_plan(numbered(3), 8, 2)
    assert told.value.message == "3 training rows cannot be shared out over 2 ranks."
    assert told.value.hint.startswith("Use fewer ranks")


def test_shares_of_ranks_differ_by_one_row_at_most() -> None:
    plan = BatchPlan(rows=101, batch_size=25, world_size=3)
    for step in range(plan.steps):
        counts = [stop - start for start, stop in (plan.share(step, rank) for rank in range(3))]
        assert max(counts) - min(counts) <= 1


@given(
    rows=st.integers(12, 300), weights=st.lists(st.integers(1, 9), min_size=2, max_size=4),
    changes=st.lists(st.integers(0, 30), max_size=3),
)  # fmt: skip
def test_every_row_is_taken_once_whatever_the_split_and_whenever_it_changes(
    rows: int, weights: list[int], changes: list[int]
) -> None:
    world, batch = len(weights), 24
    first = in_proportion(weights, batch, least=2)
    plans = [BatchPlan(rows=rows, batch_size=batch, world_size=world, split=split) for split in (first, first[::-1])]
    order = epoch_order(rows, seed=1, epoch=0)
    now = [0] * world

    def plan_of(rank: int) -> BatchPlan:
        return plans[sum(now[rank] > change for change in changes) % 2]

    seen: list[int] = []
    for rank in range(world):
        for _, targets in iterate(numbered(rows), lambda rank=rank: plan_of(rank), order, rank, 0, CPU):
            assert len(targets) >= min(2, rows // world)
            seen += targets.tolist()
            now[rank] += 1
    assert sorted(seen) == list(range(rows))


@given(first=st.integers(0, 6), weights=st.lists(st.integers(1, 9), min_size=2, max_size=3))
def test_a_step_holds_the_same_rows_for_every_split(first: int, weights: list[int]) -> None:
    def rows_of_step(split: tuple[int, ...]) -> set[int]:
        plan = BatchPlan(rows=200, batch_size=24, world_size=len(weights), split=split)
        order = epoch_order(200, seed=5, epoch=1)
        parts = [next(iterate(numbered(200), plan, order, rank, first, CPU))[1] for rank in range(len(weights))]
        return {int(row) for part in parts for row in part}

    assert rows_of_step(in_proportion(weights, 24, least=2)) == rows_of_step(())


def test_a_split_of_another_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="split"):
        BatchPlan(rows=100, batch_size=24, world_size=2, split=(10, 10))


def test_a_small_rest_is_folded_into_the_batch_before() -> None:
    plan = BatchPlan(rows=33, batch_size=16)
    assert [plan.bounds(step) for step in range(plan.steps)] == [(0, 16), (16, 33)]


def test_epochs_differ_and_repeat_for_the_same_seed() -> None:
    assert torch.equal(epoch_order(50, 1, 1), epoch_order(50, 1, 1))
    assert not torch.equal(epoch_order(50, 1, 1), epoch_order(50, 1, 2))
    assert not torch.equal(epoch_order(50, 1, 1), epoch_order(50, 2, 1))


def test_too_few_rows_for_the_ranks_are_refused() -> None:
    with pytest.raises(ValueError, match="3 training row"):
        BatchPlan(rows=3, batch_size=8, world_size=2)
