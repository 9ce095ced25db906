"""An elastic run on two nodes: real supervisors, sandboxes and Horovod ranks, and what is killed of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil
import pytest
import redis
import torch
from safetensors.torch import load_file

from tests.waiting import wait_for
from tests.worker.elastic.test_members import COMMIT_STEPS, FAR, assert_same_end, made
from tests.worker.elastic.test_members import PLACE as STEP
from tests.worker.pairs import NODES, START, Pair, cut
from tests.worker.runtime import samples
from tests.worker.runtime.ranks import Ranks, events
from worker.plan import Limits, RankPlan, RunPlan
from worker.runtime.checkpoint import CheckpointStore

pytestmark = pytest.mark.ranks
EPOCHS = 40
HELD = 11
NO_MORE: Mapping[str, str] = MappingProxyType({})
LOADING_S = 2.0
"""Between two copies: so that a process that loads is there before the training is over."""
GATE = """
        import os, pathlib, time
        while run.position.step >= int((pathlib.Path(__file__).parent / "gate").read_text()):
            (pathlib.Path(os.environ["DLH_WORK"]) / f"held-{run.position.step}").touch()
            time.sleep(0.02)
"""
"""Each step waits for the test; the ranks may read the program's folder, and write their own."""


class Elastic:
    """A job with so many ranks on each node, of which one will do, or `least`."""

    def __init__(
        self, pair: Pair, program: Path, *ranks: int, least: int = 1, more: Mapping[str, str] = NO_MORE
    ) -> None:
        """`more`: further nodes, and where they are."""
        self.pair = pair
        shutil.copytree(program, pair.paths.program, ignore=shutil.ignore_patterns("undisturbed", "data"))
        train = (program / "train.py").read_text()
        (pair.paths.program / "train.py").write_text(train.replace(STEP, GATE + STEP))
        self.open_to(0)
        places = {**dict(zip(NODES, pair.addresses, strict=True)), **more}
        nodes = [node for node, count in zip(places, ranks, strict=True) for _ in range(count)]
        plan = RunPlan(
            job_id="job1", token=1, mode="sync", job_dir=str(pair.paths.root), dataset_dir=str(program / "data"),
            ranks=tuple(
                RankPlan(rank=rank, node=node, local_rank=nodes[:rank].count(node), device="cpu", threads=1)
                for rank, node in enumerate(nodes)
            ),
            limits=Limits(memory_bytes=2 << 30, disk_bytes=1 << 30), minimum_sandbox_level=0, own_code=False,
            addresses=places, least=least, word="word",
        )  # fmt: skip
        file = pair.folder / "plan.json"
        file.write_text(plan.to_json())
        for node in places:
            pair.call(node, START, str(file))

    def open_to(self, step: int) -> None:
        making = self.pair.paths.root / "making"
        making.write_text(str(step))
        making.replace(self.pair.paths.program / "gate")

    def reach(self, step: int) -> None:
        """Go on to a step, and be held there."""
        self.open_to(step)
        self.until((self.pair.paths.work / f"held-{step}").exists)

    def until(self, condition: Callable[[], Any]) -> Any:
        def there() -> Any:
            found = condition()
            assert found or not self.pair.paths.exit_file(1).exists(), self.pair.logs()
            return found

        return wait_for(there, 180.0)

    def take_in(self, step: int) -> int:
        """Go on from one copy to the next until a rank that comes back is there; the step where they are held then."""
        before = len(self.going_on(2))
        while len(self.going_on(2)) == before:
            step += COMMIT_STEPS
            self.reach(step)
            time.sleep(LOADING_S)
        return step

    def processes(self, node: str) -> list[psutil.Process]:
        """Ranks on a node."""
        work, found = str(self.pair.of(node).work), []
        for process in psutil.process_iter():
            try:
                environment = process.environ()
            except psutil.Error:
                continue
            if environment.get("DLH_WORK") == work and "DLH_SEAT_FD" in environment:
                found.append(process)
        return found

    def lose(self, node: str) -> None:
        """The machine is gone: the supervisor, and with it the sandbox."""
        gone = self.processes(node)
        self.signal(node, signal.SIGKILL)
        psutil.wait_procs(gone)

    def signal(self, node: str, number: int) -> None:
        """Of the supervisor."""
        os.kill(json.loads(self.pair.of(node).pid_file(1).read_text())["pid"], number)

    def notes(self) -> list[str]:
        """What the first rank has told people."""
        entries = redis.Redis.from_url(self.pair.broker).xrange("dlh:job:job1")
        bodies = [json.loads(fields[b"event"]) for _, fields in entries]
        return [body["data"]["message"] for body in bodies if body["kind"] == "note" and body["rank"] == 0]

    def going_on(self, ranks: int) -> list[str]:
        return [note for note in self.notes() if f"continuing with {ranks} of" in note]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As in `test_elastic`: ranks must not change what it learns."""
    return made(tmp_path_factory.mktemp("elastic"), samples.EXACT_NET, EPOCHS)


@pytest.fixture(scope="module")
def undisturbed(program: Path) -> Path:
    """What it learns where nothing happens, on one node."""
    work = program / "undisturbed"
    ranks = Ranks(program, 2, DLH_WORK=str(work))
    assert ranks.wait() == [0, 0], ranks.log()
    return work


def assert_same(pair: Pair, undisturbed: Path) -> None:
    """The end of a run that nothing disturbed."""
    shutil.copy(pair.paths.rank_events(1, 0), pair.paths.events)
    assert_same_end(pair.paths.work, undisturbed)


def outcome(pair: Pair, node: str) -> str:
    return str(pair.ended(node).data["outcome"])


def test_a_lost_node_is_left_behind_and_the_other_ends_as_if_nothing_had_been(
    loopback: Pair, program: Path, undisturbed: Path
) -> None:
    run = Elastic(loopback, program, 2, 1)
    run.reach(10)
    run.lose("right")
    run.reach(20)
    assert run.going_on(2)
    run.open_to(FAR)
    assert outcome(loopback, "left") == "succeeded", loopback.log(0)
    assert_same(loopback, undisturbed)


def test_a_rank_of_the_other_node_and_then_the_only_one_of_the_first_come_back(
    loopback: Pair, program: Path, undisturbed: Path
) -> None:
    run = Elastic(loopback, program, 1, 1)
    run.reach(10)
    run.processes("right")[0].kill()
    step = run.take_in(16)
    run.processes("left")[0].kill()
    run.reach(step + 10)
    run.open_to(FAR)
    assert [outcome(loopback, node) for node in NODES] == ["succeeded", "succeeded"], loopback.logs()
    assert len(run.going_on(2)) >= 2
    assert_same(loopback, undisturbed)


@pytest.mark.parametrize("ranks", [(1, 1), (1, 2)])
def test_without_the_first_node_the_other_saves_its_copy_and_what_goes_on_from_it_ends_as_if_nothing_had_been(
    loopback: Pair, program: Path, undisturbed: Path, tmp_path: Path, ranks: tuple[int, int]
) -> None:
    run = Elastic(loopback, program, *ranks)
    run.reach(HELD)
    run.lose("left")
    run.open_to(FAR)
    ended = loopback.ended("right").data
    assert (ended["outcome"], ended["failure"].get("suffered")) == ("lost", True), loopback.log(1)
    newest = ended["rescue"][0]
    assert HELD - COMMIT_STEPS <= int(newest.removeprefix("step-")) <= HELD
    saved = CheckpointStore(loopback.of("right").checkpoints, keep=2, larger_is_better=False)
    assert saved.load(newest)["position"]["step"] == int(newest.removeprefix("step-"))
    assert {one.name for one in saved.saved()} == set(ended["rescue"])
    work = tmp_path / "again"
    shutil.copytree(saved.folder, work / "checkpoints")
    again = Ranks(program, 2, DLH_WORK=str(work))
    assert again.wait() == [0, 0], again.log()
    notes = [event["data"]["message"] for event in events(work) if event["kind"] == "note"]
    assert any(f"Continuing from checkpoint {newest}" in note for note in notes), notes
    mine, other = (load_file(one / "results" / "model.safetensors") for one in (work, undisturbed))
    for name, tensor in mine.items():
        torch.testing.assert_close(tensor, other[name], rtol=2e-5, atol=2e-6)


def test_a_node_whose_cable_is_cut_is_left_behind_and_ends_when_it_notices(
    namespaces: Pair, program: Path, undisturbed: Path
) -> None:
    run = Elastic(namespaces, program, 1, 1)
    run.reach(10)
    with cut("right"):
        run.open_to(FAR)
        assert outcome(namespaces, "left") == "succeeded", namespaces.log(0)
        ended = namespaces.ended("right").data
    assert (ended["outcome"], ended["failure"].get("suffered")) == ("lost", True), namespaces.log(1)
    assert ended["rescue"], "it cannot know which of the two is lost: control does"
    assert_same(namespaces, undisturbed)
