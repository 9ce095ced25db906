"""Batch normalisation over the rows of all ranks: ranks as threads of this process, against one process."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.worker.runtime.pipeline_families import alone, models
from tests.worker.runtime.test_gradients import Doubling, Member
from tests.worker.runtime.test_gradients import Together as Threads
from tests.worker.runtime.test_sync_families import by_two_ranks
from worker.runtime.synced_norm import SyncedNorm, Together, can_share, share_statistics

NORMED = ("cnn", "resnet")
SHARES = ((6, 4), (9, 1), (2, 8))
"""Rows of both ranks, another split at every step; one of them has a single row."""


def furthest(found: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """Of a tensor, relative to its largest value; counts as they are."""
    return max(
        float((found[key] - tensor).abs().max() / max(1e-9, float(tensor.abs().max())))
        for key, tensor in expected.items()
    )


def cases(kind: torch.dtype) -> list[tuple[str, nn.Module, list[Any]]]:
    """The families with batch normalisation."""
    return [(name, net.to(kind).train(), batches) for name, net, batches in models() if name in NORMED]


@pytest.mark.parametrize(("kind", "tolerance"), [(torch.float64, 1e-6), (torch.float32, 1e-4)])
def test_two_ranks_learn_weights_and_statistics_of_one_process_however_rows_are_shared_out(
    kind: torch.dtype, tolerance: float
) -> None:
    seen = []
    for name, net, batches in cases(kind):
        seen.append(name)
        expected = alone(copy.deepcopy(net), batches, 1)
        found = by_two_ranks(net, batches, synced=True)
        assert len(found) == 2, name
        for state in found:
            assert state.keys() == expected.keys()
            assert furthest(state, expected) < tolerance, name
    assert sorted(seen) == sorted(NORMED)


def test_without_it_two_ranks_learn_something_else() -> None:
    for name, net, batches in cases(torch.float64):
        expected = alone(copy.deepcopy(net), batches, 1)
        assert min(furthest(state, expected) for state in by_two_ranks(net, batches)) > 1e-2, name


LAYERS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "of features": (nn.BatchNorm1d(3), ()),
    "of sequences": (nn.BatchNorm1d(3), (5,)),
    "of volumes": (nn.BatchNorm3d(3), (2, 3, 2)),
    "no weights": (nn.BatchNorm2d(3, affine=False), (4, 4)),
    "no running statistics": (nn.BatchNorm2d(3, track_running_stats=False), (4, 4)),
    "plain averages": (nn.BatchNorm2d(3, momentum=None), (4, 4)),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("far", [0.0, 1000.0], ids=["near 0", "far from 0"])
def test_any_layer_of_torch_gives_what_it_gives_on_all_rows(name: str, far: float) -> None:
    layer, size = LAYERS[name]
    torch.manual_seed(0)
    layer = copy.deepcopy(layer).double()
    for weight in layer.parameters():
        nn.init.normal_(weight)
    batches = [torch.randn(10, 3, *size, dtype=torch.float64) + far for _ in SHARES]
    pulls = [torch.randn(10, 3, *size, dtype=torch.float64) for _ in SHARES]
    inner: dict[int, list[Tensor]] = {}
    states: dict[int, dict[str, Tensor]] = {}

    def rank(number: int, group: Member) -> None:
        mine, together = copy.deepcopy(layer), Together(group)  # type: ignore[arg-type]
        share_statistics(mine, together)
        inner[number] = []
        for shares, batch, pull in zip(SHARES, batches, pulls, strict=True):
            rows = slice(sum(shares[:number]), sum(shares[: number + 1]))
            together.share = shares[number] / 10
            inputs = batch[rows].clone().requires_grad_()
            (mine(inputs) * pull[rows]).mean().backward()
            assert inputs.grad is not None
            inner[number].append(inputs.grad * together.share)
        states[number] = mine.state_dict()

    Threads(2).run(rank)
    for step, (batch, pull) in enumerate(zip(batches, pulls, strict=True)):
        inputs = batch.clone().requires_grad_()
        (layer(inputs) * pull).mean().backward()
        torch.testing.assert_close(torch.cat([inner[0][step], inner[1][step]]), inputs.grad, rtol=1e-6, atol=1e-10)
    for state in states.values():
        torch.testing.assert_close(state, layer.state_dict(), rtol=1e-9, atol=1e-10)


def test_no_rank_waits_for_others_while_it_evaluates_or_when_it_is_alone() -> None:
    group = Doubling()
    net = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2))
    plain, together = copy.deepcopy(net), Together(group)
    share_statistics(net, together)
    rows = torch.randn(5, 4)
    torch.testing.assert_close(net.eval()(rows), plain.eval()(rows))
    assert group.names == []
    net.train()(rows)
    assert group.names == ["norm"]
    together.group = None
    torch.testing.assert_close(net.train()(rows), plain.train()(rows))
    assert group.names == ["norm"]


def test_a_copy_of_a_model_shares_with_whomever_the_model_does() -> None:
    group = Doubling()
    net, together = nn.Sequential(nn.BatchNorm1d(4)), Together(None)
    share_statistics(net, together)
    share_statistics(net, together)
    twin = copy.deepcopy(net)
    together.group = group
    twin(torch.randn(5, 4))
    assert group.names == ["norm"]
    assert type(net[0]).__mro__.count(SyncedNorm) == 1 and isinstance(net[0], nn.BatchNorm1d)


class Ghost(nn.BatchNorm1d):
    """A person's own way to normalise."""

    def forward(self, inputs: Tensor) -> Tensor:
        return F.batch_norm(inputs, None, None, training=True)


def test_layers_with_a_way_of_their_own_stay_what_they_are() -> None:
    net = nn.Sequential(Ghost(4), nn.SyncBatchNorm(4), nn.LayerNorm(4), nn.BatchNorm1d(4))
    kinds = [type(module) for module in net]
    share_statistics(net, Together(Doubling()))
    assert [can_share(module) for module in net] == [False, False, False, True]
    assert [type(module) is kind for module, kind in zip(net, kinds, strict=True)] == [True, True, True, False]


@pytest.mark.parametrize(
    ("kind", "statistics"),
    [
        (torch.float16, torch.float32), (torch.bfloat16, torch.float32), (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)  # fmt: skip
@pytest.mark.parametrize("affine", [True, False])
def test_statistics_of_rounded_rows_are_not_rounded_themselves(
    kind: torch.dtype, statistics: torch.dtype, affine: bool
) -> None:
    net = nn.Sequential(nn.BatchNorm1d(3, affine=affine, dtype=statistics))
    share_statistics(net, Together(Doubling()))
    torch.manual_seed(0)
    rows = (torch.randn(64, 3) * 0.3 + 8.0).to(kind).requires_grad_()
    found = net(rows)
    inputs, _, mean, var, _ = found.grad_fn.saved_tensors
    assert (mean.dtype, var.dtype) == (statistics, statistics)
    assert inputs.dtype == found.dtype == kind
    (found * torch.randn(64, 3).to(kind)).sum().backward()
    assert rows.grad is not None and rows.grad.dtype == kind
