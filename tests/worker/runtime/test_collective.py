"""How Horovod is set, and that its thread wakes for a message; how long ranks by torch.distributed wait."""

from __future__ import annotations

import socket
import subprocess
import sys
from datetime import timedelta
from types import SimpleNamespace

import horovod
import pytest
import torch
import torch.distributed as dist

from tests.untested import untested
from tests.worker.runtime import samples
from tests.worker.runtime.ranks import rank_environments
from worker.plan import Limits
from worker.runtime import arrival, collective
from worker.runtime.collective import TorchGroup
from worker.runtime.horovod_cycle import CYCLE_MS_LIMITS, WAKING, horovod_settings
from worker.watchdog import PATIENCE_MOST

TEN_MINUTES_MS = "600000"
HERE = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
SUMS = (
    "import os, torch\n"
    "from worker.runtime.collective import join\n"
    "group = join('horovod', 0.1, torch.device('cpu'))\n"
    "for number in range(3):\n"
    "    tensor = torch.ones(5)\n"
    "    group.sum_start(tensor, 'gradients').wait()\n"
    "    print(tensor.sum().item(), flush=True)\n"
    "os._exit(0)\n"  # leaving takes a cycle
)

LATE = """
import os, resource, signal, sys, threading, time, torch
from worker.runtime.collective import join
rank, what = int(os.environ["HOROVOD_RANK"]), sys.argv[1]
group = join("horovod", 0.1, torch.device("cpu"))
group.sum_start(torch.ones(5), "first").wait()
if rank == 1:
    time.sleep(2.0 if what == "late" else 600.0)
if what == "signal":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to end"))
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGTERM)).start()
before = resource.getrusage(resource.RUSAGE_THREAD)
try:
    group.sum_start(torch.ones(5), "second").wait()
    after = resource.getrusage(resource.RUSAGE_THREAD)
    print(sum(getattr(after, kind) - getattr(before, kind) for kind in ("ru_nvcsw", "ru_nivcsw")), flush=True)
except SystemExit as end:
    print(end, flush=True)
os._exit(0)
"""
GATHERS = """
import os, resource, sys, torch
from worker.runtime import collective
collective.PIECE_BYTES = 1 << 20
group = collective.join(sys.argv[1], 0.1, torch.device("cpu"))
rank = int(os.environ.get("RANK") or os.environ["HOROVOD_RANK"])
group.gather(torch.ones(3, 2))
rows = 400_000 + 7 * rank
own = torch.full((rows, 50), float(rank))
own[:, 1] = torch.arange(rows)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
whole = group.gather(own)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
if rank == 0:
    assert torch.equal(whole[:rows], own) and float(whole[rows, 0]) == 1.0 and len(whole) == 2 * rows + 7
else:
    assert torch.equal(whole[-rows:], own) and float(whole[0, 0]) == 0.0 and len(whole) == 2 * rows - 7
print((peak - before) * 1024, whole.nbytes, flush=True)
group.gather(torch.ones(1))
os._exit(0)
"""
"""Rows of 50 numbers, another number of rows on each rank: how much more memory it took at most, and the result has."""
LATE_WAKES_MOST = 400
"""In two seconds of waiting: 40 are usual, looking every 0.2 ms took 4,300."""


wakes = pytest.mark.skipif(
    not horovod.__version__.endswith(WAKING),
    reason=untested("Horovod that wakes", "this one was built without deploy/horovod/wake.patch"),
)


KINDS = """
import os, sys, torch
from torch import nn
from worker.runtime import collective
from worker.runtime.collective import join
from worker.runtime.gradients import broadcast_model
collective.PIECE_BYTES = 5
rank = int(os.environ.get("HOROVOD_RANK") or os.environ["RANK"])
net = nn.Linear(3, 2).to(torch.bfloat16)
net.register_buffer("mask", torch.ones(3, 3).tril().bool() if rank == 0 else torch.zeros(3, 3).bool())
for kind in (torch.int16, torch.uint8, torch.float16, torch.float64, torch.complex64):
    net.register_buffer(str(kind).partition(".")[2], torch.full((2,), 1 - rank).to(kind))
net.register_buffer("turned", torch.full((2,), (1 - rank) * (1 + 2j)).conj())
group = join(sys.argv[1], 0.1, torch.device("cpu"))
broadcast_model(net, group)
print(*(tensor.to(torch.complex128).sum().item() for tensor in net.state_dict().values()), flush=True)
os._exit(0)
"""


def test_a_horovod_that_does_not_wake_looks_for_messages_in_a_share_of_the_step() -> None:
    assert horovod_settings("0.28.1", 0.125) == {"HOROVOD_CYCLE_TIME": "5.00"}


def test_a_horovod_that_wakes_is_told_to_and_does_not_look_itself() -> None:
    told = horovod_settings("0.28.1" + WAKING, 0.125)
    assert "HOROVOD_WAKE_ON_ENQUEUE" in told
    assert float(told["HOROVOD_CYCLE_TIME"]) > CYCLE_MS_LIMITS[1]


@pytest.mark.ranks
@wakes
def test_a_message_does_not_wait_for_the_cycle_of_a_horovod_that_wakes() -> None:
    common = samples.BARE | {"PYTHONPATH": str(samples.PROJECT), "HOROVOD_CYCLE_TIME": TEN_MINUTES_MS}
    ranks = [
        subprocess.Popen([sys.executable, "-c", SUMS], env=common | told, stdout=subprocess.PIPE, text=True)
        for told in rank_environments(2, "horovod")
    ]
    try:
        assert [rank.communicate(timeout=120)[0].split() for rank in ranks] == [["10.0"] * 3] * 2
    finally:
        for rank in ranks:
            rank.kill()


def _first_of_two(what: str) -> str:
    """What rank 0 of LATE prints."""
    common = samples.BARE | {"PYTHONPATH": str(samples.PROJECT)}
    ranks = [
        subprocess.Popen([sys.executable, "-c", LATE, what], env=common | told, stdout=subprocess.PIPE, text=True)
        for told in rank_environments(2, "horovod")
    ]
    try:
        return ranks[0].communicate(timeout=120)[0].strip()
    finally:
        for rank in ranks:
            rank.kill()


@pytest.mark.ranks
@wakes
def test_a_rank_sleeps_until_a_late_one_brings_its_part_of_the_sum() -> None:
    assert int(_first_of_two("late")) < LATE_WAKES_MOST


@pytest.mark.ranks
@wakes
def test_a_signal_is_heard_by_a_rank_that_waits_for_a_sum() -> None:
    assert _first_of_two("signal") == "told to end"


def _of_two(program: str, backend: str) -> list[list[str]]:
    """The words that each of two ranks prints."""
    common = samples.BARE | {"PYTHONPATH": str(samples.PROJECT)}
    ranks = [
        subprocess.Popen([sys.executable, "-c", program, backend], env=common | told, stdout=subprocess.PIPE, text=True)
        for told in rank_environments(2, backend)
    ]
    try:
        return [rank.communicate(timeout=120)[0].split() for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()


@pytest.mark.ranks
@pytest.mark.parametrize("backend", ["horovod", "torch"])
def test_what_all_ranks_have_is_gathered_without_a_second_copy_of_the_whole(backend: str) -> None:
    for more_bytes, whole_bytes in _of_two(GATHERS, backend):
        assert int(more_bytes) < 1.5 * int(whole_bytes)


@pytest.mark.ranks
@pytest.mark.parametrize("backend", ["horovod", "torch"])
def test_all_ranks_begin_with_the_same_whatever_kind_of_numbers_a_model_is_made_of(backend: str) -> None:
    first, second = _of_two(KINDS, backend)
    assert first == second
    assert first[2:] == ["(6+0j)", *["(2+0j)"] * 5, "(2-4j)"]


@pytest.mark.parametrize("local", ["2", "1"], ids=["one node", "several nodes"])
def test_a_rank_by_torch_leaves_it_to_the_watchdog_to_end_who_stands_still(
    monkeypatch: pytest.MonkeyPatch, local: str
) -> None:
    for name, value in {**HERE, "RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": local}.items():
        monkeypatch.setenv(name, value)
    looks = iter((False, False, True))
    store = SimpleNamespace(set=lambda *_: None, check=lambda _names: next(looks), get=lambda _name: b"cpu")
    beats: list[None] = []
    given: list[timedelta] = []
    monkeypatch.setattr(collective, "LOOK_S", 0.0)
    monkeypatch.setattr(arrival.pulse, "beat", lambda *, waits: beats.append(None) if waits else None)
    monkeypatch.setattr(dist, "TCPStore", lambda *_, **__: store)
    monkeypatch.setattr(dist, "init_process_group", lambda *_, timeout, **__: given.append(timeout))
    TorchGroup(torch.device("cpu"))
    usual_s = Limits(memory_bytes=1, disk_bytes=1).stall_s
    assert len(beats) == (0 if local == "2" else 2) and given[0].total_seconds() >= PATIENCE_MOST * usual_s


@pytest.mark.parametrize("rank", ["0", "1"], ids=["the first", "another"])
def test_a_rank_by_torch_says_that_it_lives_while_those_of_another_node_read_their_data(
    monkeypatch: pytest.MonkeyPatch, rank: str
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {**HERE, "MASTER_PORT": str(port), "RANK": rank, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    beats: list[None] = []
    other: list[dist.TCPStore] = []

    def beat(*, waits: bool) -> None:
        """The other one comes after some of these."""
        assert waits
        beats.append(None)
        if len(beats) == 5:
            is_first = rank == "1"
            other.append(dist.TCPStore("127.0.0.1", port, 2, is_master=is_first, wait_for_workers=False))
            other[0].set("arrived/0" if is_first else "arrived/1", "here")

    monkeypatch.setattr(arrival.pulse, "beat", beat)
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: None)
    TorchGroup(torch.device("cpu"))
    assert len(beats) >= 5


class Waits(Exception):
    """A rank waits for another one."""


def test_a_rank_that_torchrun_starts_again_does_not_take_the_others_of_before_for_those_of_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    own = {**HERE, "MASTER_PORT": str(store.port), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}
    for name, value in {**own, "TORCHELASTIC_USE_AGENT_STORE": "True"}.items():
        monkeypatch.setenv(name, value)

    def beat(*, waits: bool) -> None:
        raise Waits

    def comes(rank: str, attempt: str) -> None:
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", attempt)
        TorchGroup(torch.device("cpu"))

    monkeypatch.setattr(arrival.pulse, "beat", beat)
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: None)
    with pytest.raises(Waits):
        comes("0", "0")
    comes("1", "0")
    with pytest.raises(Waits):
        comes("0", "1")
