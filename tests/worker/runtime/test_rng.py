"""Seeds: every one that a spec takes trains."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.worker.runtime import samples
from tests.worker.runtime.ranks import Ranks
from worker.runtime.rng import batch_seed

LARGEST = 2**32 - 1
"""Of `training.seed`."""


def test_a_generator_takes_the_seed_of_every_batch_and_small_ones_are_what_they_were() -> None:
    assert batch_seed(7, 3, 11, 2) == ((7 * 9973 + 3) * 1_000_003 + 11) * 4096 + 2
    seeds = {batch_seed(LARGEST, epoch, step, shard) for epoch in range(9) for step in range(9) for shard in range(9)}
    assert len(seeds) == 9**3
    for seed in seeds:
        torch.Generator().manual_seed(seed)


@pytest.mark.ranks
def test_the_largest_seed_of_a_spec_trains(tmp_path: Path) -> None:
    program = samples.program(tmp_path, samples.wine(tmp_path / "data"), training={"epochs": 1, "seed": LARGEST})
    ranks = Ranks(program, 1, DLH_WORK=str(tmp_path / "work"))
    assert ranks.wait() == [0], ranks.log()
    assert (tmp_path / "work/results/results.json").exists()
