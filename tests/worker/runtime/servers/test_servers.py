"""Servers and workers over real sockets, as threads of one process (real ranks: test_async.py)."""

from __future__ import annotations

import copy
import math
import socket
import threading
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from tests.worker.runtime.lone import Lone
from worker.runtime.collective import PeerLost
from worker.runtime.ema import Ema
from worker.runtime.failures import ProgramFailure
from worker.runtime.modes.asynchronous import Asynchronous
from worker.runtime.servers import frames
from worker.runtime.servers.rounds import Rounds
from worker.runtime.servers.server import Server
from worker.runtime.servers.shard import Shard, owners, weights_of
from worker.runtime.servers.tickets import Tickets
from worker.runtime.servers.worker import Worker
from worker.runtime.spec import as_spec

KEY = bytes(range(16))


def made(kind: str = "adamw") -> tuple[nn.Module, torch.optim.Optimizer]:
    """A small model and its optimizer, with two groups; one weight is laid out as pictures like it."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 36, 5)).to(memory_format=torch.channels_last)
    groups = [
        {"params": [weight for weight in net.parameters() if weight.ndim > 1], "weight_decay": 0.1},
        {"params": [weight for weight in net.parameters() if weight.ndim == 1], "weight_decay": 0.0},
    ]
    if kind == "sgd":
        return net, torch.optim.SGD(groups, lr=0.1, momentum=0.9, nesterov=True)
    return net, torch.optim.AdamW(groups, lr=0.1, fused=True)


def backward(net: nn.Module, seed: int) -> None:
    """Gradients of some rows."""
    net.zero_grad()
    rows = torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(seed))
    torch.autograd.backward(net(rows).square().mean())


def test_tensors_are_shared_out_evenly_and_alike_everywhere() -> None:
    sizes = [1000, 10, 600, 10, 500, 90]
    owner = owners(sizes, 2)
    loads = [sum(size for size, mine in zip(sizes, owner, strict=True) if mine == server) for server in (0, 1)]
    assert max(loads) - min(loads) <= 100
    assert owners(sizes, 2) == owner
    assert set(owners([5], 3)) == {0}


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_shards_make_the_updates_of_one_optimizer(kind: str) -> None:
    net, optimizer = made(kind)
    twin, theirs = made(kind)
    for seed in (1, 2):  # both have a history before the servers start
        for one, moves in ((net, optimizer), (twin, theirs)):
            backward(one, seed)
            moves.step()
    weights = weights_of(optimizer)
    owner = owners([weight.numel() for weight in weights], 2)
    servers = [Server(Shard(optimizer, owner, place), KEY, Tickets(workers=1, staleness=0)) for place in (0, 1)]
    worker = Worker(0, [server.address for server in servers], KEY, weights, owner)
    servers[0].open(0, 3)
    for seed in (3, 4, 5):
        ticket, _ = worker.take((0.0, 0.0, 0.0))
        assert ticket == seed - 3
        worker.pull()
        backward(net, seed)
        worker.push([0.1, 0.04], 0.5)
        backward(twin, seed)
        for group, rate in zip(theirs.param_groups, (0.05, 0.02), strict=True):
            group["lr"] = rate
        theirs.step()
    assert worker.take((0.0, 0.0, 0.0))[0] == frames.STOPPED
    worker.pull()
    for mine, other in zip(net.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine, other)
    known = {number: state for server in servers for number, state in server.shard.state().items()}
    assert sorted(known) == list(range(len(weights)))
    for number, weight in enumerate(weights_of(theirs)):
        for name, value in theirs.state[weight].items():
            torch.testing.assert_close(known[number][name], value, check_stride=False)
    worker.close()
    assert all(server.shard.version == 3 for server in servers)


def parted(kind: str) -> tuple[list[nn.Parameter], torch.optim.Optimizer]:
    """Four weights with a history in which all but the last had a gradient: in a step any may be without one."""
    torch.manual_seed(0)
    weights = [nn.Parameter(torch.randn(4)) for _ in range(4)]
    kinds: dict[str, torch.optim.Optimizer] = {
        "sgd": torch.optim.SGD(weights, lr=0.1, momentum=0.9, weight_decay=0.1),
        "adam": torch.optim.Adam(weights, lr=0.1),
        "adamw": torch.optim.AdamW(weights, lr=0.1, weight_decay=0.1, fused=True),
    }
    uneven(weights, 0, (0, 1, 2))
    kinds[kind].step()
    return weights, kinds[kind]


def uneven(weights: list[nn.Parameter], seed: int, given: tuple[int, ...]) -> None:
    """Gradients of these weights; the others have none."""
    chance = torch.Generator().manual_seed(seed)
    for number, weight in enumerate(weights):
        gradient = torch.randn(4, generator=chance)
        weight.grad = gradient if number in given else None


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_a_weight_without_a_gradient_stays_where_it_is_as_in_one_process(kind: str) -> None:
    (weights, optimizer), (twins, theirs) = parted(kind), parted(kind)
    owner = owners([weight.numel() for weight in weights], 2)
    servers = [Server(Shard(optimizer, owner, place), KEY, Tickets(workers=1, staleness=0)) for place in (0, 1)]
    worker = Worker(0, [server.address for server in servers], KEY, weights, owner)
    servers[0].open(0, 4)
    for seed, given in enumerate(((0, 1, 2), (1,), (), (0, 2))):
        worker.take((0.0, 0.0, 0.0))
        worker.pull()
        uneven(weights, seed, given)
        worker.push([0.1], 1.0)
        uneven(twins, seed, given)
        theirs.step()
    worker.pull()
    for mine, other in zip(weights, twins, strict=True):
        torch.testing.assert_close(mine, other)
    worker.close()


def test_in_step_a_weight_moves_where_one_of_the_gradients_that_count_has_it() -> None:
    (weights, optimizer), (twins, theirs) = parted("sgd"), parted("sgd")
    server = Server(Shard(optimizer, [0] * 4, 0), KEY, Rounds(workers=2, backup=0))
    server.open(0, 4)
    workers = [Worker(rank, [server.address], KEY, weights, [0] * 4) for rank in (0, 1)]
    for step, (one, other) in enumerate((((0,), (0, 1)), ((), (2,)))):
        for worker, given in zip(workers, (one, other), strict=True):
            worker.take((0.0, 0.0, 0.0))
            worker.pull(step)
            uneven(weights, step, given)
            worker.push([0.1], 0.5, step)
            worker.settle()
        uneven(twins, step, (*one, *other))
        for number, twin in enumerate(twins):
            if twin.grad is not None:
                twin.grad *= ((number in one) + (number in other)) / 2
        theirs.step()
    workers[0].pull(2)
    for mine, twin in zip(weights, twins, strict=True):
        torch.testing.assert_close(mine, twin)
    for worker in workers:
        worker.close()


def test_two_workers_train_at_the_same_time_within_the_bound() -> None:
    net, optimizer = made("sgd")
    first = sum(float(weight.detach().square().sum()) for weight in net.parameters())
    weights = weights_of(optimizer)
    owner = owners([weight.numel() for weight in weights], 2)
    servers = [Server(Shard(optimizer, owner, place), KEY, Tickets(workers=2, staleness=3)) for place in (0, 1)]
    servers[0].open(0, 60)
    taken: list[int] = []

    def work(rank: int) -> None:
        mine = copy.deepcopy(net)
        own = [mine.get_parameter(name) for name in names]
        worker = Worker(rank, [server.address for server in servers], KEY, own, owner)
        while (ticket := worker.take((0.0, 0.0, 0.0))[0]) != frames.STOPPED:
            taken.append(ticket)
            worker.pull()
            backward(mine, ticket)
            worker.push([0.02, 0.02], 0.5)
        worker.close()

    names = [name for weight in weights for name, known in net.named_parameters() if known is weight]
    threads = [threading.Thread(target=work, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert sorted(taken) == list(range(60))
    assert all(server.staleness_most <= 3 for server in servers)
    moved = sum(float(shard.square().sum()) for shard in (server.shard.flat for server in servers))
    assert moved < first


def test_a_stranger_without_the_key_gets_no_answer() -> None:
    _, optimizer = made()
    server = Server(Shard(optimizer, [0, 0, 0, 0], 0), KEY, Tickets(workers=1, staleness=0))
    with socket.create_connection(server.address, timeout=30) as stranger:
        frames.send(stranger, frames.Kind.HELLO, 0, (0.0, 0.0, 0.0), bytes(16))
        assert stranger.recv(1) == b""
    with socket.create_connection(server.address, timeout=30) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\nHost: parameters\r\nAccept: everything\r\n\r\n" + bytes(64))
        with pytest.raises(PeerLost):
            frames.receive(stranger)
    server.close()


def test_a_worker_that_vanishes_ends_the_waiting_of_the_others() -> None:
    _, optimizer = made()
    weights = weights_of(optimizer)
    owner = owners([weight.numel() for weight in weights], 1)
    server = Server(Shard(optimizer, owner, 0), KEY, Tickets(workers=2, staleness=0))
    server.open(0, 10)
    gone, waiting = (Worker(rank, [server.address], KEY, weights, owner) for rank in (0, 1))
    gone.take((0.0, 0.0, 0.0))
    found: list[BaseException] = []

    def wait() -> None:
        try:
            waiting.take((0.0, 0.0, 0.0))
        except PeerLost as error:
            found.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    gone._servers[0].close()
    thread.join(60)
    assert not thread.is_alive()
    assert found


def test_an_answer_is_read_while_another_server_is_silent_since_one_that_is_not_read_looks_cut_off() -> None:
    slow, quick = socket.socketpair(), socket.socketpair()
    bodies = torch.zeros(1), torch.zeros(1 << 23)
    wanted = {slow[0]: frames.raw(bodies[0]), quick[0]: frames.raw(bodies[1])}
    numbers: list[int] = []
    reading = threading.Thread(target=lambda: numbers.extend(frames.expect_all(frames.Kind.PULL, wanted)), daemon=True)
    reading.start()
    no_fractions = (0.0, 0.0, 0.0)
    sending = threading.Thread(
        target=frames.send,
        args=(quick[1], frames.Kind.PULL, 8, no_fractions, frames.raw(torch.ones(1 << 23))),
        daemon=True,
    )
    sending.start()
    sending.join(60.0)
    assert not sending.is_alive(), "it waits for a reader"
    frames.send(slow[1], frames.Kind.PULL, 7, no_fractions, frames.raw(torch.ones(1)))
    reading.join(60.0)
    assert numbers == [7, 8] and all(bool(body.eq(1).all()) for body in bodies)


def test_an_answer_of_another_size_ends_the_reading() -> None:
    here, there = socket.socketpair()
    frames.send(there, frames.Kind.PULL, 1, (0.0, 0.0, 0.0), bytes(3))
    with pytest.raises(PeerLost, match="answered PULL with 3 bytes"):
        frames.expect_all(frames.Kind.PULL, {here: memoryview(bytearray(4))})


def test_complex_weights_are_refused_and_lose_no_part_at_the_servers() -> None:
    net = nn.ParameterList([torch.ones(2, dtype=torch.complex64)])
    with pytest.raises(ProgramFailure, match="complex weights") as caught:
        Asynchronous.place(None, net)  # type: ignore[arg-type] # before it meets anybody
    assert "mode sync" in caught.value.hint


class Farther(Lone):
    """Stands for two ranks, of which the other has made more updates; every sum adds its own values."""

    def __init__(self, others: torch.Tensor) -> None:
        self.others = others

    def gather(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.cat([tensor, tensor + 1])

    def sum_start(self, tensor: torch.Tensor, name: str) -> Lone:
        tensor.add_(self.others)
        return self


def test_an_average_that_is_taken_from_another_rank_may_hold_infinite_values() -> None:
    net = nn.Linear(1, 1)
    net.register_buffer("mask", torch.tensor([0.0, -math.inf]))
    average = Ema(net, decay=0.9)
    group = Farther(torch.tensor([3.0, 4.0, 0.0, -math.inf]))
    spec = as_spec({"training": {}})
    Asynchronous(SimpleNamespace(spec=spec, world_size=2, rank=0, group=group), 1, 8)._take_newest(average)  # type: ignore[arg-type]
    assert [tensor.tolist() for tensor in average.net.state_dict().values()] == [[[3.0]], [4.0], [0.0, -math.inf]]
    assert average.updates == 1
