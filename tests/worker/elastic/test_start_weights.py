"""Ranks that are lost, come back or join later take the trained state; from the weights file a run begins alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.worker.elastic.test_members import FAR, Held, assert_same_end, gated, made
from tests.worker.runtime import samples
from tests.worker.runtime.ranks import Ranks, events
from worker.plan import EXIT_PAUSED, START_WEIGHTS
from worker.shares import Line, Planned

pytestmark = pytest.mark.ranks
RANKS, EPOCHS = 3, 16
IN_FIRST_EPOCH = 2
"""A step: no checkpoint is there yet."""
PLANNED = Planned(rows=(15, 15, 7), lines=(Line(0, 1), Line(0, 1), Line(0, 2)), correct=False)
UNLIKE = [{}, {}, {"DLH_SLOWDOWN": "2"}]
SAID = "Starts from the weights file"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It starts from weights that its seed does not give."""
    found = made(tmp_path_factory.mktemp("started"), samples.EXACT_NET, EPOCHS)
    ranks = Ranks(found, 1, arguments=("--epochs", "1"), DLH_WORK=str(found / "first"))
    assert ranks.wait() == [0], ranks.log()
    learnt = load_file(found / "first" / "results" / "model.safetensors")
    save_file({name: -2 * value for name, value in learnt.items()}, found / START_WEIGHTS)
    samples.change_spec(found, model={"weights": "mine"})
    return found


@pytest.fixture(scope="module")
def undisturbed(program: Path) -> Path:
    """Work folder of one rank that nothing disturbs."""
    ranks = Ranks(program, 1, DLH_WORK=str(program / "undisturbed"))
    assert ranks.wait() == [0], ranks.log()
    assert said(program / "undisturbed") == 1
    return program / "undisturbed"


@pytest.fixture
def slow(program: Path, tmp_path: Path) -> Path:
    """See `gated`."""
    return gated(program, tmp_path / "slow")


@pytest.fixture
def begin(slow: Path, tmp_path: Path) -> Iterator[Callable[..., Held]]:
    """Begins a gang that can do without one rank, in the same folder each time."""
    begun: list[Held] = []

    def begin(**more: object) -> Held:
        work = tmp_path / "work"
        begun.append(Held(slow, work, RANKS - 1, DLH_REQUESTS=str(work / "requests"), **more))  # type: ignore[arg-type]
        return begun[-1]

    yield begin
    for held in begun:
        held.ranks.end()


def said(work: Path) -> int:
    """How often people were told that a run starts from the file."""
    told = [event["data"] for rank in range(RANKS) for event in events(work, rank) if event["kind"] == "note"]
    return sum(SAID in data["message"] for data in told)


def zeroed(program: Path) -> None:
    """From now on there are other weights in the file."""
    stored = load_file(program / START_WEIGHTS)
    save_file({name: torch.zeros_like(value) for name, value in stored.items()}, program / START_WEIGHTS)


def ends_well(held: Held) -> None:
    held.open_to(FAR)
    assert held.ranks.wait() == 0, held.ranks.log()
    assert set(held.ranks.codes().values()) == {(0, True)}


def test_a_rank_that_joins_later_and_a_first_one_that_comes_back_go_on_from_what_was_learnt(
    begin: Callable[..., Held], slow: Path, undisturbed: Path
) -> None:
    held = begin(started=RANKS - 1)
    held.reach(10)
    zeroed(slow)
    held.ranks.ask(1, *range(RANKS))
    held.take_in(30)
    held.reach(31)
    held.lose(0, 40)
    held.take_in(FAR)
    ends_well(held)
    assert held.ranks.sizes() == [RANKS - 1, RANKS, RANKS - 1, RANKS]
    assert said(held.work) == 1
    assert_same_end(held.work, undisturbed)


def test_so_do_ranks_on_unlike_devices(begin: Callable[..., Held], slow: Path, undisturbed: Path) -> None:
    held = begin(own=UNLIKE, DLH_SPLIT=PLANNED.to_json())
    held.reach(10)
    zeroed(slow)
    held.lose(0, 20)
    held.take_in(30)
    ends_well(held)
    assert said(held.work) == 1
    assert_same_end(held.work, undisturbed)


def test_a_gang_that_ended_before_its_first_checkpoint_starts_from_the_file_again(
    begin: Callable[..., Held], undisturbed: Path
) -> None:
    held = begin()
    held.reach(IN_FIRST_EPOCH)
    held.ranks.end()
    assert not list((held.work / "checkpoints").glob("step-*"))
    held = begin()
    ends_well(held)
    assert said(held.work) == 2
    assert_same_end(held.work, undisturbed)


def test_a_gang_that_goes_on_from_a_checkpoint_takes_nothing_of_the_file(
    begin: Callable[..., Held], slow: Path, undisturbed: Path
) -> None:
    held = begin()
    held.reach(10)
    (held.work / "requests" / "pause").touch()
    held.open_to(FAR)
    assert held.ranks.wait() == EXIT_PAUSED, held.ranks.log()
    (held.work / "requests" / "pause").unlink()
    zeroed(slow)
    ends_well(begin())
    assert said(held.work) == 1
    assert_same_end(held.work, undisturbed)


def test_ranks_with_uneven_shares_start_from_the_file_and_after_a_checkpoint_from_that(
    slow: Path, undisturbed: Path, tmp_path: Path
) -> None:
    work, gate = tmp_path / "work", tmp_path / "gate"
    more = {"DLH_WORK": str(work), "DLH_SPLIT": PLANNED.to_json(), "GATE": str(gate)}
    for step, starts in ((IN_FIRST_EPOCH, 1), (10, 2), (FAR, 2)):
        gate.write_text(str(step))
        ranks = Ranks(slow, RANKS, own=UNLIKE, **more)
        if step < FAR:
            ranks.until(gate.with_name(f"held-{step}").exists)
            ranks.kill()
        else:
            assert ranks.wait() == [0] * RANKS, ranks.log()
        assert said(work) == starts
        if starts == 2:
            zeroed(slow)
    assert_same_end(work, undisturbed)
