"""Layers that the runtime makes of several ranks' rows give on a GPU what torch's own give."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from tests.worker.runtime.lone import Lone
from worker.runtime.ema import Ema
from worker.runtime.gradients import GradientAverager, broadcast_model
from worker.runtime.synced_norm import Together, share_statistics

pytestmark = pytest.mark.gpu


class Alone(Lone):
    """As where sums stay on the GPU."""

    by_host = False


LAYERS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "of features": (nn.BatchNorm1d(6), (12, 6)),
    "of pictures": (nn.BatchNorm2d(6), (12, 6, 5, 4)),
    "without weights": (nn.BatchNorm2d(6, affine=False), (12, 6, 5, 4)),
    "without statistics": (nn.BatchNorm2d(6, track_running_stats=False), (12, 6, 5, 4)),
}


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("name", LAYERS)
def test_shared_batch_normalisation_of_one_rank_is_torchs_own(
    name: str, order: torch.memory_format, kind: torch.dtype, device: torch.device
) -> None:
    layer, shape = LAYERS[name]
    if order is torch.channels_last and len(shape) != 4:
        pytest.skip("no pictures")
    torch.manual_seed(0)
    plain = copy.deepcopy(layer).to(device).train()
    shared = copy.deepcopy(plain)
    share_statistics(shared, Together(Alone()))
    rows = (torch.randn(shape) * 3 + 1).to(device, kind).contiguous(memory_format=order)
    pull = torch.randn(shape).to(device, kind).contiguous(memory_format=order)
    seen = []
    for net in (plain, shared):
        inputs = rows.clone(memory_format=torch.preserve_format).requires_grad_()
        outputs = net(inputs)
        (outputs * pull).sum().backward()
        assert inputs.grad is not None
        gradients = {f"of {key}": weight.grad for key, weight in net.named_parameters()}
        seen.append({"outputs": outputs, "of inputs": inputs.grad, **gradients, **dict(net.named_buffers())})
    near = 1e-4 if kind is torch.float32 else 0.05
    for key, expected in seen[0].items():
        assert expected is not None
        torch.testing.assert_close(
            seen[1][key], expected, rtol=near, atol=near, msg=lambda text, key=key: f"{key}: {text}"
        )


@pytest.mark.parametrize("rounded_to", [None, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_averaged_gradients_of_one_rank_are_its_own(
    order: torch.memory_format, rounded_to: torch.dtype | None, device: torch.device
) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.Flatten())
    net = net.to(device, memory_format=order)
    rows = torch.rand(4, 3, 8, 8, device=device).contiguous(memory_format=order)
    averager = GradientAverager(net, Alone(), device, rounded_to)
    averager.begin(1.0)
    loss = net(rows).square().mean()
    loss.backward()
    expected = [weight.grad.clone() for weight in net.parameters() if weight.grad is not None]
    averager.average(loss, 1.0, (0.0, 0.0, 0.0))
    found = [weight.grad for weight in net.parameters()]
    near = 1e-6 if rounded_to is None else 2e-2
    for one, other in zip(found, expected, strict=True):
        assert one is not None
        assert float((one - other).norm()) <= near * float(expected[0].norm())
    assert float(averager.controls[0]) == pytest.approx(float(loss.detach()), rel=1e-5)


def test_a_running_average_stays_on_the_gpu_and_comes_back_from_the_host(device: torch.device) -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).to(device)
    ema = Ema(net, 0.9)
    with torch.no_grad():
        net[0].weight.add_(1.0)
    ema.update(net)
    assert {tensor.device.type for tensor in ema.net.state_dict().values()} == {device.type}
    kept = {name: tensor.to("cpu", copy=True) for name, tensor in ema.net.state_dict().items()}
    other = Ema(net, 0.9)
    other.load_state_dict({"net": kept, "updates": 1})
    assert torch.equal(other.net[0].weight, ema.net[0].weight)
    broadcast_model(net, Alone())
    assert {weight.device.type for weight in net.parameters()} == {device.type}
