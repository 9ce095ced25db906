"""What a rank makes of its copy of the run when the node that writes for all is lost."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import nn

from worker.runtime.checkpoint import CheckpointStore
from worker.runtime.elastic.copies import copy_save


@pytest.mark.parametrize(("weight", "saved"), [(0.5, [4, 9]), (float("nan"), [4])])
def test_a_copy_whose_weights_an_update_has_ruined_is_not_saved_and_the_best_epoch_before_is(
    tmp_path: Path, weight: float, saved: list[int]
) -> None:
    net = nn.Linear(2, 1)
    good = {"net": {name: value.clone() for name, value in net.state_dict().items()}}
    store = CheckpointStore(tmp_path, keep=2, larger_is_better=True)
    best = [{"parts": good}, {"step": 4, "epoch": 1.0, "metric": 0.5}]
    copy = {
        "parts": {"net": {"weight": torch.full((1, 2), weight), "bias": torch.zeros(1)}},
        "position": {"step": 9}, "losses": {}, "loss_scale": {}, "rng": None, "checkpointer": {"best": best},
        "points": [],
    }  # fmt: skip
    run = SimpleNamespace(
        copy=copy, rank=1, control=SimpleNamespace(elapsed_s=lambda: 1.0),
        teller=SimpleNamespace(points=lambda points: None, epochs_at=lambda step: step / 4),
        checkpointer=SimpleNamespace(store=store, parts={"net": net}),
    )  # fmt: skip
    copy_save(cast(Any, run))
    assert [one.step for one in store.saved()] == saved
