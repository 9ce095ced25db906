"""The first rank works on what the model says of a part while no other rank waits for it."""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from worker.runtime.outcome.by_part import outputs_by_part

PARTS: dict[str, Any] = {"train": 3, "val": 2, "test": 1}


def steps(rank: int, world_size: int) -> list[str]:
    """What a rank does, in order."""
    done: list[str] = []

    def outputs(_net: nn.Module, rows: int) -> Tensor:
        done.append(f"predict {rows}")
        return torch.zeros(rows)

    run: Any = SimpleNamespace(rank=rank, world_size=world_size, outputs=outputs)
    for name, said in outputs_by_part(run, nn.Identity(), PARTS):
        done.append(f"work on {name} {len(said)}")
    return done


@pytest.mark.parametrize("rank", [0, 1])
def test_several_ranks_predict_all_parts_before_the_first_one_works_on_any(rank: int) -> None:
    work = ["work on train 3", "work on val 2", "work on test 1"] if rank == 0 else []
    assert steps(rank, 2) == ["predict 3", "predict 2", "predict 1", *work]


def test_one_rank_alone_works_on_a_part_before_it_predicts_the_next() -> None:
    assert [step.split()[0] for step in steps(0, 1)] == ["predict", "work"] * 3


@pytest.mark.parametrize("world_size", [1, 2])
def test_a_part_is_held_no_longer_than_it_is_worked_on(world_size: int) -> None:
    run: Any = SimpleNamespace(rank=0, world_size=world_size, outputs=lambda _net, rows: torch.zeros(rows))
    before = None
    for _, said in outputs_by_part(run, nn.Identity(), PARTS):
        assert before is None or before() is None
        before = weakref.ref(said)
        del said
