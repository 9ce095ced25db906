"""Parameter servers on two nodes whose network is cut: two network namespaces, and a program as people run it."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from tests.waiting import wait_for
from tests.worker.pairs import NODES, Pair, cut_between
from tests.worker.runtime import samples

pytestmark = pytest.mark.ranks
ROWS = 20_000
CUT_S = 5.0
"""The fault itself, not a limit."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its epochs have thousands of steps: ranks are with the servers, and do not meet."""
    folder = tmp_path_factory.mktemp("async")
    numbers = np.random.default_rng(0).normal(size=ROWS)
    columns = {"x": numbers, "kind": ["more" if number > 0 else "less" for number in numbers]}
    training = {"epochs": 1000, "batch_size": 2, "patience": 0}
    profile = samples.pack_table(folder / "data", columns, "kind")
    return samples.program(folder, profile, own_model=samples.EXACT_NET, training=training)


def begun(pair: Pair, program: Path, backend: str) -> Pair:
    """A run of it that has come to train."""
    shutil.copytree(program, pair.paths.program, ignore=shutil.ignore_patterns("data"))
    pair.begin(mode="async", backend=backend, dataset_dir=str(program / "data"))
    wait_for(lambda: step(pair) > 5, 180.0)
    return pair


def step(pair: Pair) -> int:
    """That the first rank has told last."""
    told = [json.loads(line) for line in pair.events(NODES[0]).splitlines() if line.endswith("}")]
    return max((event["data"].get("step", 0) for event in told if event["kind"] == "progress"), default=0)


def test_servers_outlive_a_cut_of_five_seconds(namespaces: Pair, program: Path) -> None:
    running = begun(namespaces, program, "horovod")
    with cut_between():
        time.sleep(CUT_S / 5)  # what was on its way has arrived
        first = step(running)
        time.sleep(CUT_S * 4 / 5)
        before = step(running)
    assert before == first, "it was no cut"
    wait_for(lambda: step(running) > before, 180.0)
    for node in NODES:
        (running.of(node).requests(1) / "pause").touch()
    assert [running.ended(node).data["outcome"] for node in NODES] == ["paused", "paused"], running.logs()


@pytest.mark.parametrize("backend", ["horovod", "torch"])
def test_servers_that_are_cut_for_good_end_on_both_sides_and_neither_is_to_blame(
    namespaces: Pair, program: Path, backend: str
) -> None:
    running = begun(namespaces, program, backend)
    with cut_between():
        ended = [running.ended(node).data for node in NODES]
    told = [(data["outcome"], data["failure"]["code"], data["failure"].get("suffered")) for data in ended]
    assert told == [("lost", "rank_killed", True)] * 2, running.logs()
    noticed = "The ranks on this node lost those on the others and could not continue."
    assert [data["failure"]["message"] for data in ended] == [noticed] * 2, "a watchdog ended them"
