"""The running average of weights follows all of them."""

from __future__ import annotations

import math

import torch
from torch import nn

from worker.runtime.ema import Ema


def test_every_kind_of_weight_is_averaged_and_counters_stay() -> None:
    net = nn.BatchNorm1d(3)
    net.register_parameter("turns", nn.Parameter(torch.zeros(3, dtype=torch.complex64)))
    average = Ema(net, decay=0.9)
    with torch.no_grad():
        for tensor in net.state_dict().values():
            tensor.fill_(2)
        net.turns.fill_(1 + 2j)
    for _ in range(200):
        average.update(net)
    told = average.net.state_dict()
    torch.testing.assert_close(told["turns"], net.turns.detach())
    for name in ("weight", "bias", "running_mean", "running_var"):
        torch.testing.assert_close(told[name], torch.full((3,), 2.0))
    assert int(told["num_batches_tracked"]) == 0


def test_conjugated_numbers_are_averaged_as_what_they_are() -> None:
    net = nn.Linear(2, 2)
    net.register_buffer("turned", torch.zeros(3, dtype=torch.complex64).conj())
    net.register_parameter("turns", nn.Parameter(torch.zeros(3, dtype=torch.complex64).conj()))
    assert net.turned.is_conj() and net.turns.is_conj()
    average = Ema(net, decay=0.9)
    with torch.no_grad():
        net.turned.fill_(1 + 2j)
        net.turns.fill_(3 - 4j)
    for _ in range(200):
        average.update(net)
    torch.testing.assert_close(average.net.turned, torch.full((3,), 1 + 2j))
    torch.testing.assert_close(average.net.turns.detach(), torch.full((3,), 3 - 4j))


def test_infinite_values_as_of_a_mask_or_of_a_least_so_far_are_taken_as_they_are() -> None:
    net = nn.Linear(2, 2)
    net.register_buffer("mask", torch.full((3, 3), -math.inf).triu(1))
    net.register_buffer("least", torch.tensor([math.inf, 1.0]))
    average = Ema(net, decay=0.9)
    average.update(net)
    assert torch.equal(average.net.mask, net.mask)
    net.least.fill_(0.5)
    average.update(net)
    assert average.net.least.tolist() == [0.5, 0.5]
