"""People's own models on fake tensors: what is counted, and what is told where it cannot be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduler.workload import PRECISIONS, OpClass, Workload
from tests.worker.runtime.samples import EXACT_NET, program, run
from tests.worker.runtime.traces import own, traced
from worker.runtime.inspection.trace import CANNOT_TRACE


def test_shared_weights_count_once(packed: dict[str, Any], tmp_path: Path) -> None:
    source = """
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(13, 13, bias=False), nn.Linear(13, 13, bias=False)
        self.b.weight = self.a.weight
        self.head = nn.Linear(13, 3, bias=False)
    def forward(self, numeric, categorical):
        return self.head(self.b(torch.relu(self.a(numeric))))

def build(spec):
    return Tied()
"""
    answer = own(tmp_path, packed, source)
    assert answer["ok"], answer["problem"]
    assert answer["parameters"] == 13 * 13 + 13 * 3
    assert answer["workload"]["gradient_bytes"] == 4 * (13 * 13 + 13 * 3)


def test_attention_recurrence_control_flow_and_loose_tensors_are_traced(packed: dict[str, Any], tmp_path: Path) -> None:
    source = """
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2

class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.ones(8)
        self.widen = nn.Linear(1, 8)
        self.attend = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)
        self.recur = nn.LSTM(8, 8, batch_first=True)
        self.head = nn.Linear(8, 3)
    def forward(self, numeric, categorical):
        x = self.widen(numeric[:, :, None]) * self.scale + torch.arange(13)[None, :, None]
        if x.shape[1] > 5 and self.training:
            x = F.dropout(x, 0.5)
        for _ in range(2):
            x = x + self.attend(x, x, x)[0]
        x = F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None])[:, 0]
        x, _ = self.recur(x)
        return self.head(Twice.apply(x[:, -1]))

def build(spec):
    return Odd()
"""
    answer = own(tmp_path, packed, source)
    assert answer["ok"], answer["problem"]
    load = Workload.from_dict(answer["workload"])
    assert OpClass.ATTENTION in {operator.op for operator in load.operators}
    recurrent = 2 * 16 * 13 * (4 * 8 * 8 + 4 * 8 * 8)
    attention = 2 * 2 * (2 * 16 * 13 * 13 * 8)
    linear = 2 * 16 * (13 * 8 + 2 * 13 * (8 * 24 + 8 * 8) + 8 * 3)
    assert load.flops == recurrent + attention + attention / 2 + linear


def test_frozen_layers_have_no_backward_pass(packed: dict[str, Any], tmp_path: Path) -> None:
    source = """
def build(spec):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(13, 64).requires_grad_(False)
            self.head = nn.Linear(64, 3)
        def forward(self, numeric, categorical):
            return self.head(torch.relu(self.body(numeric)))
    return Net()
"""
    answer = own(tmp_path, packed, source)
    assert answer["ok"], answer["problem"]
    load = Workload.from_dict(answer["workload"])
    frozen, head = [operator for operator in load.operators if operator.op is OpClass.GEMM]
    assert frozen.backward_flops == 0
    assert head.backward_flops == head.flops == load.backward_flops
    assert load.gradient_bytes == 4 * (64 * 3 + 3)


def test_recomputation_shows_in_the_backward_pass(packed: dict[str, Any], tmp_path: Path) -> None:
    source = """
from torch.utils.checkpoint import checkpoint

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(13, 64)
        self.body = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
        self.head = nn.Linear(64, 3)
    def forward(self, numeric, categorical):
        x = self.first(numeric)
        x = checkpoint(self.body, x, use_reentrant=False) if self.training else self.body(x)
        return self.head(x)

def build(spec):
    return Net()
"""
    answer = own(tmp_path, packed, source)
    assert answer["ok"], answer["problem"]
    load = Workload.from_dict(answer["workload"])
    plain = sum(operator.backward_flops for operator in load.operators)
    assert load.backward_flops >= plain + 2 * 16 * 64 * 64


HOPELESS = {
    "a branch on values": "x = numeric if numeric.mean() > 0 else -numeric",
    "a value as a number": "x = numeric * float(numeric.max())",
    "NumPy in the middle": "x = torch.from_numpy(numeric.numpy() * 2)",
    "a shape that depends on values": "x = numeric[numeric[:, 0] > 0]",
}


@pytest.mark.parametrize("line", HOPELESS.values(), ids=HOPELESS.keys())
def test_what_cannot_be_traced_says_so_and_where(line: str, packed: dict[str, Any], tmp_path: Path) -> None:
    source = f"""
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(13, 3)
    def forward(self, numeric, categorical):
        {line}
        return self.head(x)

def build(spec):
    return Net()
"""
    answer = own(tmp_path, packed, source)
    assert answer["ok"] is False
    assert answer["workload"] is None
    problem = answer["problem"]
    assert problem["code"] == CANNOT_TRACE
    assert (problem["file"], problem["line"]) == ("model.py", 11)
    assert "device" in problem["hint"]


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("def build(spec:\n    pass", "program_syntax"),
        ("x = 1", "model_no_build"),
        ("def build(spec):\n    return 3", "model_no_build"),
        ("import sys\nsys.exit(3)", "program_error"),
        (
            "def build(spec):\n    class Net(nn.Linear):\n        def forward(self, numeric, categorical):\n"
            "            return super().forward(numeric)\n    return Net(13, 7)",
            "model_wrong_shape",
        ),
    ],
)
def test_a_fault_of_the_program_keeps_its_own_code(
    source: str, code: str, packed: dict[str, Any], tmp_path: Path
) -> None:
    answer = own(tmp_path, packed, source)
    assert answer["ok"] is False
    assert answer["problem"]["code"] == code


@pytest.mark.parametrize("look", ["trace", "check"])
def test_a_forward_with_other_parameters_is_told_by_line_with_the_call_it_must_take(
    look: str, packed: dict[str, Any], tmp_path: Path
) -> None:
    source = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(13, 3)

    def forward(self, x):
        return self.head(x)

def build(spec):
    return Net()
"""
    if look == "trace":
        problem = own(tmp_path, packed, source)["problem"]
    else:
        data, profile = packed["wine"]
        folder = program(tmp_path / "program", profile, own_model="import torch\nfrom torch import nn\n" + source)
        done = run(folder, "-m", "worker.runtime.inspection.check", "--program", str(folder), "--data", str(data))
        problem = json.loads(done.stdout.splitlines()[-1])["problem"]
    assert problem["code"] == "program_error"
    line = {"trace": 11, "check": 9}[look]
    assert (problem["file"], problem["line"]) == ("model.py", line)
    assert problem["message"].startswith(f"model.py, line {line}: forward(x) of Net")
    assert "net(numeric, categorical)" in problem["message"] and "[rows, 13]" in problem["message"]
    assert "def forward(self, numeric, categorical)" in problem["hint"]


def test_a_model_of_layers_alone_is_told_the_call_it_must_take(packed: dict[str, Any], tmp_path: Path) -> None:
    problem = own(tmp_path, packed, "def build(spec):\n    return nn.Sequential(nn.Linear(13, 3))")["problem"]
    assert problem["code"] == "program_error"
    assert "of Sequential" in problem["message"] and "net(numeric, categorical)" in problem["message"]


def test_a_program_in_float16_is_traced_without_the_scale_of_its_loss(packed: dict[str, Any], tmp_path: Path) -> None:
    data, profile = packed["wine"]
    training = {"batch_size": 16, "precision": "fp16"}
    workload = traced(program(tmp_path, profile, own_model=EXACT_NET, training=training), data)
    assert workload.gradient_bytes == 4 * (14 * 16 + 17 * 3)


def test_figures_are_those_of_float32_whatever_a_program_computes_in(packed: dict[str, Any], tmp_path: Path) -> None:
    data, profile = packed["wine"]
    found = {
        precision: traced(program(tmp_path / precision, profile, training={"precision": precision}), data)
        for precision in PRECISIONS
    }
    assert {name: workload.precision for name, workload in found.items()} == {name: name for name in PRECISIONS}
    assert all(replace(workload, precision="auto") == found["auto"] for workload in found.values())
