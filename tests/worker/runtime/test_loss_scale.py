"""A loss that is scaled for float16: its gradients are those of the loss, and one that overflows moves nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from tests.worker.runtime.lone import Lone
from worker.events import FailureCode
from worker.runtime.failures import ProgramFailure
from worker.runtime.loss_scale import LEAST, LossScale, trained
from worker.runtime.modes.whole import Whole
from worker.runtime.spec import as_spec

CPU = torch.device("cpu")
BEGINNING = 65_536.0
"""GradScaler's own."""


@pytest.fixture
def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))


@pytest.fixture
def scale() -> LossScale:
    return LossScale(CPU, needed=True)


def loss_of(net: nn.Module, times: float = 1.0) -> Tensor:
    return (net(torch.linspace(-1, 1, 32).reshape(4, 8)) * times).square().mean()


def gradients(net: nn.Module) -> list[Tensor]:
    return [weight.grad.clone() for weight in net.parameters() if weight.grad is not None]


def plain(net: nn.Module) -> list[Tensor]:
    """What the loss itself gives."""
    net.zero_grad()
    torch.autograd.backward(loss_of(net))
    return gradients(net)


def backward(net: nn.Module, scale: LossScale, times: float = 1.0) -> None:
    scale.open(trained(net, {}))
    torch.autograd.backward(scale.scale(loss_of(net, times)))


def factor(scale: LossScale) -> float:
    return float(scale.state_dict()["scaler"]["scale"])


def overflow(net: nn.Module, scale: LossScale) -> None:
    """A step with one infinite gradient."""
    backward(net, scale)
    next(net.parameters()).grad.view(-1)[3] = torch.inf
    scale.unscale()


def test_gradients_are_those_of_the_loss_to_the_last_bit(net: nn.Module, scale: LossScale) -> None:
    expected = plain(net)
    net.zero_grad()
    backward(net, scale)
    assert gradients(net)[0].norm() > 1000 * expected[0].norm()
    scale.unscale()
    scale.unscale()  # whoever clips or updates asks for it again
    assert all(map(torch.equal, gradients(net), expected))
    assert not scale.overflowed and factor(scale) == BEGINNING


def test_gradients_too_small_for_float16_are_kept(scale: LossScale) -> None:
    layer, rows = nn.Linear(4, 1), torch.full((4, 4), 1e-3)

    def gradient(scaled: LossScale) -> Tensor:
        layer.zero_grad()
        scaled.open(trained(layer, {}))
        with torch.autocast("cpu", torch.float16):
            loss = layer(rows).float().mean() * 1e-6
        torch.autograd.backward(scaled.scale(loss))
        scaled.unscale()
        assert layer.weight.grad is not None
        return layer.weight.grad

    assert not gradient(LossScale(CPU, needed=False)).any()
    torch.testing.assert_close(gradient(scale), torch.full((1, 4), 1e-9), rtol=1e-2, atol=0.0)


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
def test_a_step_whose_gradients_overflow_moves_nothing_and_halves_the_factor(
    kind: type[torch.optim.Optimizer], net: nn.Module, scale: LossScale
) -> None:
    more = {"momentum": 0.9} if kind is torch.optim.SGD else {"fused": True}
    optimizer = kind(net.parameters(), lr=0.1, weight_decay=0.1, **more)  # type: ignore[call-arg]
    backward(net, scale)
    scale.unscale()
    optimizer.step()  # from here on there are moments that could move the weights
    before = [weight.detach().clone() for weight in net.parameters()]
    moments = [value.clone() for entry in optimizer.state.values() for value in entry.values()]
    overflow(net, scale)
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    assert all(map(torch.equal, net.parameters(), before))
    assert all(map(torch.equal, (value for entry in optimizer.state.values() for value in entry.values()), moments))
    assert (scale.overflowed, scale.skipped, factor(scale)) == (True, 1, BEGINNING / 2)
    optimizer.zero_grad()
    backward(net, scale)
    scale.unscale()
    assert not scale.overflowed and all(map(torch.equal, gradients(net), plain(net)))


def test_float16_itself_overflows_until_the_factor_fits(scale: LossScale) -> None:
    layer, tries = nn.Linear(4, 1), 0
    while tries == 0 or scale.overflowed:
        tries += 1
        layer.zero_grad()
        scale.open(trained(layer, {}))
        with torch.autocast("cpu", torch.float16):
            loss = layer(torch.ones(2, 4)).float().mean() * 100.0
        torch.autograd.backward(scale.scale(loss))
        scale.unscale()
    assert layer.weight.grad is not None and layer.weight.grad.tolist() == [[pytest.approx(100.0, rel=1e-3)] * 4]
    assert scale.skipped == tries - 1 > 3 and factor(scale) * 100.0 < torch.finfo(torch.float16).max


def test_an_overflow_that_only_another_rank_has_is_told_by_the_norm_of_all(net: nn.Module, scale: LossScale) -> None:
    backward(net, scale)
    scale.unscale(torch.tensor(torch.nan))
    assert scale.overflowed and not gradients(net)


def test_the_norm_of_all_ranks_is_taken_back_with_the_gradients(net: nn.Module, scale: LossScale) -> None:
    backward(net, scale)
    norm = torch.tensor(3.0 * BEGINNING)
    scale.unscale(norm)
    assert norm == 3.0


def test_a_stage_without_weights_goes_on_with_the_same_factor_as_the_others(scale: LossScale) -> None:
    scale.open([])
    scale.unscale(torch.tensor(torch.inf))
    assert (scale.overflowed, factor(scale)) == (True, BEGINNING / 2)


def test_gradients_that_a_program_keeps_between_steps_are_added_to(net: nn.Module, scale: LossScale) -> None:
    expected = [2 * gradient for gradient in plain(net)]
    net.zero_grad()
    for _ in range(2):
        backward(net, scale)
        scale.unscale()
    torch.testing.assert_close(gradients(net), expected)
    net.zero_grad()
    for _ in range(2):  # both passes in one step
        backward(net, scale)
    scale.unscale()
    torch.testing.assert_close(gradients(net), expected)


def test_weights_beside_the_model_that_an_optimizer_moves_are_taken_back_too(net: nn.Module, scale: LossScale) -> None:
    beside = nn.Parameter(torch.ones(()))
    optimizer = torch.optim.SGD([*net.parameters(), beside], lr=0.1)
    scale.open(trained(net, {"optimizer": optimizer, "net": net}))
    torch.autograd.backward(scale.scale(beside * 2.0))
    scale.unscale()
    assert beside.grad == 2.0


def test_the_factor_is_kept_and_taken_up_again(net: nn.Module, scale: LossScale) -> None:
    overflow(net, scale)
    later = LossScale(CPU, needed=True)
    later.load_state_dict(scale.state_dict())
    assert later.state_dict() == scale.state_dict()
    assert (factor(later), later.skipped) == (BEGINNING / 2, 1)


@pytest.mark.parametrize("state", [None, {}], ids=["an earlier checkpoint", "one of a run in float32"])
def test_without_a_kept_factor_it_begins_anew(state: dict[str, object] | None, scale: LossScale) -> None:
    scale.load_state_dict(state)
    assert factor(scale) == BEGINNING


@pytest.mark.parametrize("state", [None, {}])
def test_without_a_kept_factor_ranks_that_go_back_forget_what_each_has_made_of_it(
    state: dict[str, object] | None, net: nn.Module, scale: LossScale
) -> None:
    overflow(net, scale)
    scale.load_state_dict(state)
    assert scale.state_dict() == LossScale(CPU, needed=True).state_dict()


def test_what_a_rank_has_beside_the_model_does_not_have_it_leave_out_a_step_alone(
    net: nn.Module, scale: LossScale
) -> None:
    """Nobody averages that: the others would go on with another factor."""
    run = SimpleNamespace(
        world_size=2, group=Lone(), device=CPU, spec=as_spec({"training": {}}), loss_scale=scale,
        pace=SimpleNamespace(join=lambda: None), control=SimpleNamespace(tells=lambda: ()),
    )  # fmt: skip
    mode, beside, expected = Whole(cast(Any, run)), nn.Parameter(torch.ones(())), plain(net)
    mode.place(net)
    net.zero_grad()
    scale.open([*net.parameters(), beside])
    torch.autograd.backward(scale.scale(loss_of(net) + beside * torch.inf))
    mode.unscale()
    assert not scale.overflowed and factor(scale) == BEGINNING
    assert all(map(torch.equal, gradients(net), expected))


def test_steps_left_out_are_told_at_the_end_where_they_are_more_than_a_few(net: nn.Module, scale: LossScale) -> None:
    overflow(net, scale)
    assert scale.told(19).startswith("1 of 19 steps were left out")
    assert scale.told(20) == "" == LossScale(CPU, needed=False).told(0)


def test_that_a_loss_is_not_scaled_is_told_once(net: nn.Module, scale: LossScale) -> None:
    assert "Call run.backward" in scale.check(1)
    assert scale.check(2) == "" == LossScale(CPU, needed=False).check(1)
    another = LossScale(CPU, needed=True)
    backward(net, another)
    another.unscale()
    assert another.check(1) == ""


def test_a_run_that_needs_none_does_as_if_there_were_none(net: nn.Module, scale: LossScale) -> None:
    expected, none = plain(net), LossScale(CPU, needed=False)
    none.load_state_dict(scale.state_dict())
    net.zero_grad()
    backward(net, none)
    none.unscale()
    none.check(1)
    assert none.state_dict() == {} and all(map(torch.equal, gradients(net), expected))


def test_scaled_gradients_that_moved_the_weights_as_they_were_are_told_with_what_to_write(
    net: nn.Module, scale: LossScale
) -> None:
    backward(net, scale)
    with pytest.raises(ProgramFailure, match="scaled for float16") as told:
        scale.check(1)
    assert told.value.code is FailureCode.PROGRAM_ERROR and "run.update(optimizer)" in told.value.hint


def test_gradients_that_overflow_at_any_factor_end_the_run(net: nn.Module, scale: LossScale) -> None:
    step = 0
    while factor(scale) >= LEAST:
        scale.check(step)
        step += 1
        overflow(net, scale)
    with pytest.raises(ProgramFailure, match=f"up to step {step}") as told:
        scale.check(step)
    assert told.value.code is FailureCode.NAN_LOSS
    assert step == 25
