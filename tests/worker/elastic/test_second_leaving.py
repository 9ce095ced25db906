"""Nodes of an elastic run that are shut down one after the other: the one it cannot do without any more has it save."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from tests.worker.elastic.test_members import FAR, made
from tests.worker.elastic.test_several_nodes import EPOCHS, Elastic, outcome
from tests.worker.pairs import DROP, Pair
from tests.worker.runtime import samples
from worker.elastic.gang import RETURNS_MAX
from worker.runtime.checkpoint import CheckpointStore

pytestmark = pytest.mark.ranks
THIRD = "third"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """No checkpoint is due for a long time."""
    found = made(tmp_path_factory.mktemp("leaving"), samples.EXACT_NET, EPOCHS)
    samples.change_spec(found, checkpoints={"every_epochs": 1000, "commit_steps": 4})
    return found


def test_the_second_node_to_leave_has_the_run_save_where_it_could_do_without_one_only(
    loopback: Pair, program: Path
) -> None:
    run = Elastic(loopback, program, 1, 1, 1, least=2, more={THIRD: "127.0.0.4"})
    try:
        run.reach(10)
        run.signal(THIRD, signal.SIGTERM)
        assert outcome(loopback, THIRD) == "lost"
        run.reach(20)
        run.until(lambda: run.going_on(2))  # of three ranks two will do
        run.signal("right", signal.SIGTERM)
        run.open_to(FAR)
        ended = loopback.ended("right").data
        assert (ended["outcome"], ended["failure"]["code"]) == ("lost", "node_stopped"), loopback.logs()
        assert ended["failure"]["saved"], loopback.logs()
        assert outcome(loopback, "left") == "paused", loopback.logs()
        store = CheckpointStore(loopback.paths.checkpoints, keep=2, larger_is_better=False)
        assert max(one.step for one in store.saved()) >= 20
    finally:
        loopback.call(THIRD, DROP)


def test_a_node_that_leaves_while_a_rank_of_the_other_stays_away_has_the_run_save(
    loopback: Pair, program: Path
) -> None:
    run = Elastic(loopback, program, 2, 2, least=2)
    run.reach(10)
    stays = run.processes("left")[0]
    for _ in range(RETURNS_MAX + 1):
        gone = run.until(lambda: [process for process in run.processes("left") if process != stays])
        gone[0].kill()
        psutil.wait_procs(gone)
    run.reach(20)
    run.until(lambda: run.going_on(3))
    run.signal("right", signal.SIGTERM)
    run.open_to(FAR)
    ended = loopback.ended("right").data
    assert (ended["outcome"], ended["failure"]["code"]) == ("lost", "node_stopped"), loopback.logs()
    assert ended["failure"]["saved"], loopback.logs()
    assert outcome(loopback, "left") == "paused", loopback.logs()
