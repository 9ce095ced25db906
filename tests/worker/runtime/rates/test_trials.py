"""Trials of programs: real short trainings, of any kind of program, judged by their own evaluation."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from scheduler.rates.trials import TrialsRecord, trial_choice
from tests.worker.runtime.samples import change_spec, diabetes, digits, program, wine
from worker.rate_search import FIRST_SHARE, most_share
from worker.runtime.rates import trial as trial_module
from worker.runtime.rates.trial import Bench, trial
from worker.runtime.rates.trials import rate_trials
from worker.runtime.spec import load_spec

TRAINING = {"epochs": 6, "batch_size": 16}


def tried(folder: Path, data: Path | None, **changes: Any) -> dict[str, Any]:
    options = {"centre": 1e-2, "scale": 1.0, "budget": 600.0, "batch": None, "device": "cpu", "threads": 1, **changes}
    return json.loads(json.dumps(rate_trials(folder, data, argparse.Namespace(**options)), allow_nan=False))


def change(folder: Path, name: str, old: str, new: str) -> None:
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))


@pytest.fixture
def wine_program(tmp_path: Path) -> tuple[Path, Path]:
    """A program and its data."""
    data = tmp_path / "data"
    return program(tmp_path / "program", wine(data), model={"family": "mlp"}, training=TRAINING), data


@pytest.mark.parametrize(
    ("packer", "family"), [(wine, "mlp"), (diabetes, "resmlp"), (lambda folder: digits(folder, 200), "cnn")]
)
def test_a_far_too_small_rate_is_left_for_a_larger_one(packer: Any, family: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    model = {"family": family, "size": "small"}
    folder = program(tmp_path / "program", packer(data), model=model, training=TRAINING)
    before = sorted(path.name for path in folder.rglob("*"))
    answer = tried(folder, data, centre=1e-5)
    assert answer["ok"], answer["problem"]
    assert answer["complete"]
    record = TrialsRecord.from_dict(answer["trials"])
    assert trial_choice(record).rate > 1e-4
    assert {one.round for one in record.done} == {1, 2}
    assert sum(one.share for one in record.done) <= most_share() + 1e-9
    assert sorted(path.name for path in folder.rglob("*") if "__pycache__" not in str(path)) == before


def test_trials_take_as_many_threads_as_the_program_alone_unless_they_are_told(
    wine_program: tuple[Path, Path],
) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert [tried(*wine_program, threads=threads, budget=0.0)["threads"] for threads in (0, 2)] == [1, 2]
    finally:
        torch.set_num_threads(before)


def test_a_trial_makes_its_share_of_the_run_s_steps_and_follows_its_schedule(wine_program: tuple[Path, Path]) -> None:
    folder, data = wine_program
    marks: list[float] = []
    whole = trial(Bench(program=folder, data=data), load_spec(folder / "spec.yaml"), 1e-2, share=1.0)
    half = trial(Bench(program=folder, data=data), load_spec(folder / "spec.yaml"), 1e-2, share=0.5, tell=marks.append)
    assert whole.position.step == whole.steps and half.steps == round(whole.steps / 2)
    assert half.seen_rate == pytest.approx(1e-2, rel=0.05) and half.done == 1.0
    assert whole.loss is not None and half.loss is not None and whole.loss < half.loss
    assert marks == sorted(marks) and all(0 < mark <= 1 for mark in marks)


@pytest.mark.parametrize("share", [1e-6, 1.0], ids=["one step", "all of them"])
def test_the_rates_of_a_trial_are_those_of_a_run_of_its_length(
    wine_program: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    folder, data = wine_program
    shares: list[float] = []
    told = trial_module.TrialRun.log_step
    monkeypatch.setattr(
        trial_module.TrialRun,
        "log_step",
        lambda run, *more, **named: (shares.append(run.done), told(run, *more, **named))[1],
    )
    made = trial(Bench(program=folder, data=data), load_spec(folder / "spec.yaml"), 1e-2, share=share)
    assert shares == [pytest.approx((step + 0.5) / made.steps) for step in range(made.steps)]
    assert made.seen_rate > 0


def test_a_trial_may_be_shorter_than_an_epoch(wine_program: tuple[Path, Path]) -> None:
    folder, data = wine_program
    run = trial(Bench(program=folder, data=data), load_spec(folder / "spec.yaml"), 1e-2, share=0.05)
    assert 0 < run.position.step < 5
    assert run.loss is not None


def test_the_same_trials_tell_the_same(wine_program: tuple[Path, Path]) -> None:
    folder, data = wine_program
    assert tried(folder, data)["trials"] == tried(folder, data)["trials"]


def test_a_rate_that_ruins_the_weights_has_no_loss(tmp_path: Path) -> None:
    data = tmp_path / "data"
    training = {**TRAINING, "optimizer": "sgd", "clip_norm": 0}
    folder = program(tmp_path / "program", diabetes(data), model={"family": "mlp"}, training=training)
    answer = tried(folder, data, centre=1e5)
    assert answer["ok"], answer["problem"]
    assert None in [one["loss"] for one in answer["trials"]["done"]]


def test_a_program_that_evaluates_as_it_likes_is_tried(wine_program: tuple[Path, Path]) -> None:
    folder, data = wine_program
    change(folder, "train.py", "run.log_epoch(", "if run.position.epoch < 0:\n        continue\n    run.log_epoch(")
    change(folder, "train.py", "run.update(optimizer)", "optimizer.step()")
    answer = tried(folder, data)
    assert answer["ok"], answer["problem"]
    assert all(one["loss"] is not None for one in answer["trials"]["done"])


def test_time_that_is_over_leaves_the_trials_that_were_made(
    wine_program: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, data = wine_program
    clock = iter(range(1_000_000))
    monkeypatch.setattr("worker.runtime.rates.trial.time.monotonic", lambda: float(next(clock)))
    begun = tried(folder, data, budget=0.0)
    assert begun["ok"] and not begun["complete"] and begun["trials"]["done"] == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("net = model.build(spec)", "raise ValueError('broken on purpose')", "broken on purpose"),
        ("peak_rate = training.learning_rate", "peak_rate = 0.01", "whatever the spec says"),
        ("run.log_epoch(run.evaluate(ema.net if ema else net, dataset))", "pass", "validation loss"),
    ],
)
def test_a_program_that_cannot_be_tried_is_told_why(
    wine_program: tuple[Path, Path], old: str, new: str, words: str
) -> None:
    folder, data = wine_program
    change(folder, "train.py", old, new)
    answer = tried(folder, data)
    assert not answer["ok"] and answer["trials"] is None
    assert words in answer["problem"]["message"]


def test_without_validation_rows_or_data_there_are_no_trials(wine_program: tuple[Path, Path], tmp_path: Path) -> None:
    folder, data = wine_program
    for where in (None, tmp_path / "nowhere"):
        assert tried(folder, where)["problem"]["code"] == "data_error"
    split = load_spec(folder / "spec.yaml").data.split
    change_spec(folder, data={"split": {**split, "validation": 0.0}})
    assert "validation rows" in tried(folder, data)["problem"]["message"]


def test_trials_are_shorter_by_their_scale(wine_program: tuple[Path, Path]) -> None:
    folder, data = wine_program
    first = tried(folder, data, scale=0.5)["trials"]["done"][0]
    assert first["share"] == pytest.approx(0.5 * FIRST_SHARE)
