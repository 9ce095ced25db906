"""A run that was paused goes on with another number of ranks and learns what it would have learnt."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.worker.runtime import samples
from tests.worker.runtime.ranks import Ranks, steps_told
from worker.plan import EXIT_PAUSED

pytestmark = pytest.mark.ranks
EPOCHS = 100


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model without chance or batch statistics: the number of ranks must not change what it learns."""
    folder = tmp_path_factory.mktemp("other-ranks")
    training = {"epochs": EPOCHS, "batch_size": 20, "patience": 0, "ema": 0, "optimizer": "sgd", "learning_rate": 0.02}
    return samples.program(folder, samples.wine(folder / "data"), own_model=samples.EXACT_NET, training=training)


@pytest.fixture(scope="module")
def undisturbed(program: Path) -> Path:
    """Work folder of a run on one rank that nothing interrupted."""
    work = program / "undisturbed"
    ranks = Ranks(program, 1, DLH_WORK=str(work))
    assert ranks.wait() == [0], ranks.log()
    return work


def last_position(work: Path) -> dict:
    """Counters of the newest checkpoint."""
    return torch.load(sorted((work / "checkpoints").glob("step-*"))[-1] / "state.pt", weights_only=True)["position"]


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)], ids=["shrinks", "grows"])
def test_a_run_goes_on_with_another_number_of_ranks(
    program: Path, undisturbed: Path, tmp_path: Path, before: int, after: int
) -> None:
    work, requests = tmp_path / "work", tmp_path / "requests"
    requests.mkdir()
    surroundings = {"DLH_WORK": str(work), "DLH_REQUESTS": str(requests)}
    ranks = Ranks(program, before, backend="torch", **surroundings)
    ranks.until(lambda: steps_told(work))
    (requests / "pause").touch()
    assert ranks.wait() == [EXIT_PAUSED] * before, ranks.log()
    (requests / "pause").unlink()
    steps = last_position(undisturbed)["step"]
    assert 0 < last_position(work)["step"] < steps

    again = Ranks(program, after, backend="torch", **surroundings)
    assert again.wait() == [0] * after, again.log()
    assert last_position(work)["step"] == steps
    left, right = (load_file(folder / "results" / "model.safetensors") for folder in (work, undisturbed))
    for name, tensor in left.items():
        torch.testing.assert_close(tensor, right[name], rtol=1e-4, atol=1e-5)
