"""Checkpoints are written beside the training: steps go on meanwhile, and what goes wrong is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worker.runtime import samples
from tests.worker.runtime.ranks import Ranks, events
from worker.plan import EXIT_REPORTED

pytestmark = pytest.mark.ranks
GATED = """import os, time
from worker.runtime.checkpoint import CheckpointStore

whole = CheckpointStore.save


def gated(*arguments, **named):
    while not os.path.exists(os.environ["GATE"]):
        time.sleep(0.01)
    if os.environ["GATE"].endswith("full"):
        raise OSError(28, "No space left on device")
    return whole(*arguments, **named)


CheckpointStore.save = gated
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program whose checkpoints wait for a file before they are written."""
    folder = tmp_path_factory.mktemp("beside")
    training = {"epochs": 6, "batch_size": 16, "patience": 0, "ema": 0}
    model = {"family": "mlp"}
    made = samples.program(
        folder, samples.wine(folder / "data"), model=model, training=training, checkpoints={"every_epochs": 1}
    )
    train = (made / "train.py").read_text()
    head, future, rest = train.partition("from __future__ import annotations\n")
    (made / "train.py").write_text(f"{head}{future}\n{GATED}\n{rest}" if future else f"{GATED}\n{train}")
    return made


def steps(work: Path) -> list[int]:
    """Steps told so far, and in which epoch."""
    return [event["data"]["epoch"] for event in events(work) if event["kind"] == "progress"]


def test_steps_go_on_while_a_checkpoint_is_written_and_all_are_there_in_the_end(program: Path, tmp_path: Path) -> None:
    gate, work = tmp_path / "gate", tmp_path / "work"
    ranks = Ranks(program, 1, DLH_WORK=str(work), GATE=str(gate))
    ranks.until(lambda: max(steps(work), default=0) >= 1)  # the second epoch, though the first is not saved yet
    assert not list((work / "checkpoints").glob("step-*"))
    gate.touch()
    assert ranks.wait() == [0], ranks.log()
    told = [event["data"]["step"] for event in events(work) if event["kind"] == "checkpoint"]
    assert len(told) >= 6 and told == sorted(told)
    assert list((work / "checkpoints").glob(f"step-{told[-1]:08d}"))


def test_a_disk_that_is_full_when_a_checkpoint_is_written_ends_the_run_and_is_told(
    program: Path, tmp_path: Path
) -> None:
    gate, work = tmp_path / "full", tmp_path / "work"
    gate.touch()
    ranks = Ranks(program, 1, DLH_WORK=str(work), GATE=str(gate))
    assert ranks.wait() == [EXIT_REPORTED], ranks.log()
    (error,) = [event["data"] for event in events(work) if event["kind"] == "error"]
    assert error["code"] == "disk_full"
