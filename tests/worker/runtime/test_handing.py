"""A state is brought to every rank piece by piece: threads stand for ranks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from worker.runtime import handing
from worker.runtime.handing import state_handed

RANKS = 3


class Together:
    """Ranks as threads of one process; what they exchange is kept, piece by piece."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(RANKS, timeout=60)
        self.sent: list[Tensor] = [torch.empty(0)] * RANKS
        self.largest_bytes = 0

    def run(self, rank: Callable[[int, Member], Any]) -> list[Any]:
        """What `rank(number, group)` returns on each."""
        found: list[Any] = [None] * RANKS

        def work(number: int) -> None:
            found[number] = rank(number, Member(self, number))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(RANKS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return found


class Member:
    """One rank's view of the group."""

    def __init__(self, together: Together, number: int) -> None:
        self.together, self.number = together, number

    def broadcast_(self, tensor: Tensor) -> None:
        """Copy from rank 0, in place."""
        tensor.copy_(self._all(tensor)[0])

    def gather(self, tensor: Tensor) -> Tensor:
        """Tensors of all ranks one after another."""
        return torch.cat(self._all(tensor))

    def _all(self, tensor: Tensor) -> list[Tensor]:
        together = self.together
        together.largest_bytes = max(together.largest_bytes, tensor.nbytes)
        together.sent[self.number] = tensor.clone()
        together.barrier.wait()
        sent = list(together.sent)
        together.barrier.wait()
        return sent


def state() -> dict[str, Any]:
    """Like that of a run: a model with versions of its layers, an optimizer, numbers, and tensors of every kind."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5)).to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.randn(2, 3, 8, 8)).sum().backward()
    optimizer.step()
    odd = [
        torch.arange(12).reshape(3, 4)[:, ::2],
        torch.ones(1, 3).expand(4, 3),
        torch.zeros(2, 1, 3).transpose(0, 1),
        torch.tensor(True),
        torch.arange(5, dtype=torch.bfloat16),
        torch.empty(0, 3),
        torch.tensor([1 + 2j]),
    ]
    return {
        "parts": {"net": net.state_dict(), "optimizer": optimizer.state_dict()},
        "odd": odd, "ranks": [("MT", 3, None)], "large": torch.arange(1000).reshape(10, 100).T,
    }  # fmt: skip


def same(left: Any, right: Any) -> bool:
    """Whether both are the same nested value, bit by bit, and in the same order in memory where they have no gaps."""
    if isinstance(left, Tensor):
        strides = torch.empty_like(left).stride()
        assert right.stride() in (left.stride(), strides)
        return left.dtype == right.dtype and left.shape == right.shape and torch.equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return type(left) is type(right) and len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


@pytest.mark.parametrize("source", [0, 2])
def test_every_rank_gets_what_the_source_holds_and_the_source_keeps_its_own(
    source: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handing, "BLOCK_BYTES", 64)
    held = state()
    found = Together().run(
        lambda rank, group: state_handed(group, rank, held if rank == source else None, source)  # type: ignore[arg-type]
    )
    assert all(same(held, each) for each in found)
    assert found[source] is held
    assert [each["parts"]["net"]._metadata for each in found] == [held["parts"]["net"]._metadata] * RANKS
    others = [each["large"].untyped_storage().data_ptr() for each in found]
    assert len(set(others)) == RANKS


def test_no_piece_is_larger_than_a_block_however_large_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handing, "BLOCK_BYTES", 1 << 20)
    held = {"weights": torch.arange(3 << 20, dtype=torch.float64)}
    together = Together()
    found = together.run(lambda rank, group: state_handed(group, rank, held if rank == 0 else None))  # type: ignore[arg-type]
    assert all(same(held, each) for each in found)
    assert together.largest_bytes == 1 << 20


def test_that_there_is_nothing_is_known_to_all() -> None:
    assert Together().run(lambda rank, group: state_handed(group, rank, None)) == [None] * RANKS  # type: ignore[arg-type]
