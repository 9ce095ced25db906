"""Which ranks add up by NCCL, which through the memory of their hosts, and how a sum goes that way."""

from __future__ import annotations

import struct
import sys
from types import SimpleNamespace

import horovod
import pytest
import torch
from torch import Tensor

from worker.runtime import collective
from worker.runtime.by_host import SumByHost, device_name, is_direct
from worker.runtime.collective import HorovodGroup
from worker.runtime.elastic.seat import Place, SeatedGroup, Wires


class Later:
    """Doubles the tensor when it is waited for."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def wait(self) -> None:
        self.tensor *= 2


def test_ranks_with_a_gpu_each_add_up_by_nccl() -> None:
    assert is_direct(["GPU-a", "GPU-b", "GPU-c"])


def test_ranks_that_share_a_gpu_or_have_none_add_up_through_the_host() -> None:
    assert not is_direct(["GPU-a", "GPU-a"])
    assert not is_direct(["GPU-a", "cpu"])
    assert not is_direct(["cpu", "cpu"])


def test_a_device_without_a_number_of_its_own_is_the_host() -> None:
    assert device_name(torch.device("cpu")) == "cpu"


def test_a_sum_through_the_host_comes_back_to_where_the_values_are() -> None:
    values, sent = torch.ones(3), []

    def start(copied: Tensor) -> Later:
        sent.append(copied)
        return Later(copied)

    pending = SumByHost(values, start)
    assert sent[0].device.type == "cpu"
    pending.wait()
    assert values.tolist() == [2.0, 2.0, 2.0]


def a_horovod(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Built with NCCL, whose ranks drive these devices; this is the first of them."""
    framed = b"".join(struct.pack("<q", len(name)) + name.encode() for name in names)
    gathered = torch.frombuffer(bytearray(framed), dtype=torch.uint8)
    fake = SimpleNamespace(
        init=lambda: None, nccl_built=lambda: True, poll=lambda _handle: True, synchronize=lambda _handle: gathered,
        allgather_async=lambda _tensor, name: 0,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "horovod.torch", fake)
    monkeypatch.setattr(horovod, "torch", fake, raising=False)
    monkeypatch.setattr(collective, "device_name", lambda device: names[0] if device.type != "cpu" else "cpu")


def seated() -> SeatedGroup:
    """A rank of a gang that goes on without a lost one."""
    place = Place(generation=1, rank=0, size=2, same=False, slots=(0, 1), environment={}, voice=0)
    return SeatedGroup(place, 0.1, torch.device("meta"), Wires())


def test_a_horovod_with_nccl_joins_ranks_that_have_a_gpu_each(monkeypatch: pytest.MonkeyPatch) -> None:
    a_horovod(monkeypatch, "GPU-a", "GPU-b")
    assert not HorovodGroup(0.1, torch.device("meta")).by_host


def test_one_rank_that_cannot_has_all_add_up_through_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    a_horovod(monkeypatch, "GPU-a", "cpu")
    assert HorovodGroup(0.1, torch.device("meta")).by_host


def test_a_device_may_have_a_long_name(monkeypatch: pytest.MonkeyPatch) -> None:
    a_horovod(monkeypatch, "GPU-a " + "h" * 300, "GPU-a " + "h" * 301)
    assert not HorovodGroup(0.1, torch.device("meta")).by_host


def test_a_broadcast_by_horovod_goes_in_pieces_that_it_can_count(monkeypatch: pytest.MonkeyPatch) -> None:
    a_horovod(monkeypatch, "cpu", "cpu")
    sent: list[Tensor] = []
    sends = lambda piece, root_rank, name: sent.append(piece)  # noqa: E731
    monkeypatch.setattr(sys.modules["horovod.torch"], "broadcast_async_", sends, raising=False)
    monkeypatch.setattr(collective, "PIECE_BYTES", 6)
    group, tensor = HorovodGroup(0.1, torch.device("cpu")), torch.arange(5.0)
    group.broadcast_(tensor)
    assert [len(piece) for piece in sent] == [6, 6, 6, 2]
    for piece in sent:
        piece.zero_()
    assert not tensor.any(), "they are the memory of the tensor"


def test_ranks_that_may_lose_one_add_up_through_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody could free them from a sum by NCCL that waits for the lost one."""
    a_horovod(monkeypatch, "GPU-a", "GPU-b")
    assert seated().by_host
