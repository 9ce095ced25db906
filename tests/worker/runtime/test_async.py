"""Parameter servers with real ranks: it learns, the bound holds, a slow rank holds nobody up, runs change modes."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.worker.runtime import samples
from tests.worker.runtime.ranks import Ranks, events, steps_told
from worker.plan import EXIT_PAUSED, EXIT_PEER_LOST

pytestmark = pytest.mark.ranks
BOUND = 3
NAP_S = 0.05
LAG = """
import os, time
from pathlib import Path
FIRST = Path(os.environ["DLH_WORK"], "first")
def step(rank):
    print("made a step", flush=True)
    if rank == 0:
        with FIRST.open("ab") as file:
            file.write(b".")
        return
    made = FIRST.stat().st_size if FIRST.exists() else 0
    end_s = time.monotonic() + 2
    while (FIRST.stat().st_size if FIRST.exists() else 0) < made + 4 and time.monotonic() < end_s:
        time.sleep(0.005)
"""
"""A step of the second rank takes as long as four of the first one, however slow both are."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures, with batch statistics and a running average; each rank says how many steps it made."""
    folder = tmp_path_factory.mktemp("async")
    profile = samples.digits(folder / "data", rows=600)
    training = {"epochs": 4, "batch_size": 32, "augment": "none", "ema": 0.9, "patience": 0}
    model = {"family": "cnn", "params": {"conv_layers": 2, "filters": 8, "dropout": 0.0}}
    samples.program(folder, profile, model=model, training=training)
    samples.change_spec(folder, training={"staleness": BOUND})
    return folder


def changed(program: Path, folder: Path, line: str) -> Path:
    """A copy with a line at the start of every step."""
    shutil.copytree(program, folder, ignore=shutil.ignore_patterns("work", "data"))
    (folder / "data").symlink_to(program / "data")
    text, place = (folder / "train.py").read_text(), "        optimizer.zero_grad"
    assert text.count(place) == 1
    (folder / "train.py").write_text(text.replace(place, f"        {line}\n{place}"))
    return folder


def results(work: Path) -> dict[str, Any]:
    """results.json of a run."""
    body: dict[str, Any] = json.loads((work / "results" / "results.json").read_text())
    return body


def told(work: Path, rank: int, name: str) -> list[float]:
    """All values of a metric that a rank told."""
    values = (event["data"]["values"] for event in events(work, rank) if event["kind"] == "metric")
    return [value[name] for value in values if name in value]


def newest(work: Path) -> dict[str, Any]:
    """State of the newest checkpoint."""
    state: dict[str, Any] = torch.load(
        sorted((work / "checkpoints").glob("step-*"))[-1] / "state.pt", weights_only=True
    )
    return state


def test_it_learns_within_the_bound_and_goes_on_in_other_modes(program: Path, tmp_path: Path) -> None:
    surroundings = {"DLH_WORK": str(tmp_path), "DLH_MODE": "async"}
    ranks = Ranks(program, 2, **surroundings)
    assert ranks.wait() == [0, 0], ranks.log() + ranks.log(1)
    assert results(tmp_path)["metrics"]["val"]["accuracy"] > 0.75
    oldest = [max(told(tmp_path, rank, f"rank{rank}/staleness_most")) for rank in (0, 1)]
    assert 0 < max(oldest) <= BOUND
    state = newest(tmp_path)
    steps = state["position"]["step"]
    assert state["position"]["epoch"] == 4
    made = {int(entry["step"]) for entry in state["parts"]["optimizer"]["state"].values()}
    assert made == {2 * steps}  # each rank's share of a step is an update

    alone = Ranks(program, 1, arguments=("--epochs", "5"), DLH_WORK=str(tmp_path))
    assert alone.wait() == [0], alone.log()
    assert newest(tmp_path)["position"]["epoch"] == 5
    assert results(tmp_path)["metrics"]["val"]["accuracy"] > 0.75
    back = Ranks(program, 2, arguments=("--epochs", "6"), **surroundings)
    assert back.wait() == [0, 0], back.log()
    assert newest(tmp_path)["position"]["step"] == steps // 4 * 6


def test_a_slow_rank_takes_less_of_the_work_and_holds_nobody_up(program: Path, tmp_path: Path) -> None:
    slow = changed(program, tmp_path / "program", "__import__('lag').step(run.rank)")
    (slow / "lag.py").write_text(LAG)
    samples.change_spec(slow, training={"staleness": 8})
    work = tmp_path / "work"
    ranks = Ranks(slow, 2, DLH_WORK=str(work), DLH_MODE="async")
    assert ranks.wait() == [0, 0], ranks.log() + ranks.log(1)
    made = [ranks.log(rank).count("made a step") for rank in (0, 1)]
    assert sum(made) == 2 * newest(work)["position"]["step"]
    assert made[0] >= 2 * made[1] > 0


def test_updates_in_step_are_those_of_one_process(program: Path, tmp_path: Path) -> None:
    plain = changed(program, tmp_path / "program", "pass")
    model = (
        "import torch\n"
        "class Net(torch.nn.Linear):\n"
        "    def forward(self, pictures):\n"
        "        return super().forward(pictures.flatten(1) / 255)\n"
        "def build(spec):\n"
        "    return Net(64, 10)\n"
    )
    (plain / "model.py").write_text(model)
    training = {"backup": 0, "optimizer": "sgd", "learning_rate": 0.01, "epochs": 2, "ema": 0, "clip_norm": 0}
    samples.change_spec(plain, training=training)
    found = []
    for size, work in ((1, tmp_path / "alone"), (2, tmp_path / "both")):
        ranks = Ranks(plain, size, DLH_WORK=str(work), DLH_MODE="async" if size > 1 else "single")
        assert ranks.wait() == [0] * size, ranks.log()
        found.append(newest(work)["parts"])
    alone, both = found
    for name, weight in alone["net"].items():
        torch.testing.assert_close(both["net"][name], weight, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(both["optimizer"]["state"], alone["optimizer"]["state"], rtol=1e-4, atol=1e-6)


def test_a_step_does_not_wait_for_a_backup_rank(program: Path, tmp_path: Path) -> None:
    slow = changed(program, tmp_path / "program", "__import__('lag').step(run.rank)")
    (slow / "lag.py").write_text(LAG)
    samples.change_spec(slow, training={"backup": 1, "epochs": 2})
    work = tmp_path / "work"
    ranks = Ranks(slow, 2, DLH_WORK=str(work), DLH_MODE="async")
    assert ranks.wait() == [0, 0], ranks.log() + ranks.log(1)
    steps = newest(work)["position"]["step"]
    made = [ranks.log(rank).count("made a step") for rank in (0, 1)]
    assert steps >= made[0] >= 2 * made[1] > 0
    assert {int(entry["step"]) for entry in newest(work)["parts"]["optimizer"]["state"].values()} == {steps}
    assert max(told(work, 0, "rank0/dropped")) > 0


def test_a_run_is_paused_between_whole_steps_and_goes_on(program: Path, tmp_path: Path) -> None:
    napping = changed(program, tmp_path / "program", f"__import__('time').sleep({NAP_S})")
    work, requests = tmp_path / "work", tmp_path / "requests"
    requests.mkdir()
    surroundings = {"DLH_WORK": str(work), "DLH_REQUESTS": str(requests), "DLH_MODE": "async"}
    ranks = Ranks(napping, 2, **surroundings)
    ranks.until(lambda: steps_told(work) > 3)
    (requests / "pause").touch()
    assert ranks.wait() == [EXIT_PAUSED] * 2, ranks.log() + ranks.log(1)
    paused = newest(work)
    assert paused["position"]["step"] > 0
    assert {int(entry["step"]) for entry in paused["parts"]["optimizer"]["state"].values()} == {
        2 * paused["position"]["step"]
    }
    (requests / "pause").unlink()
    again = Ranks(program, 2, **surroundings)
    assert again.wait() == [0, 0], again.log() + again.log(1)
    assert newest(work)["position"]["epoch"] == 4


def test_a_killed_rank_ends_the_other_as_in_sync(program: Path, tmp_path: Path) -> None:
    napping = changed(program, tmp_path / "program", f"__import__('time').sleep({NAP_S})")
    work = tmp_path / "work"
    ranks = Ranks(napping, 2, backend="torch", DLH_WORK=str(work), DLH_MODE="async")
    ranks.until(lambda: steps_told(work) > 2)
    os.kill(ranks.processes[1].pid, signal.SIGKILL)
    assert ranks.wait() == [EXIT_PEER_LOST, -signal.SIGKILL], ranks.log()


def test_a_program_that_moves_the_weights_itself_is_told_so(program: Path, tmp_path: Path) -> None:
    old = changed(program, tmp_path / "program", "pass")
    text = (old / "train.py").read_text()
    (old / "train.py").write_text(text.replace("run.update(optimizer)", "optimizer.step()"))
    ranks = Ranks(old, 2, DLH_WORK=str(tmp_path / "work"), DLH_MODE="async")
    ranks.wait()
    messages = [
        event["data"]["hint"]
        for rank in (0, 1)
        for event in events(tmp_path / "work", rank)
        if event["kind"] == "error"
    ]
    assert any("run.update(optimizer)" in message for message in messages)
