"""Range tests of programs: generated, edited, people's own; what they leave behind, and when they end."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from scheduler.rates.interval import RangeRecord, rate_range
from tests.worker.runtime.samples import diabetes, digits, program, wine
from worker.rate_search import USUAL_HIGH, USUAL_LOW, range_fault
from worker.runtime.rates import range_test
from worker.runtime.rates.range_test import rate_test

OWN = """
import torch
from torch import nn

def build(spec):
    size = sum(len(spec.shape[name]) for name in ("numeric",))
    return Own(int(spec.shape.outputs))

class Own(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.last = nn.LazyLinear(outputs)

    def forward(self, numbers, categories=None):
        return self.last(numbers)
"""


def curve_of(folder: Path, data: Path | None, **changes: Any) -> dict[str, Any]:
    options = {
        "low": 1e-6, "high": 10.0, "steps": 60, "sweeps": 1, "budget": 60.0, "batch": None, "device": "cpu",
        "threads": 1, **changes,
    }  # fmt: skip
    return json.loads(json.dumps(rate_test(folder, data, argparse.Namespace(**options)), allow_nan=False))


def change(folder: Path, name: str, old: str, new: str) -> None:
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("packer", "family", "score"),
    [(wine, "mlp", "accuracy"), (diabetes, "resmlp", "r2"), (lambda folder: digits(folder, 300), "cnn", "accuracy")],
)
def test_a_program_tells_a_curve_from_which_an_interval_is_read(
    packer: Any, family: str, score: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    folder = program(tmp_path / "program", packer(data), model={"family": family, "size": "small"})
    before = sorted(path.name for path in folder.rglob("*"))
    answer = curve_of(folder, data, sweeps=2)
    assert answer["ok"], answer["problem"]
    assert answer["optimizer"] == "AdamW"
    record = RangeRecord.from_dict(answer["record"])
    assert record.score == score and len(record.sweeps) == 2 and len(record.rates) == 60
    assert record.rates[0] == pytest.approx(1e-6) and record.rates[-1] == pytest.approx(10.0)
    assert record.sweeps[0] != record.sweeps[1]
    found = rate_range(record)
    assert 1e-6 < found.low < found.centre < found.high < 10.0
    left = sorted(path.name for path in folder.rglob("*") if "__pycache__" not in str(path))
    assert left == before


def test_the_same_seed_gives_the_same_curve_and_another_batch_another(tmp_path: Path) -> None:
    data = tmp_path / "data"
    folder = program(tmp_path / "program", wine(data), model={"family": "mlp"})
    first, again, wider = curve_of(folder, data), curve_of(folder, data), curve_of(folder, data, batch=64)
    assert first["record"] == again["record"]
    assert wider["batch_size"] == 64 and wider["record"] != first["record"]


def test_a_test_takes_as_many_threads_as_the_program_alone_unless_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DLH_THREADS", raising=False)
    monkeypatch.setattr(sys, "argv", ["range_test"])
    assert range_test._options().threads == 0
    data = tmp_path / "data"
    folder = program(tmp_path / "program", wine(data), model={"family": "mlp"}, resources={"count": 1})
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert curve_of(folder, data, threads=0)["threads"] == 1
        assert curve_of(folder, data, threads=2)["threads"] == 2
    finally:
        torch.set_num_threads(before)


def test_rates_are_forced_whatever_an_edited_program_sets(tmp_path: Path) -> None:
    data = tmp_path / "data"
    folder = program(tmp_path / "program", wine(data), model={"family": "mlp"})
    usual = curve_of(folder, data)
    change(folder, "train.py", 'group["lr"] = rate', 'group["lr"] = 1000.0')
    assert curve_of(folder, data)["record"] == usual["record"]
    change(folder, "train.py", "run.update(optimizer)", "optimizer.step()")
    assert curve_of(folder, data)["record"] == usual["record"]


def test_a_person_s_own_model_is_tested(tmp_path: Path) -> None:
    data = tmp_path / "data"
    own = OWN.replace("nn.LazyLinear(outputs)", "nn.Linear(13, outputs)")
    folder = program(tmp_path / "program", wine(data), own_model=own, training={"optimizer": "sgd"})
    answer = curve_of(folder, data)
    assert answer["ok"], answer["problem"]
    assert answer["optimizer"] == "SGD"


def test_a_sweep_ends_when_the_loss_has_left(tmp_path: Path) -> None:
    data = tmp_path / "data"
    training = {"optimizer": "sgd", "clip_norm": 0}
    folder = program(tmp_path / "program", diabetes(data), model={"family": "mlp"}, training=training)
    answer = curve_of(folder, data, high=1e6)
    losses = answer["record"]["sweeps"][0]["losses"]
    assert 10 < len(losses) < 60
    assert answer["record"]["rates"][-1] == pytest.approx(1e6)


def test_slow_steps_make_fewer_of_them(tmp_path: Path) -> None:
    data = tmp_path / "data"
    folder = program(tmp_path / "program", wine(data), model={"family": "mlp"})
    answer = curve_of(folder, data, budget=1e-3, sweeps=3, steps=100)
    assert len(answer["record"]["rates"]) == 40
    assert len(answer["record"]["sweeps"]) == 1


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("net = model.build(spec)", "raise ValueError('broken on purpose')", "broken on purpose"),
        ("for _epoch in run.epochs():", "for _epoch in []:", "trained no step"),
        ("net = model.build(spec)", "raise SystemExit", "ended itself"),
    ],
)
def test_a_broken_program_is_told_with_its_place(tmp_path: Path, old: str, new: str, words: str) -> None:
    data = tmp_path / "data"
    folder = program(tmp_path / "program", wine(data), model={"family": "mlp"})
    change(folder, "train.py", old, new)
    answer = curve_of(folder, data)
    assert not answer["ok"] and answer["record"] is None
    assert words in answer["problem"]["message"]


def test_a_loss_that_is_no_number_is_noted_not_raised(tmp_path: Path) -> None:
    data = tmp_path / "data"
    folder = program(tmp_path / "program", wine(data), model={"family": "mlp"})
    change(folder, "train.py", "run.log_step(loss,", "run.log_step(loss * math.nan,")
    answer = curve_of(folder, data)
    assert answer["ok"]
    assert answer["record"]["sweeps"][0]["losses"] == [None]


def test_without_data_there_is_no_test(tmp_path: Path) -> None:
    folder = program(tmp_path / "program", wine(tmp_path / "data"), model={"family": "mlp"})
    for data in (None, tmp_path / "nowhere"):
        answer = curve_of(folder, data)
        assert not answer["ok"] and answer["problem"]["code"] == "data_error"


def test_the_usual_rates_are_those_of_the_portal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["range_test"])
    options = range_test._options()
    assert (options.low, options.high) == (USUAL_LOW, USUAL_HIGH)


@pytest.mark.parametrize(
    ("low", "high"), [(1e-3, 1e-2), (1e-13, 1.0), (1e-6, 1000.0), (0.0, 1.0), (1e-6, float("nan"))]
)
def test_rates_that_the_portal_refuses_are_refused_in_the_same_words(
    low: float, high: float, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = range_fault(low, high, prefix="--")
    assert fault is not None
    monkeypatch.setattr(sys, "argv", ["range_test", "--low", str(low), "--high", str(high)])
    with pytest.raises(SystemExit):
        range_test._options()
    assert f"{fault.message} {fault.hint}" in capsys.readouterr().err
