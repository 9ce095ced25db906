"""A group of ranks that drive GPUs of their own speaks by NCCL; so does one with a single rank."""

from __future__ import annotations

import importlib.util
import os
import socket
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.untested import untested
from tests.worker.runtime.apart import apart
from worker.runtime import collective
from worker.runtime.collective import Group, broadcast_bytes, gather_bytes, join
from worker.runtime.handing import state_handed
from worker.runtime.inspection.link import SIZES_BYTES, sum_times

BACKENDS = [
    pytest.param(
        "horovod",
        marks=pytest.mark.skipif(
            importlib.util.find_spec("horovod") is None,
            reason=untested("groups of Horovod on GPUs", "it is not installed"),
        ),
    ),
    "torch",
]
pytestmark = [pytest.mark.gpu, pytest.mark.parametrize("backend", BACKENDS)]


def joined(backend: str, device: torch.device, work: Callable[[Group, torch.device], Any]) -> Any:
    """What one rank alone in its group makes of it; runs in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": "0", "WORLD_SIZE": "1"}
    group = join(backend, 0.05, device)
    try:
        return work(group, device)
    finally:
        group.close()


def kind_of(group: Group, device: torch.device) -> str:
    """What torch speaks by."""
    return str(torch.distributed.get_backend()) if torch.distributed.is_initialized() else ""


def sums(group: Group, device: torch.device) -> list[Any]:
    """Of each kind of number that ranks send, and of a part of a tensor."""
    found = []
    for kind in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64):
        tensor = torch.arange(7, device=device).to(kind)
        group.sum_start(tensor, f"{kind}").wait()
        found.append(tensor.tolist())
    flat = torch.arange(7.0, device=device)
    group.sum_start(flat[2:5], "a part").wait()
    return [*found, flat.tolist()]


def several_sums(group: Group, device: torch.device) -> list[float]:
    """Under way at the same time, of what a stream has only just been told to compute."""
    tensors = [torch.full((1 << 16,), float(number), device=device) for number in range(4)]
    for tensor in tensors:
        for _ in range(50):
            tensor.add_(1.0)
    pending = [group.sum_start(tensor, f"part {number}") for number, tensor in enumerate(tensors)]
    for one in pending:
        one.wait()
    return [float(tensor.sub_(1.0).mean()) for tensor in tensors]


def sent(group: Group, device: torch.device) -> list[Any]:
    """Broadcasts and gatherings, of what lies on the device and of what does not."""
    found = []
    for place in (device, torch.device("cpu")):
        tensor = torch.arange(5.0, device=place)
        group.broadcast_(tensor)
        gathered = group.gather(tensor.reshape(5, 1))
        found += [tensor.tolist(), gathered.flatten().tolist(), tensor.device == place, gathered.device == place]
    return [*found, broadcast_bytes(group, b"word"), gather_bytes(group, b"words")]


def in_pieces(group: Group, device: torch.device) -> list[list[float]]:
    """A broadcast of more than is sent at once."""
    collective.PIECE_BYTES = 8
    found = []
    for place in (device, torch.device("cpu")):
        tensor = torch.arange(5.0, device=place)
        group.broadcast_(tensor)
        found.append(tensor.tolist())
    return found


def handed(group: Group, device: torch.device) -> bool:
    """A state with tensors of a GPU in it."""
    state = {"net": {"weight": torch.arange(4.0, device=device)}, "step": 3}
    return state_handed(group, 0, state) is state


def seconds(group: Group, device: torch.device) -> list[float]:
    """Of sums, as links are measured."""
    return sum_times(group, device)


def test_its_sums_are_sums(backend: str, device: torch.device) -> None:
    found = apart(joined, backend, device, sums)
    assert found == [list(range(7))] * 6


def test_sums_wait_for_what_was_to_be_computed_before(backend: str, device: torch.device) -> None:
    assert apart(joined, backend, device, several_sums) == [49.0, 50.0, 51.0, 52.0]


def test_what_it_sends_arrives_where_it_was(backend: str, device: torch.device) -> None:
    values = [0.0, 1.0, 2.0, 3.0, 4.0]
    expected = [values, values, True, True]
    assert apart(joined, backend, device, sent) == [*expected, *expected, b"word", [b"words"]]


def test_what_is_sent_in_pieces_arrives_whole(backend: str, device: torch.device) -> None:
    assert apart(joined, backend, device, in_pieces) == [[0.0, 1.0, 2.0, 3.0, 4.0]] * 2


def test_a_state_on_a_gpu_is_handed_over(backend: str, device: torch.device) -> None:
    assert apart(joined, backend, device, handed)


def test_a_link_is_measured(backend: str, device: torch.device) -> None:
    found = apart(joined, backend, device, seconds)
    assert len(found) == len(SIZES_BYTES) and min(found) > 0


def test_torch_speaks_by_nccl_where_each_rank_has_a_gpu(backend: str, device: torch.device) -> None:
    expected = "" if backend == "horovod" else "nccl" if device.type == "cuda" else "gloo"
    assert apart(joined, backend, device, kind_of) == expected
