"""A gang that goes on without a lost rank, and takes it in again: real ranks, killed one after the other."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.worker.elastic_gang import ElasticRanks
from tests.worker.runtime import samples
from tests.worker.runtime.ranks import Ranks, events
from worker.plan import EXIT_PAUSED

pytestmark = pytest.mark.ranks
RANKS, COMMIT_STEPS, EPOCHS = 3, 4, 30
GATE = """
        import os, pathlib, time
        while (gate := pathlib.Path(os.environ["GATE"])) and run.position.step >= int(gate.read_text()):
            gate.with_name(f"held-{run.position.step}").touch()
            time.sleep(0.02)
"""
FAR = 1_000_000
PLACE = "        optimizer.zero_grad"


def made(folder: Path, own: str, epochs: int) -> Path:
    """A program for wines, of somebody's own model."""
    training = {"epochs": epochs, "batch_size": 37, "patience": 0, "ema": 0.9, "optimizer": "adamw"}
    found = samples.program(folder, samples.wine(folder / "data"), own_model=own, training=training)
    samples.change_spec(found, checkpoints={"commit_steps": COMMIT_STEPS})
    return found


def gated(program: Path, folder: Path) -> Path:
    """The same program, each step of which waits for a gate: it is where the test wants it, however slow all is."""
    shutil.copytree(program, folder, ignore=shutil.ignore_patterns("undisturbed"))
    train = (folder / "train.py").read_text()
    assert train.count(PLACE) == 1
    (folder / "train.py").write_text(train.replace(PLACE, GATE + PLACE))
    return folder


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model without chance or batch statistics: ranks must not change what it learns. 37 does not divide."""
    return made(tmp_path_factory.mktemp("elastic"), samples.EXACT_NET, EPOCHS)


@pytest.fixture(scope="module")
def slow(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """See `gated`."""
    return gated(program, tmp_path_factory.mktemp("slow") / "program")


@pytest.fixture(scope="module")
def undisturbed(program: Path) -> Path:
    """Work folder of the same ranks in a gang that is not elastic, which nothing disturbs."""
    work = program / "undisturbed"
    ranks = Ranks(program, RANKS, DLH_WORK=str(work))
    assert ranks.wait() == [0] * RANKS, ranks.log()
    return work


class Held:
    """A gang whose ranks wait before the step that the gate names."""

    def __init__(
        self,
        program: Path,
        work: Path,
        least: int,
        ranks: int = RANKS,
        own: Sequence[dict[str, str]] = (),
        started: int = 0,
        **more: str,
    ) -> None:
        self.work, self.gate = work, work / "gate"
        work.mkdir(exist_ok=True)
        self.open_to(0)
        self.size = ranks
        self.ranks = ElasticRanks(program, ranks, least, work, own=own, started=started, GATE=str(self.gate), **more)

    def open_to(self, step: int) -> None:
        making = self.work / "making"
        making.write_text(str(step))
        making.replace(self.gate)

    def reach(self, step: int) -> None:
        """Go on to a step and be held there."""
        self.open_to(step)
        self.ranks.until((self.work / f"held-{step}").exists)

    def lose(self, number: int, step: int) -> None:
        """Kill a rank while it is held, and let the others go on to a step."""
        self.ranks.kill(number)
        self.reach(step)

    def take_in(self, step: int) -> None:
        """Wait for the rank that comes back, and let all go on to a step; it is seated on the way."""
        generation = len(self.ranks.sizes())
        self.ranks.until(lambda: self.ranks.sizes()[-1] == self.size or generation in self.calls())
        self.open_to(step)
        self.ranks.until(lambda: self.ranks.sizes()[-1] == self.size)

    def narrow(self, number: int, *slots: int, step: int) -> None:
        """Ask for these ranks alone while all are held, and let them go on to a step; the others leave on the way."""
        generation = len(self.ranks.sizes())
        self.ranks.ask(number, *slots)
        self.ranks.until(lambda: generation in self.calls())
        self.open_to(step)
        self.ranks.until(lambda: number in dict(self.ranks.widths()))
        self.reach(step)

    def calls(self) -> list[int]:
        """Generations that were called together for one that came back."""
        return [line["call"] for line in self.ranks.told() if "call" in line]


@pytest.fixture
def held(slow: Path, tmp_path: Path) -> Iterator[Held]:
    """Three ranks that can do without one."""
    work = tmp_path / "work"
    gang = Held(slow, work, RANKS - 1, DLH_REQUESTS=str(work / "requests"))
    yield gang
    gang.ranks.end()


def curve(work: Path) -> dict[tuple[str, int], float]:
    """What the first rank told, by name and step; told twice it is the same."""
    told = (event["data"] for event in events(work) if event["kind"] == "metric")
    return {
        (name, data["step"]): value
        for data in told
        for name, value in data["values"].items()
        if not name.startswith("rank")
    }


def assert_same_end(left: Path, right: Path) -> None:
    """Same weights and the same curve, but for the order of additions."""
    mine, other = (load_file(work / "results" / "model.safetensors") for work in (left, right))
    for name, tensor in mine.items():
        torch.testing.assert_close(tensor, other[name], rtol=2e-5, atol=2e-6)
    curves = curve(left), curve(right)
    assert curves[0].keys() == curves[1].keys()
    for place, value in curves[0].items():
        assert value == pytest.approx(curves[1][place], rel=1e-3, abs=1e-5), place


def went_back_to(work: Path) -> list[int]:
    """Steps from which those that were left went on, loss by loss."""
    told = [event["data"]["message"] for event in events(work) if event["kind"] == "note"]
    return [int(found[1]) for text in told if (found := re.match(r"A rank was lost: .* from step (\d+)", text))]


def test_the_last_and_then_the_first_rank_are_lost_and_come_back(undisturbed: Path, held: Held) -> None:
    held.reach(10)
    held.lose(RANKS - 1, 20)
    held.take_in(30)
    held.reach(31)
    held.lose(0, 40)
    held.take_in(FAR)
    assert held.ranks.wait() == 0, held.ranks.log()
    assert set(held.ranks.codes().values()) == {(0, True)}
    assert len(held.ranks.sizes()) > 2
    for step, held_at in zip(went_back_to(held.work), (10, 31), strict=True):
        assert held_at - COMMIT_STEPS < step <= held_at, "more is lost than was made since the last commit"
    assert_same_end(held.work, undisturbed)


def test_of_two_ranks_the_first_is_lost_and_the_other_goes_on_alone(
    undisturbed: Path, slow: Path, tmp_path: Path
) -> None:
    held = Held(slow, tmp_path / "work", least=1, ranks=2)
    try:
        held.reach(10)
        held.lose(0, 20)
        held.open_to(FAR)
        assert held.ranks.wait() == 0, held.ranks.log()
    finally:
        held.ranks.end()
    assert held.ranks.sizes()[:2] == [2, 1]
    assert_same_end(held.work, undisturbed)


def test_with_too_few_ranks_left_all_end_and_the_loss_is_told(slow: Path, tmp_path: Path) -> None:
    held = Held(slow, tmp_path / "work", RANKS)
    try:
        held.reach(10)
        held.ranks.kill(1)
        held.open_to(FAR)
        assert held.ranks.wait() == 128 + 9, held.ranks.log()
    finally:
        held.ranks.end()
    assert held.ranks.codes()[1] == (-9, True)
    assert held.ranks.sizes() == [RANKS]


@pytest.mark.parametrize("stays", [0, 1])
def test_of_two_ranks_one_leaves_when_asked_and_comes_back_when_asked(
    undisturbed: Path, slow: Path, tmp_path: Path, stays: int
) -> None:
    held = Held(slow, tmp_path / "work", least=1, ranks=2)
    try:
        held.reach(10)
        held.narrow(1, stays, step=20)
        held.ranks.ask(2, 0, 1)
        held.take_in(30)
        held.reach(30)
        held.open_to(FAR)
        assert held.ranks.wait() == 0, held.ranks.log()
    finally:
        held.ranks.end()
    assert held.ranks.sizes() == [2, 1, 2]
    assert (held.ranks.left(), held.ranks.widths()) == ([1 - stays], [(1, [stays]), (2, [0, 1])])
    assert set(held.ranks.codes().values()) == {(0, True)}
    assert not [event for event in events(held.work) if event["kind"] == "note" and "lost" in event["data"]["message"]]
    assert_same_end(held.work, undisturbed)


def test_a_rank_is_lost_while_another_is_asked_to_leave(undisturbed: Path, slow: Path, tmp_path: Path) -> None:
    held = Held(slow, tmp_path / "work", least=1)
    try:
        held.reach(10)
        held.ranks.ask(1, 0, 1)
        held.ranks.until(held.calls)
        held.ranks.kill(1)
        held.open_to(20)
        held.ranks.until(held.ranks.widths)
        held.open_to(FAR)
        assert held.ranks.wait() == 0, held.ranks.log()
    finally:
        held.ranks.end()
    assert held.ranks.left() == [2]
    assert held.ranks.widths()[0][0] == 1 and 2 not in held.ranks.widths()[0][1]
    assert_same_end(held.work, undisturbed)


def test_a_resumed_run_goes_on_with_the_random_state_of_every_rank(tmp_path: Path) -> None:
    program = made(tmp_path, samples.EXACT_NET.replace("nn.Tanh(), ", "nn.Tanh(), nn.Dropout(0.5), "), epochs=10)
    undisturbed, work = tmp_path / "undisturbed", tmp_path / "work"
    ranks = Ranks(program, 2, DLH_WORK=str(undisturbed))
    assert ranks.wait() == [0, 0], ranks.log()
    slow = gated(program, tmp_path / "slow")
    for step, code in ((10, EXIT_PAUSED), (FAR, 0)):
        held = Held(slow, work, least=1, ranks=2, DLH_REQUESTS=str(work / "requests"))
        try:
            if code:
                held.reach(step)
                (work / "requests" / "pause").touch()
            held.open_to(FAR)
            assert held.ranks.wait() == code, held.ranks.log()
        finally:
            held.ranks.end()
        (work / "requests" / "pause").unlink(missing_ok=True)
    assert_same_end(work, undisturbed)


@pytest.mark.parametrize(("mode", "size", "backend"), [("single", 1, "horovod"), ("pipeline", 2, "torch")])
def test_a_paused_gang_goes_on_in_another_mode(
    undisturbed: Path, held: Held, program: Path, mode: str, size: int, backend: str
) -> None:
    held.reach(10)
    (held.work / "requests" / "pause").touch()
    held.open_to(FAR)
    assert held.ranks.wait() == EXIT_PAUSED, held.ranks.log()
    ranks = Ranks(program, size, backend=backend, DLH_WORK=str(held.work), DLH_MODE=mode)
    assert ranks.wait() == [0] * size, ranks.log()
    mine, other = (load_file(work / "results" / "model.safetensors") for work in (held.work, undisturbed))
    for name, tensor in mine.items():
        torch.testing.assert_close(tensor, other[name], rtol=1e-4, atol=1e-5)
