"""Networks that are cut, narrow or slow, under a gang of Horovod ranks on two nodes: two network namespaces."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import pytest

from tests.untested import untested
from tests.waiting import wait_for
from tests.worker.pairs import NODES, SPACES, Pair, cut, cut_between
from worker.home import REPOSITORY

pytestmark = pytest.mark.ranks
CUT_S, LONGER_CUT_S = 5.0, 60.0
"""The faults themselves, no limits."""
REDUCE = """
import torch, horovod.torch as hvd
hvd.init()
total = 0.0
for step in range(1, STEPS + 1):
    total += float(hvd.allreduce(torch.ones(ROWS), op=hvd.Sum, name="sum").mean())
    tell("progress", step=step, phase="train")
    if float(hvd.allreduce(torch.tensor([float(paused())]), op=hvd.Sum, name="paused")): break  # all at one step
print("sum", total / step, flush=True)
"""
TWIN = """
import torch
from worker.runtime.collective import join
group = join("torch", 0.1, torch.device("cpu"))
def total(value):
    summed = torch.tensor([value])
    group.sum_start(summed, "sum").wait()
    return float(summed)
for step in range(1, 10**9):
    found = total(1.0)
    tell("progress", step=step, phase="train")
    if total(float(paused())): break
group.close()
print("sum", found, flush=True)
"""
"""The same by torch.distributed."""


def reduce(steps: int, rows: int = 1000) -> str:
    """A program whose ranks add up so often, so many numbers; a pause request ends it."""
    return REDUCE.replace("STEPS", str(steps)).replace("ROWS", str(rows))


def steps_told(pair: Pair, token: int = 1) -> int:
    """Progress events of rank 0 so far."""
    file = pair.paths.rank_events(token, 0)
    return len(file.read_text().splitlines()) if file.exists() else 0


def finished(pair: Pair, token: int = 1) -> None:
    """Both nodes are done and every sum was right."""
    assert [pair.ended(node, token).data["outcome"] for node in NODES] == ["succeeded", "succeeded"], pair.logs(token)
    assert all("sum 2.0" in pair.log(rank, token) for rank in (0, 1)), pair.logs(token)


def pause(pair: Pair, token: int = 1) -> None:
    """Ask all ranks to leave."""
    for node in NODES:
        (pair.of(node).requests(token) / "pause").touch()


def test_a_gang_outlives_a_cut_of_five_seconds(namespaces: Pair) -> None:
    namespaces.start(reduce(10**9))
    wait_for(lambda: steps_told(namespaces) > 5, 180.0)
    with cut("right"):
        time.sleep(CUT_S / 5)  # what was on its way has arrived
        first = steps_told(namespaces)
        time.sleep(CUT_S * 4 / 5)
        before = steps_told(namespaces)
    assert before == first, "it was no cut"
    wait_for(lambda: steps_told(namespaces) > before + 5, 180.0)
    pause(namespaces)
    finished(namespaces)


def test_a_gang_that_is_cut_for_good_ends_on_both_sides_and_neither_is_to_blame(namespaces: Pair) -> None:
    namespaces.start(reduce(10**9), environment={"HOROVOD_GLOO_TIMEOUT_SECONDS": "5"})
    wait_for(lambda: steps_told(namespaces) > 5, 180.0)
    with cut("right"):
        ended = [namespaces.ended(node).data for node in NODES]
    assert [(data["outcome"], data["failure"].get("suffered")) for data in ended] == [("lost", True)] * 2, (
        namespaces.logs()
    )


def test_a_gang_that_is_cut_for_a_minute_is_lost_and_its_next_attempt_waits_for_the_network(namespaces: Pair) -> None:
    namespaces.start(reduce(10**9))
    wait_for(lambda: steps_told(namespaces) > 5, 180.0)
    began_s = time.monotonic()
    with cut_between():
        ended = [namespaces.ended(node).data for node in NODES]
        namespaces.start(reduce(10**9), token=2)
        time.sleep(max(0.0, began_s + LONGER_CUT_S - time.monotonic()))
        assert not steps_told(namespaces, 2), "it was no cut"
    assert [(data["outcome"], data["failure"].get("suffered")) for data in ended] == [("lost", True)] * 2
    wait_for(lambda: steps_told(namespaces, 2) > 5, 180.0)
    pause(namespaces, 2)
    finished(namespaces, 2)


def test_a_gang_of_the_twin_outlives_a_cut_of_a_minute(namespaces: Pair) -> None:
    namespaces.start(TWIN, backend="torch")
    wait_for(lambda: steps_told(namespaces) > 5, 180.0)
    with cut_between():
        time.sleep(CUT_S)  # what was on its way has arrived
        first = steps_told(namespaces)
        time.sleep(LONGER_CUT_S - CUT_S)
        before = steps_told(namespaces)
    assert before == first, "it was no cut"
    wait_for(lambda: steps_told(namespaces) > before + 5, 180.0)
    pause(namespaces)
    finished(namespaces)


def test_a_gang_trains_over_a_network_of_100_megabits(namespaces: Pair) -> None:
    shape = ("tbf", "rate", "100mbit", "burst", "128kb", "latency", "400ms")
    for node in NODES:
        subprocess.run(["tc", "qdisc", "add", "dev", SPACES[node], "root", *shape], check=True)
    try:
        namespaces.start(reduce(10, 500_000))
        finished(namespaces)
    finally:
        for node in NODES:
            subprocess.run(["tc", "qdisc", "del", "dev", SPACES[node], "root"], check=False)


@contextmanager
def over_relay(namespaces: Pair, lost_share: float = 0.0) -> Iterator[tuple[Pair, Popen[str]]]:
    """The nodes' ranks reach each other over a link on which a packet takes 25 ms each way, or is lost."""
    addresses = ("10.249.7.1", "10.249.7.2")
    if not Path("/dev/net/tun").exists():
        pytest.skip(untested("slow links", "there is no /dev/net/tun here"))
    ends = [part for node, address in zip(NODES, addresses, strict=True) for part in (SPACES[node], address)]
    command = [sys.executable, "-m", "tests.worker.relay", "0.025", str(lost_share), *ends]
    with Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as relay:
        try:
            assert relay.stdout and relay.stdout.readline() == "ready\n"
            yield Pair(namespaces.folder, namespaces.broker, addresses, namespaces.enter), relay
        finally:
            relay.kill()


def test_a_gang_trains_over_a_network_of_50_milliseconds(namespaces: Pair) -> None:
    with over_relay(namespaces) as (far_apart, _):
        far_apart.start(reduce(10))
        finished(far_apart)


def test_a_gang_trains_over_a_network_that_loses_one_packet_in_fifty(namespaces: Pair) -> None:
    with over_relay(namespaces, 0.02) as (lossy, relay):
        lossy.start(reduce(10, 50_000))
        finished(lossy)
        relay.kill()
        assert relay.stdout and relay.stdout.read() == "lost\n"
