"""What a run tells when it begins: its learning rate, and whose rows batch normalisation sees."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from worker.runtime.data import Dataset, Part
from worker.runtime.opening import backup_notes, rate_line, split_notes, statistics_notes
from worker.runtime.position import Position
from worker.runtime.spec import as_spec

NORMED = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))


class Ghost(nn.BatchNorm1d):
    """A person's own way to normalise."""

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs


def run(mode: str = "sync", ranks: int = 2, training: dict[str, Any] | None = None, **more: int) -> Any:
    own_mode = SimpleNamespace(name=mode, **more)
    return SimpleNamespace(mode=own_mode, world_size=ranks, batch_size=64, spec=as_spec({"training": training or {}}))


@pytest.mark.parametrize(
    ("made", "who"),
    [
        (run(), "each of 2 ranks"),
        (run("async", ranks=3), "each of 3 ranks"),
        (run("replicated", ranks=1, replicas=4), "each of 4 replicas"),
        (run("single", ranks=1, micro_batches=2), "each micro-batch"),
        (run("pipeline", ranks=2), "each micro-batch"),
    ],
)
def test_a_person_is_told_whose_rows_batch_normalisation_sees(made: Any, who: str) -> None:
    (note,) = statistics_notes(made, NORMED)
    assert who in note and "not from all 64" in note


def test_ranks_that_could_share_their_statistics_are_told_how() -> None:
    ghosts = nn.Sequential(nn.Linear(4, 4), Ghost(4))
    told = {
        "ranks": statistics_notes(run(), NORMED),
        "parts": statistics_notes(run(micro_batches=2), NORMED),
        "another mode": statistics_notes(run("async"), NORMED),
        "layers of their own": statistics_notes(run(), ghosts),
        "shared already": statistics_notes(run(shares_statistics=True), ghosts),
    }
    assert [who for who, (note,) in told.items() if "training.batch_norm: synced" in note] == ["ranks"]


def test_nothing_is_said_where_statistics_are_those_of_the_whole_batch() -> None:
    assert statistics_notes(run("single", ranks=1, micro_batches=1, replicas=1), NORMED) == []
    assert statistics_notes(run(), nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))) == []
    assert statistics_notes(run(), nn.Sequential(nn.Linear(4, 4), nn.SyncBatchNorm(4))) == []


def test_nothing_is_said_where_ranks_share_their_statistics_but_for_layers_with_a_way_of_their_own() -> None:
    synced = run(shares_statistics=True)
    assert statistics_notes(synced, NORMED) == []
    assert len(statistics_notes(synced, nn.Sequential(nn.BatchNorm1d(4), Ghost(4)))) == 1


def test_backup_ranks_out_of_another_number_are_told_with_the_rows_that_count() -> None:
    def told(ranks: int, count: int, backup: int | None) -> list[str]:
        made = run("async", ranks=ranks, backup=backup)
        made.spec = as_spec({"training": {}, "resources": {"count": count}})
        return backup_notes(made)

    (note,) = told(2, 4, 1)
    assert "32 of 64 rows of a step count, not 48" in note and "stays" in note
    assert told(4, 4, 1) == told(2, 4, 0) == told(2, 4, None) == []


def parts_of(val: list[int], test: list[int]) -> Dataset:
    train, *others = (
        Part((torch.zeros(len(rows)),), torch.zeros(len(rows)), torch.tensor(rows)) for rows in ([0, 1], val, test)
    )
    return Dataset(train, *others)


def test_a_split_is_known_by_the_rows_of_validation_and_test_in_whatever_order() -> None:
    known = parts_of([2, 3], [4, 5]).held_out
    assert known == parts_of([3, 2], [5, 4]).held_out
    others = [parts_of([2, 4], [3, 5]), parts_of([4, 5], [2, 3]), parts_of([2], [3, 4, 5]), parts_of([], [4, 5])]
    assert len({known, *(other.held_out for other in others)}) == 5


def test_a_run_that_goes_on_with_another_split_is_told_so() -> None:
    def told(*held_out: str) -> list[str]:
        made = run()
        made.position = Position(held_out=held_out)
        return split_notes(made)

    (note,) = told("a", "b")
    assert "shared out otherwise" in note and "too good" in note
    assert told("a") == told() == []


@pytest.mark.parametrize(
    ("training", "told"),
    [
        ({"learning_rate": 0.0031}, "peak learning rate 0.0031, steps of 64 rows over all ranks"),
        ({"learning_rate": 0.002, "rate_rule": "none"}, "peak learning rate 0.002, steps of 64 rows over all ranks"),
        (
            {"learning_rate": 0.001, "rate_rule": "sqrt"},
            "peak learning rate 0.001, by the rule sqrt from the usual batch, steps of 64 rows over all ranks",
        ),
        ({}, ""),
        ({"learning_rate": "mine"}, ""),
    ],
)
def test_the_log_names_the_rate_and_the_rows_of_a_step(training: dict[str, Any], told: str) -> None:
    assert rate_line(run(training=training)) == told
