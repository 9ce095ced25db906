"""Micro-batches and replicas train what one process trains on whole batches."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from codegen import modes as planned
from codegen.catalog import FAMILIES, OWN
from tests.worker.runtime import samples
from tests.worker.runtime.test_gradients import Doubling
from worker.runtime import modes
from worker.runtime.gradients import GradientAverager
from worker.runtime.loss_scale import LossScale
from worker.runtime.modes.accumulated import Accumulated
from worker.runtime.modes.replicated import Replicated
from worker.runtime.precision import Rounding
from worker.runtime.spec import as_spec

BATCH_STATISTICS = {"cnn", "resnet"}
"""They normalise by the rows they see at once: parts of a batch are other rows than the whole."""
DRIVER = """
import json, os, runpy, sys
from worker.runtime import failures
failures.install_hook = lambda *_: None
for text in sys.argv[1:]:
    case = json.loads(text)
    for name in ("model", "data"):
        sys.modules.pop(name, None)
    os.chdir(case["folder"])
    sys.path[0] = case["folder"]
    sys.argv = ["train.py", "--work", case["work"]]
    os.environ.update(case["environment"])
    runpy.run_path("train.py", run_name="__main__")
"""


def weights(work: Path) -> dict[str, Tensor]:
    """Of the last checkpoint."""
    state = torch.load(sorted((work / "checkpoints").glob("step-*"))[-1] / "state.pt", weights_only=True)
    found: dict[str, Tensor] = state["parts"]["net"]
    return found


def test_micro_batches_and_replicas_learn_what_a_whole_batch_teaches(tmp_path: Path) -> None:
    table, pictures = samples.wine(tmp_path / "wine"), samples.digits(tmp_path / "digits", rows=150)
    cases, pairs = [], []
    for family in FAMILIES.values():
        if family.name == OWN or family.name in BATCH_STATISTICS:
            continue
        data, profile = ("digits", pictures) if any("image" in str(task) for task in family.tasks) else ("wine", table)
        folder = tmp_path / family.name
        folder.mkdir()
        (folder / "data").symlink_to(tmp_path / data)
        model = {"family": family.name, "size": "small", "params": {"dropout": 0.0}}
        training = {"epochs": 1, "batch_size": 37, "optimizer": "sgd", "learning_rate": 0.05, "ema": 0}
        training["class_weights"] = "none" if family.name == "mlp" else "balanced"
        samples.program(folder, profile, model=model, training={**training, "augment": "none"} if data else training)
        pieces = tmp_path / f"{family.name}-pieces"
        samples.program(pieces, profile, model=model, training={**training, "augment": "none", "accumulate": 3})
        (pieces / "data").symlink_to(tmp_path / data)
        for name, program, mode in (
            ("whole", folder, "single"),
            ("parts", pieces, "single"),
            ("twins", folder, "replicated"),
        ):
            environment = {"DLH_MODE": mode, "DLH_THREADS": "2" if name == "twins" else "1"}
            cases.append({"folder": str(program), "work": str(program / name), "environment": environment})
        pairs.append((folder / "whole", pieces / "parts", folder / "twins"))
    done = samples.python(tmp_path, "-c", DRIVER, *map(json.dumps, cases))
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    for whole, *others in pairs:
        expected = weights(whole)
        for work in others:
            for name, tensor in weights(work).items():
                torch.testing.assert_close(
                    tensor, expected[name], rtol=1e-4, atol=1e-6, msg=lambda text, work=work: f"{work}: {text}"
                )


def run_of(device: str = "cpu", precision: str = "float32", **more: Any) -> Any:
    """What a mode asks of a run."""
    spec = as_spec({"training": {}, "resources": {"count": 2}})
    return SimpleNamespace(
        spec=spec,
        world_size=1,
        rank=0,
        group=None,
        device=torch.device(device),
        autocast=(rounding := Rounding(torch.device(device), precision)),
        loss_scale=LossScale(torch.device(device), needed=rounding.needs_scale),
        **more,
    )


def square(outputs: Tensor, targets: Tensor) -> Tensor:
    """A mean over rows."""
    return (outputs - targets).square().mean()


def test_gradients_leave_with_the_last_micro_batch_only() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4096), nn.ReLU(), nn.Linear(4096, 2))
    group = Doubling()
    mode = Accumulated(run_of(), 3)
    mode._averager = GradientAverager(net, group, torch.device("cpu"))
    inputs, targets = torch.randn(7, 8), torch.randn(7, 2)
    sent_before: list[int] = []

    def watched(outputs: Tensor, wanted: Tensor) -> Tensor:
        sent_before.append(len(group.names))
        return square(outputs, wanted)

    mode.begin(0.5)
    loss = mode.backward(net, (inputs,), targets, watched)
    assert sent_before == [0, 0, 0]
    assert group.names == ["early"]
    mode.average(loss, 0.5, (0.0, 0.0, 0.0))
    assert group.names == ["early", "late"]
    found = [weight.grad.clone() for weight in net.parameters() if weight.grad is not None]
    net.zero_grad()
    whole = square(net(inputs), targets)
    torch.autograd.backward(whole)
    torch.testing.assert_close(loss, whole.detach())
    torch.testing.assert_close(found, [weight.grad for weight in net.parameters()])


def replicas_backward(
    net: nn.Module, inputs: Tensor, targets: Tensor, *, replicas: int, precision: str = "float32"
) -> None:
    """One backward pass, shared out over so many threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(replicas)
    try:
        mode = Replicated(run_of(precision=precision), 1)
        mode.place(net)
        mode.backward(net, (inputs,), targets, square)
        mode.close()
    finally:
        torch.set_num_threads(threads)


def test_replicas_average_their_batch_statistics_by_rows() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 1))
    inputs, targets = torch.randn(9, 4), torch.randn(9, 1)
    replicas_backward(net, inputs, targets, replicas=2)
    means = 0.1 * (inputs[:4].mean(0) * 4 + inputs[4:].mean(0) * 5) / 9
    torch.testing.assert_close(net[0].running_mean, means)
    assert int(net[0].num_batches_tracked) == 1


def test_a_layer_that_the_program_does_not_train_rests_in_every_replica() -> None:
    net = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1)).train()
    net[0].eval()
    seen: list[bool] = []
    for layer in net[:2]:
        layer.register_forward_hook(lambda layer, *_: seen.append(layer.training))
    replicas_backward(net, torch.randn(9, 4), torch.randn(9, 1), replicas=2)
    assert sorted(seen) == [False, False, True, True]
    assert int(net[0].num_batches_tracked) == 0
    assert [layer.training for layer in net] == [False, True, True]


def test_every_replica_computes_in_what_the_spec_says() -> None:
    seen: list[torch.dtype] = []
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    net[0].register_forward_hook(lambda _module, _inputs, found: seen.append(found.dtype))
    replicas_backward(net, torch.randn(8, 4), torch.randn(8, 1), replicas=2, precision="bf16")
    assert seen == [torch.bfloat16] * 2


def replicas_gradients(seed: int) -> list[Tensor]:
    """Of a model that draws nothing, by four replicas."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1))
    replicas_backward(net, torch.randn(64, 16), torch.randn(64, 1), replicas=4)
    return [weight.grad for weight in net.parameters() if weight.grad is not None]


def test_replicas_of_a_model_without_dropout_give_the_same_bits_each_time() -> None:
    first = replicas_gradients(3)
    for _ in range(5):
        assert all(torch.equal(one, again) for one, again in zip(first, replicas_gradients(3), strict=True))


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_rounded_messages_are_half_as_long_and_close(kind: torch.dtype) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 4096), nn.ReLU(), nn.Linear(4096, 2))

    class Counting(Doubling):
        sent_bytes = 0

        def sum_start(self, tensor: Tensor, name: str) -> Doubling:
            self.sent_bytes += tensor.nbytes
            return super().sum_start(tensor, name)

    plain, rounded = Counting(), Counting()
    before: list[Tensor] = []
    for group, message_type in ((plain, None), (rounded, kind)):
        net.zero_grad()
        averager = GradientAverager(net, group, torch.device("cpu"), message_type)
        averager.begin(0.5)
        loss = square(net(torch.linspace(-1, 1, 32).reshape(4, 8)), torch.ones(4, 2))
        torch.autograd.backward(loss)
        averager.average(loss, 0.5, (0.0, 0.0, 0.0))
        found = [weight.grad.clone() for weight in net.parameters() if weight.grad is not None]
        if before:
            flat, other = (torch.cat([tensor.flatten() for tensor in some]) for some in (before, found))
            assert 0 < float((flat - other).norm() / flat.norm()) < 4e-3
            assert averager.controls[0] == pytest.approx(float(loss.detach()))
        before = found
    assert rounded.sent_bytes < 0.51 * plain.sent_bytes


def test_a_spec_by_hand_gets_the_bound_that_a_generated_one_names() -> None:
    assert modes.STALENESS_PER_RANK == planned.STALENESS_PER_RANK
