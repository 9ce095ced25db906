"""A rank is killed while all make a checkpoint: a run in another mode goes on from the one before as if nothing was."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from tests.worker.runtime import samples
from tests.worker.runtime.pipeline.test_stage import alone, assert_close, program
from tests.worker.runtime.ranks import Ranks
from tests.worker.runtime.test_async import newest, results
from tests.worker.runtime.test_async import program as served
from worker.plan import EXIT_PEER_LOST

__all__ = ["alone", "program", "served"]
pytestmark = pytest.mark.ranks
DIES = """
import os, signal
from worker.runtime import checkpoint, checkpointer
def dies_at(owner, name, after):
    real, calls = getattr(owner, name), []
    def called(*arguments):
        calls.append(name)
        made = real(*arguments) if after or len(calls) == 1 else None
        if len(calls) == 2: os.kill(os.getpid(), signal.SIGKILL)
        return made
    setattr(owner, name, called)
if os.environ.get("DIES") == "before it hands over its part": dies_at(checkpointer.Checkpointer, "_state", False)
if os.environ.get("DIES") == "before the written one has its name": dies_at(checkpoint, "state_write", True)
"""
"""At the second checkpoint."""


def killed(program: Path, folder: Path, rank: int, place: str, **more: str) -> Path:
    """Work folder of a run that ended so."""
    shutil.copytree(program, folder / "program", ignore=shutil.ignore_patterns("alone", "three", "work"))
    samples.change_spec(folder / "program", checkpoints={"every_epochs": 1})
    train = folder / "program" / "train.py"
    docstring, quotes, rest = train.read_text().partition('"""\n')
    future = "from __future__ import annotations\n"
    assert rest.count(future) <= 1
    train.write_text(docstring + quotes + future + DIES + rest.replace(future, ""))
    own: list[dict[str, str]] = [{}, {}]
    own[rank] = {"DIES": place}
    work = folder / "work"
    ranks = Ranks(folder / "program", 2, backend="torch", own=own, DLH_WORK=str(work), **more)
    codes = [EXIT_PEER_LOST, EXIT_PEER_LOST]
    codes[rank] = -signal.SIGKILL
    assert ranks.wait() == codes, ranks.log()
    assert len(list((work / "checkpoints").glob("step-*"))) == 1
    return work


@pytest.mark.parametrize(
    ("rank", "place"), [(1, "before it hands over its part"), (0, "before the written one has its name")]
)
def test_one_process_goes_on_from_killed_stages_to_what_it_learns_alone(
    request: pytest.FixtureRequest, tmp_path: Path, rank: int, place: str
) -> None:
    program, undisturbed = request.getfixturevalue("program"), request.getfixturevalue("alone")
    work = killed(program, tmp_path, rank, place)
    again = Ranks(program, 1, DLH_WORK=str(work))
    assert again.wait() == [0], again.log()
    assert "Continuing from checkpoint" in again.log()
    assert_close(undisturbed, work)


def test_ranks_that_sum_go_on_from_killed_servers_with_every_update_up_to_the_last_checkpoint(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    program = request.getfixturevalue("served")
    work = killed(program, tmp_path, 1, "before it hands over its part", DLH_MODE="async")
    state = newest(work)
    made = {int(entry["step"]) for entry in state["parts"]["optimizer"]["state"].values()}
    assert made == {2 * state["position"]["step"]}, "each rank's share of a step is an update"
    again = Ranks(program, 2, DLH_WORK=str(work), DLH_MODE="sync")
    assert again.wait() == [0, 0], again.log()
    assert "Continuing from checkpoint" in again.log()
    assert newest(work)["position"]["epoch"] == 4
    assert results(work)["metrics"]["val"]["accuracy"] > 0.75
