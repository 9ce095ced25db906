"""A gang of unlike devices: a lost rank and its return leave each device the rows that its speed and memory allow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worker.elastic.test_members import EPOCHS, FAR, PLACE, Held, assert_same_end, gated, made
from tests.worker.runtime import samples
from tests.worker.runtime.ranks import Ranks, events
from worker.shares import Line, Planned

pytestmark = pytest.mark.ranks
PLANNED = Planned(rows=(15, 15, 7), most=(0, 0, 9), lines=(Line(0, 1), Line(0, 1), Line(0, 2)), correct=False)
SLOW = 2
RECORD = """
        if run.position.step_in_epoch < 2:  # the last step of an epoch has another number of rows
            with open(f"{os.environ['DLH_WORK']}/rows-{os.environ['DLH_RANK']}", "a") as record:
                print(os.getpid(), run.world_size, len(targets), file=record)
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What it learns does not depend on who takes which rows of a step."""
    return made(tmp_path_factory.mktemp("unlike"), samples.EXACT_NET, EPOCHS)


def taken(work: Path, slot: int) -> tuple[set[tuple[int, int]], int]:
    """({(ranks that were there, rows that this one took of a step)}, processes that it was)."""
    lines = [tuple(map(int, line.split())) for line in (work / f"rows-{slot}").read_text().splitlines()]
    return {(size, rows) for _, size, rows in lines}, len({pid for pid, _, _ in lines})


def test_each_device_keeps_its_rows_when_the_first_rank_is_lost_and_comes_back(program: Path, tmp_path: Path) -> None:
    undisturbed = tmp_path / "undisturbed"
    ranks = Ranks(program, 3, DLH_WORK=str(undisturbed))
    assert ranks.wait() == [0, 0, 0], ranks.log()
    slow = gated(program, tmp_path / "slow")
    train = (slow / "train.py").read_text()
    (slow / "train.py").write_text(train.replace(PLACE, RECORD + PLACE))
    own: list[dict[str, str]] = [{}, {}, {"DLH_SLOWDOWN": str(SLOW)}]
    held = Held(slow, tmp_path / "work", least=2, own=own, DLH_SPLIT=PLANNED.to_json())
    try:
        held.reach(10)
        held.lose(0, 20)
        held.take_in(30)
        held.reach(30)
        held.open_to(FAR)
        assert held.ranks.wait() == 0, held.ranks.log()
    finally:
        held.ranks.end()
    assert set(held.ranks.codes().values()) == {(0, True)}
    assert taken(held.work, 0) == ({(3, 15)}, 2)
    assert taken(held.work, 1) == ({(3, 15), (2, 28)}, 1)
    assert taken(held.work, SLOW) == ({(3, 7), (2, 9)}, 1)
    notes = [event["data"]["message"] for event in events(held.work) if event["kind"] == "note"]
    assert any("continuing with 2 of 3 ranks" in note and "The ranks take 28 + 9 rows." in note for note in notes)
    assert any("A rank has come back" in note and "The ranks take 15 + 7 + 15 rows." in note for note in notes)
    assert_same_end(held.work, undisturbed)
