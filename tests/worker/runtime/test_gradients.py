"""What the averager sends when, with a group of one process that counts messages (real ranks: test_ranks.py)."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor, nn

from tests.worker.runtime.lone import Lone
from worker.runtime.gradients import GradientAverager


@dataclass
class Doubling(Lone):
    """Stands for two ranks with equal gradients: every sum doubles. The value is read when it is sent."""

    names: list[str] = field(default_factory=list)

    def sum_start(self, tensor: Tensor, name: str) -> Doubling:
        self.names.append(name)
        tensor.mul_(2)
        return self


@pytest.fixture
def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 4096), nn.ReLU(), nn.Linear(4096, 2))


@pytest.fixture
def group() -> Doubling:
    return Doubling()


def loss_of(net: nn.Module) -> Tensor:
    return net(torch.linspace(-1, 1, 32).reshape(4, 8)).square().mean()


def gradients(net: nn.Module) -> list[Tensor]:
    return [weight.grad.clone() for weight in net.parameters() if weight.grad is not None]


def test_the_large_part_leaves_during_the_backward_pass(net: nn.Module, group: Doubling) -> None:
    averager = GradientAverager(net, group, torch.device("cpu"))
    averager.begin(0.5)
    loss = loss_of(net)
    loss.backward()
    assert group.names == ["early"]
    mine = gradients(net)
    averager.average(loss, 0.5, (0.0, 0.0, 0.0))
    assert group.names == ["early", "late"]
    torch.testing.assert_close(gradients(net), mine)  # two equal ranks of half the rows each
    assert averager.controls.tolist() == [pytest.approx(float(loss.detach())), 0.0, 0.0, 0.0, 0.0]


def test_a_second_backward_pass_of_a_step_is_sent_again(net: nn.Module, group: Doubling) -> None:
    averager = GradientAverager(net, group, torch.device("cpu"))
    averager.begin(0.5)
    loss_of(net).backward()
    loss = loss_of(net)
    loss.backward()
    mine = gradients(net)
    averager.average(loss, 0.5, (0.0, 0.0, 0.0))
    assert group.names == ["early", "late", "early"]
    torch.testing.assert_close(gradients(net), mine)


def test_layers_that_no_rank_used_get_no_gradient_by_which_momentum_and_decay_would_move_them(
    net: nn.Module, group: Doubling
) -> None:
    averager = GradientAverager(net, group, torch.device("cpu"))
    averager.begin(0.5)
    loss = net[:2](torch.ones(4, 8)).square().mean()
    loss.backward()
    assert group.names == []
    averager.average(loss, 0.5, (1.0, 0.0, 0.0))
    assert group.names == ["early", "late"]
    assert [weight.grad is None for weight in net.parameters()] == [False] * 4 + [True] * 4
    assert averager.controls[1] == 2.0


def test_a_layer_that_one_rank_used_has_the_same_gradient_on_all() -> None:
    torch.manual_seed(0)
    nets = [nn.Sequential(nn.Linear(4, 200), nn.Linear(200, 200), nn.Linear(200, 200)) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    used = (3, 2)

    def rank(number: int, group: Member) -> None:
        averager = GradientAverager(nets[number], group, torch.device("cpu"))  # type: ignore[arg-type]
        averager.begin(0.5)
        loss = nets[number][: used[number]](torch.ones(4, 4)).square().mean()
        loss.backward()
        averager.average(loss, 0.5, (0.0, 0.0, 0.0))

    Together(2).run(rank)
    found, others = (gradients(net) for net in nets)
    assert len(found) == len(others) == 6
    torch.testing.assert_close(found, others)
    assert found[-1].any()


def test_a_rank_without_rows_gives_no_layer_a_gradient_that_the_others_do_not_use() -> None:
    torch.manual_seed(0)
    nets = [nn.Sequential(nn.Linear(4, 200), nn.Linear(200, 200), nn.Linear(200, 200)) for _ in range(2)]
    used, shares = (2, 3), (1.0, 0.0)

    def rank(number: int, group: Member) -> None:
        averager = GradientAverager(nets[number], group, torch.device("cpu"))  # type: ignore[arg-type]
        averager.begin(shares[number])
        loss = nets[number][: used[number]](torch.ones(4, 4)).square().mean()
        loss.backward()
        averager.average(loss, shares[number], (0.0, 0.0, 0.0))

    Together(2).run(rank)
    assert [[weight.grad is None for weight in net.parameters()] for net in nets] == [[False] * 4 + [True] * 2] * 2


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_a_gradient_beyond_the_range_of_16_bits_can_still_be_clipped(
    kind: torch.dtype, net: nn.Module, group: Doubling
) -> None:
    averager = GradientAverager(net, group, torch.device("cpu"), kind)
    averager.begin(0.5)
    loss = loss_of(net) * 1e8
    loss.backward()
    mine = gradients(net)
    averager.average(loss, 0.5, (0.0, 0.0, 0.0))
    assert max(float(gradient.abs().max()) for gradient in mine) > 1e6
    for found, own in zip(gradients(net), mine, strict=True):
        assert (found.sign() * own.sign() >= 0).all()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    assert torch.nn.utils.get_total_norm(gradients(net)) == pytest.approx(1.0, rel=1e-3)


def test_an_infinite_gradient_stays_infinite_in_16_bits_so_that_such_a_run_fails_as_in_one_process(
    net: nn.Module, group: Doubling
) -> None:
    averager = GradientAverager(net, group, torch.device("cpu"), torch.float16)
    averager.begin(0.5)
    loss = loss_of(net) * float("inf")
    loss.backward()
    averager.average(loss, 0.5, (0.0, 0.0, 0.0))
    assert not any(bool(gradient.isfinite().all()) for gradient in gradients(net))


def test_gradients_of_a_scaled_loss_beyond_the_range_of_float16_overflow_for_all_ranks(
    net: nn.Module, group: Doubling
) -> None:
    averager = GradientAverager(net, group, torch.device("cpu"), torch.float16, scaled=True)
    averager.begin(0.5)
    loss = loss_of(net) * 1e8
    loss.backward()
    averager.average(loss, 0.5, (0.0, 0.0, 0.0))
    assert not torch.nn.utils.get_total_norm(gradients(net)).isfinite()


def test_a_loop_that_does_not_announce_its_steps_sends_everything_at_the_end(net: nn.Module, group: Doubling) -> None:
    averager = GradientAverager(net, group, torch.device("cpu"))
    loss = loss_of(net)
    loss.backward()
    assert group.names == []
    averager.average(loss, 1.0, (0.0, 0.0, 0.0))
    assert group.names == ["early", "late"]


def test_weights_that_a_program_freezes_or_thaws_on_the_way_are_noticed(net: nn.Module, group: Doubling) -> None:
    net[0].requires_grad_(False)
    averager = GradientAverager(net, group, torch.device("cpu"))
    assert averager.fits()
    net[0].requires_grad_(True)
    assert not averager.fits(), "its gradient would stay that of one rank"
    averager = GradientAverager(net, group, torch.device("cpu"))
    net[4].requires_grad_(False)
    assert not averager.fits(), "it would get a gradient of zero, by which momentum and decay move it"


def test_a_small_model_is_one_message(group: Doubling) -> None:
    net = nn.Linear(4, 2)
    averager = GradientAverager(net, group, torch.device("cpu"))
    averager.begin(1.0)
    loss = net(torch.ones(3, 4)).mean()
    loss.backward()
    averager.average(loss, 1.0, (0.0, 0.0, 0.0))
    assert group.names == ["late"]


class Together:
    """Several ranks as threads of one process, each with its own view of the group."""

    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size, timeout=60)
        self.size = size
        self.sent: dict[tuple[str, int], list[Tensor]] = {}
        self.lock = threading.Lock()

    def run(self, rank: Callable[[int, Member], None]) -> None:
        """`rank(number, group)` on all ranks."""
        threads = [threading.Thread(target=rank, args=(number, Member(self))) for number in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)


class Member:
    """One rank's view: every rank makes the same calls in the same order."""

    def __init__(self, all_ranks: Together) -> None:
        self.all_ranks = all_ranks
        self.calls: dict[str, int] = {}
        self.open: list[tuple[Tensor, list[Tensor]]] = []

    by_host = True

    def sum_start(self, tensor: Tensor, name: str) -> Member:
        key = (name, self.calls.setdefault(name, 0))
        self.calls[name] += 1
        with self.all_ranks.lock:
            parts = self.all_ranks.sent.setdefault(key, [])
            parts.append(tensor.clone())
        self.open.append((tensor, parts))
        return self

    def wait(self) -> None:
        """All that was sent so far is summed at the first wait."""
        self.all_ranks.barrier.wait()
        for tensor, parts in self.open:
            tensor.copy_(torch.stack(parts).sum(0))
        self.open = []
        self.all_ranks.barrier.wait()


@pytest.mark.parametrize(("kind", "tolerance"), [(torch.float64, 1e-6), (torch.float32, 1e-4)])
def test_uneven_shares_make_the_update_of_one_device(kind: torch.dtype, tolerance: float) -> None:
    torch.manual_seed(0)
    inputs, targets = torch.randn(128, 20, dtype=kind), torch.randn(128, 1, dtype=kind)
    alone = nn.Sequential(nn.Linear(20, 400), nn.Tanh(), nn.Linear(400, 100), nn.Tanh(), nn.Linear(100, 1)).to(kind)
    shares = [(87, 38, 3), (2, 60, 66), (64, 32, 32)]  # rows per rank, another split at every step
    nets = [copy.deepcopy(alone) for _ in range(3)]

    def train(net: nn.Module, step_of: Callable[[int], None]) -> None:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        for step in range(len(shares)):
            optimizer.zero_grad()
            step_of(step)
            optimizer.step()

    def whole(step: int) -> None:
        (alone(inputs) - targets).square().mean().backward()

    def rank(number: int, group: Member) -> None:
        averager = GradientAverager(nets[number], group, torch.device("cpu"), wishes=9)  # type: ignore[arg-type]

        def step_of(step: int) -> None:
            first = sum(shares[step][:number])
            rows = slice(first, first + shares[step][number])
            share = shares[step][number] / 128
            averager.begin(share)
            loss = (nets[number](inputs[rows]) - targets[rows]).square().mean()
            loss.backward()
            averager.average(loss, share, [float(place == number) for place in range(9)])
            assert averager.controls[1:4].tolist() == [1.0, 1.0, 1.0]

        train(nets[number], step_of)

    before = torch.cat([weight.detach().flatten().clone() for weight in alone.parameters()])
    train(alone, whole)
    Together(3).run(rank)
    update = torch.cat([weight.detach().flatten() for weight in alone.parameters()]) - before
    for net in nets:
        mine = torch.cat([weight.detach().flatten() for weight in net.parameters()]) - before
        assert float((mine - update).norm() / update.norm()) <= tolerance


class Turning(nn.Module):
    """A layer with complex weights, as those of spectra are, between two of real ones."""

    def __init__(self) -> None:
        super().__init__()
        self.enters, self.leaves = nn.Linear(8, 6), nn.Linear(6, 2)
        self.turns = nn.Parameter(torch.randn(6, dtype=torch.complex64))
        self.mixes = nn.Parameter(torch.randn(6, 6, dtype=torch.complex64))

    def forward(self, rows: Tensor) -> Tensor:
        turned = torch.exp(1j * self.enters(rows)) * self.turns
        return self.leaves(torch.view_as_real(turned @ self.mixes.mH).sum(-1))


@pytest.mark.parametrize("kind", [None, torch.float16], ids=["as they are", "16 bits"])
def test_complex_weights_learn_with_both_parts_what_one_process_teaches_them(kind: torch.dtype | None) -> None:
    torch.manual_seed(3)
    rows, alone, shares = torch.randn(9, 8), Turning(), (2 / 9, 7 / 9)
    alone(rows).square().mean().backward()
    nets = [copy.deepcopy(alone) for _ in range(2)]

    def rank(number: int, group: Member) -> None:
        net = nets[number]
        net.zero_grad()
        averager = GradientAverager(net, group, torch.device("cpu"), kind)  # type: ignore[arg-type]
        averager.begin(shares[number])
        loss = net(rows[:2] if number == 0 else rows[2:]).square().mean()
        loss.backward()
        averager.average(loss, shares[number], (0.0, 0.0, 0.0))

    Together(2).run(rank)
    assert alone.turns.grad is not None and bool((alone.turns.grad.imag != 0).all())
    assert alone.mixes.grad is not None and alone.mixes.grad.is_conj()
    for net in nets:
        for found, wanted in zip(gradients(net), gradients(alone), strict=True):
            torch.testing.assert_close(
                found, wanted, rtol=1e-5 if kind is None else 1e-2, atol=1e-6 if kind is None else 1e-3
            )
