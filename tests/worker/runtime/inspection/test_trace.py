"""Workloads read off programs on fake tensors, against hand counts and against real runs."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch
from torch.nn import functional as F

from scheduler.workload import OpClass, Workload, at_batch
from tests.worker.runtime.apart import apart
from tests.worker.runtime.samples import change_spec, pack_table, program, python, wine
from tests.worker.runtime.traces import traced
from worker.runtime.inspection import workloads
from worker.runtime.inspection.few_rows import few_rows
from worker.runtime.inspection.standin import _instead_of_run
from worker.runtime.inspection.trace import trace
from worker.runtime.spec import load_spec

FAMILIES = {"digits": ("cnn", "resnet", "convnext"), "wine": ("mlp", "resmlp", "ft_transformer"), "diabetes": ("mlp",)}
CASES = [(dataset, family) for dataset, families in FAMILIES.items() for family in families]


def saved_in_a_real_step(folder: Path, data: Path, rows: int) -> tuple[int, int]:
    """Bytes that autograd keeps for a real batch, and parameters of the real model."""
    from worker.runtime.spec import load_spec

    spec = load_spec(folder / "spec.yaml")
    with _instead_of_run(folder, None):  # type: ignore[arg-type]
        dataset = importlib.import_module("data").load(spec, data)
        net = importlib.import_module("model").build(spec.with_shape(dataset.shape))
    if "conv" in repr(net).lower():
        net = net.to(memory_format=torch.channels_last)
    held = {tensor.untyped_storage().data_ptr() for tensor in (*net.parameters(), *net.buffers())}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in held:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    batch = dataset.train.take(torch.arange(rows) % len(dataset.train))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = net(*batch.inputs)
        if batch.targets.is_floating_point():
            loss = F.mse_loss(output.squeeze(1), batch.targets)
        else:
            loss = F.cross_entropy(output, batch.targets, label_smoothing=spec.training.label_smoothing)
    assert loss.requires_grad
    return sum(kept.values()), sum(weight.numel() for weight in net.parameters())


@pytest.mark.parametrize(("dataset", "family"), CASES)
def test_every_family_is_traced_and_saves_what_a_real_step_saves(
    dataset: str, family: str, packed: dict[str, Any], tmp_path: Path
) -> None:
    data, profile = packed[dataset]
    folder = program(tmp_path / "program", profile, model={"family": family, "size": "small"})
    load = traced(folder, data, 48)
    saved_bytes, parameters = saved_in_a_real_step(folder, data, 48)
    assert load.parameters == parameters
    assert load.activation_bytes == pytest.approx(saved_bytes, rel=0.05)
    assert load.backward_flops == pytest.approx(sum(one.backward_flops for one in load.operators))
    assert load.gradient_bytes == 4 * parameters
    assert load.optimizer_bytes >= 2 * 4 * parameters
    assert load.flops > 0
    assert load.train_rows + load.evaluated_rows > 0.8 * profile.rows


@pytest.mark.parametrize(
    ("dataset", "family"), [("digits", "resnet"), ("digits", "convnext"), ("wine", "ft_transformer")]
)
def test_other_batches_follow_from_one_trace(dataset: str, family: str, packed: dict[str, Any], tmp_path: Path) -> None:
    data, profile = packed[dataset]
    folder = program(tmp_path / "program", profile, model={"family": family, "size": "small"})
    one = traced(folder, data, 32)
    for rows in (8, 100):
        moved, real = at_batch(one, rows), traced(folder, data, rows)
        assert moved.batch_size == rows
        assert moved.global_batch_size == 32
        assert len(moved.operators) == len(real.operators)
        for mine, theirs in zip(moved.operators, real.operators, strict=True):
            assert mine.op == theirs.op
            assert (mine.flops, mine.read_bytes, mine.write_bytes) == pytest.approx(
                (theirs.flops, theirs.read_bytes, theirs.write_bytes)
            )
            assert mine.shape == pytest.approx(theirs.shape)
        assert moved.activation_bytes == pytest.approx(real.activation_bytes)
        assert moved.evaluation_bytes == pytest.approx(real.evaluation_bytes)
        assert moved.backward_flops == pytest.approx(real.backward_flops)
        # which operator is the largest may change with the batch
        assert moved.transient_bytes == pytest.approx(real.transient_bytes, rel=0.25, abs=0.05 * real.activation_bytes)


def test_flops_of_a_small_convolutional_net_equal_a_hand_count(packed: dict[str, Any], tmp_path: Path) -> None:
    data, profile = packed["digits"]
    knobs = {"conv_layers": 2, "filters": 8, "kernel": 5, "fc_layers": 1, "fc_nodes": 20, "image_size": 8}
    folder = program(tmp_path / "program", profile, model={"family": "cnn", "params": knobs})
    load = traced(folder, data, 16)
    convolutions = 16 * 8 * 8 * 2 * 25 * (1 * 8 + 8 * 8)
    linear = 16 * 2 * (8 * 4 * 4 * 20 + 20 * 10)
    assert load.flops == convolutions + linear
    first, second = [operator for operator in load.operators if operator.op is OpClass.CONV]
    assert dict(first.shape) == {"batch": 16, "in": 1, "out": 8, "kernel": 5, "size": 8, "groups": 1}
    assert (first.input_gradient, second.input_gradient) == (False, True)
    assert load.backward_flops == 2 * load.flops - first.flops
    assert load.parameters == 25 * 8 + 16 + 25 * 64 + 16 + 128 * 20 + 20 + 200 + 10


def test_synced_statistics_are_two_messages_for_each_layer_that_shares_them(
    packed: dict[str, Any], tmp_path: Path
) -> None:
    data, profile = packed["digits"]
    folder = program(tmp_path / "program", profile, model={"family": "cnn", "params": {"conv_layers": 2}})
    assert traced(folder, data, 16).step_messages == 0
    change_spec(folder, training={"batch_norm": "synced"})
    assert traced(folder, data, 16).step_messages == 4


def test_a_program_tells_in_what_it_sends_its_gradients(packed: dict[str, Any], tmp_path: Path) -> None:
    data, profile = packed["wine"]
    folder = program(tmp_path / "program", profile, model={"family": "mlp"})
    assert traced(folder, data, 16).compression == "none"
    change_spec(folder, training={"compression": "bf16"})
    rounded = traced(folder, data, 16)
    assert (rounded.compression, rounded.gradient_bytes) == ("bf16", 4 * rounded.parameters)


def test_flops_of_an_mlp_equal_a_hand_count(packed: dict[str, Any], tmp_path: Path) -> None:
    data, profile = packed["wine"]
    folder = program(tmp_path / "program", profile, model={"family": "mlp", "params": {"layers": 2, "width": 24}})
    change_spec(folder, training={"optimizer": "sgd", "ema": 0})
    load = traced(folder, data, 10)
    assert load.flops == 10 * 2 * (13 * 24 + 24 * 24 + 24 * 3)
    products = [operator for operator in load.operators if operator.op is OpClass.GEMM]
    assert [dict(one.shape) for one in products] == [
        {"batch": 10, "in": 13, "out": 24, "count": 1},
        {"batch": 10, "in": 24, "out": 24, "count": 1},
        {"batch": 10, "in": 24, "out": 3, "count": 1},
    ]
    assert [one.input_gradient for one in products] == [False, True, True]
    weights = 13 * 24 + 24 + 24 * 24 + 24 + 24 * 3 + 3
    assert (load.parameters, load.gradient_bytes, load.optimizer_bytes) == (weights, 4 * weights, 4 * weights)
    assert load.fixed_parameters_ops == 6
    assert (load.train_rows, load.evaluated_rows) == (125, 17 + 17)


def test_depthwise_convolutions_and_norms_have_their_own_classes(packed: dict[str, Any], tmp_path: Path) -> None:
    data, profile = packed["digits"]
    folder = program(tmp_path / "program", profile, model={"family": "convnext", "size": "small"})
    found = {operator.op for operator in traced(folder, data).operators}
    assert {OpClass.DEPTHWISE, OpClass.CONV, OpClass.GEMM, OpClass.NORM, OpClass.ELEMENTWISE} <= found


def test_the_command_prints_one_line_of_json_whatever_the_program_prints(
    packed: dict[str, Any], tmp_path: Path
) -> None:
    data, profile = packed["wine"]
    folder = program(tmp_path / "program", profile, model={"family": "mlp"})
    model = folder / "model.py"
    model.write_text(model.read_text() + "\nprint('noise', end='')\n")
    done = python(
        folder, "-m", "worker.runtime.inspection.trace", "--program", str(folder), "--data", str(data), "--batch", "24"
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert Workload.from_dict(answer["workload"]).batch_size == 24
    assert answer["parameters"] == answer["workload"]["parameters"]


def test_a_large_dataset_is_not_read_whole_but_counted_whole(tmp_path: Path) -> None:
    profile = wine(tmp_path / "once")
    table = pq.read_table(tmp_path / "once" / "table.parquet")
    copies = [table.set_column(0, "alcohol", pc.add(table["alcohol"], number * 1e-6)) for number in range(60)]
    many = pa.concat_tables(copies)  # no row twice: copies would lie in one part of the split
    (tmp_path / "data").mkdir()
    pq.write_table(many, tmp_path / "data" / "table.parquet", row_group_size=500)
    folder = program(tmp_path / "program", profile, model={"family": "mlp"})
    with few_rows(tmp_path / "data", load_spec(folder / "spec.yaml"), limit_bytes=20_000) as rows:
        assert not rows.whole
        assert 128 <= pq.read_metadata(rows.folder / "table.parquet").num_rows < 2000
        cut = rows.folder
    assert not cut.exists()
    whole = traced(folder, tmp_path / "data")
    answer = apart(trace, folder, tmp_path / "data", limit_bytes=20_000)
    few = Workload.from_dict(answer["workload"])
    assert few.train_rows == pytest.approx(whole.train_rows, rel=0.01)
    assert few.data_bytes == pytest.approx(whole.data_bytes, rel=0.01)
    assert few.loading_bytes == pytest.approx(whole.dataset_bytes + 130 * many.num_rows, rel=0.01)
    assert few.operators == whole.operators


def test_few_rows_that_lack_a_class_are_traced_with_the_outputs_of_all(tmp_path: Path) -> None:
    rows = 6000  # in the order of the classes
    values = np.random.default_rng(0).normal(size=rows)
    kinds = ["ab"[row % 2] if row < 4000 else "c" for row in range(rows)]
    profile = pack_table(tmp_path / "data", {"x": values, "kind": kinds}, "kind")
    folder = program(tmp_path / "program", profile, model={"family": "mlp"})
    answer = apart(trace, folder, tmp_path / "data", limit_bytes=2_000)
    assert answer["ok"], answer["problem"]
    whole = traced(folder, tmp_path / "data")
    assert Workload.from_dict(answer["workload"]).operators == whole.operators


@pytest.mark.parametrize("by", ["group", "time"])
def test_few_rows_of_one_group_or_moment_are_traced_though_they_cannot_be_split_by_it(by: str, tmp_path: Path) -> None:
    rows = 6000  # in the order of the column: the few are of one value, and of one class
    values = np.random.default_rng(0).normal(size=rows)
    columns = {"visit": np.arange(rows) // 2000, "x": values, "kind": ["abc"[row % 3] for row in range(rows)]}
    columns["kind"][:300] = ["a"] * 300
    profile = pack_table(tmp_path / "data", columns, "kind")
    split = {"by": by, "column": "visit", "validation": 0.3, "test": 0.3}
    folder = program(tmp_path / "program", profile, model={"family": "mlp"}, data={"split": split})
    answer = apart(trace, folder, tmp_path / "data", limit_bytes=4000)
    assert answer["ok"], answer["problem"]
    assert answer["workload"]["train_rows"] == pytest.approx(0.4 * rows, rel=0.05)


def test_nothing_of_a_traced_program_stays_behind(packed: dict[str, Any], tmp_path: Path) -> None:
    data, profile = packed["wine"]
    folder = program(tmp_path / "program", profile, model={"family": "mlp"})
    path, here = list(sys.path), Path.cwd()
    traced(folder, data)
    assert sys.path == path
    assert Path.cwd() == here
    assert not {"model", "data", "train"} & set(sys.modules)
    assert float(torch.ones(2).sum()) == 2.0


@pytest.mark.parametrize(("dataset", "family"), CASES)
def test_every_family_tells_the_pieces_that_a_run_would_cut_it_between(
    dataset: str, family: str, packed: dict[str, Any], tmp_path: Path
) -> None:
    from worker.runtime.pipeline.blocks import Chain
    from worker.runtime.spec import load_spec

    data, profile = packed[dataset]
    folder = program(tmp_path / "program", profile, model={"family": family, "size": "small"})
    load = traced(folder, data, 32)
    spec = load_spec(folder / "spec.yaml")
    with _instead_of_run(folder, None):  # type: ignore[arg-type]
        rows = importlib.import_module("data").load(spec, data)
        net = importlib.import_module("model").build(spec.with_shape(rows.shape))
    if "conv" in repr(net).lower():
        net = net.to(memory_format=torch.channels_last)
    chain = Chain(net, rows.train.take(torch.arange(8)).inputs)
    assert load.pieces is not None and len(load.pieces) == len(chain.pieces) > 1
    assert [piece.output_bytes for piece in load.pieces] == [piece.boundary.row_bytes for piece in chain.pieces]
    weights = {id(one): one.numel() * one.element_size() for one in net.parameters()}
    assert sum(piece.parameter_bytes for piece in load.pieces) == sum(weights.values())
    assert (load.batch_norms > 0) == (family in ("cnn", "resnet"))
    assert Workload.from_dict(json.loads(json.dumps(load.to_dict()))) == load


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (
            "train.py",
            "loss = run.backward(net, inputs, targets, criterion)",
            "loss = criterion(net(*inputs), targets); loss.backward()",
        ),
        ("model.py", "        return ", "        assert len(x) > 0\n        return "),
    ],
)
def test_a_program_that_cannot_run_in_stages_has_no_pieces(
    file: str, old: str, new: str, packed: dict[str, Any], tmp_path: Path
) -> None:
    data, profile = packed["wine"]
    folder = program(tmp_path / "program", profile, model={"family": "mlp", "size": "small"})
    assert traced(folder, data, 32).pieces
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))
    load = traced(folder, data, 32)
    assert (load.pieces, load.parameters > 0) == ((), True)


def test_an_outline_that_fails_by_itself_tells_nothing_of_pieces(
    packed: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, profile = packed["wine"]
    folder = program(tmp_path / "program", profile, model={"family": "mlp", "size": "small"})

    def broken(*_: Any) -> None:
        raise RuntimeError("an operator that no fake tensor knows")

    monkeypatch.setattr("worker.runtime.inspection.trace.Chain", broken)
    answer = trace(folder, data, 32)
    assert answer["ok"] and "pieces" not in answer["workload"]


@pytest.mark.parametrize("limit", ["MOST_PIECES", "MOST_BYTES"])
def test_a_model_of_too_many_pieces_is_read_without_them(
    limit: str, packed: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, profile = packed["wine"]
    folder = program(tmp_path / "program", profile, model={"family": "mlp", "size": "small"})
    whole = trace(folder, data, 32)["workload"]
    written = len(json.dumps(whole, separators=(",", ":")))
    monkeypatch.setattr(f"worker.runtime.inspection.trace.{limit}", 1 if limit == "MOST_PIECES" else written - 1)
    answer = trace(folder, data, 32)
    assert answer["ok"] and "pieces" not in answer["workload"] and answer["workload"].keys() <= whole.keys()


def traced_load_s(folder: Path, data: Path, ordinary_s: float) -> float:
    """In a process of its own, where others take up to `ordinary_s` to load."""
    workloads.ORDINARY_LOAD_S = ordinary_s
    return float(trace(folder, data)["workload"]["load_s"])


@pytest.mark.parametrize(("ordinary_s", "is_told"), [(0.1, True), (1e9, False)])
def test_what_its_own_code_takes_to_load_is_told_where_others_take_less(
    ordinary_s: float, is_told: bool, packed: dict[str, Any], tmp_path: Path
) -> None:
    data, profile = packed["wine"]
    folder = program(tmp_path / "program", profile)
    code = folder / "data.py"
    code.write_text(code.read_text() + "\n\nimport time\n\ntime.sleep(0.3)\n")
    load_s = apart(traced_load_s, folder, data, ordinary_s)
    assert load_s >= 0.3 if is_told else load_s == 0.0
