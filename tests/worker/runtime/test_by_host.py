"""Which ranks add up by NCCL, which through the memory of their hosts, and how a sum goes that way."""

from __future__ import annotations

import torch
from torch import Tensor

from worker.runtime.by_host import SumByHost, device_name, is_direct


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
