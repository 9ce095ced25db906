"""Answers by model.onnx without torch: rows are called by a threshold as predict.py calls them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.worker.runtime import samples
from tests.worker.runtime.onnx_programs import WITHOUT_TORCH, answers, exported, program, rows_written
from worker.runtime.onnx_export.answers import ThresholdError, answers_of, called_by
from worker.runtime.threshold import answers as called_by_program

CLASSES = ["yes", "no", "a=b"]


@pytest.mark.parametrize("threshold", ["", "yes=0.2", "no=1", "no=0", "a=b=0.45"])
def test_rows_are_called_as_the_training_program_calls_them(threshold: str) -> None:
    probabilities = np.random.default_rng(3).dirichlet(np.ones(3), 200)
    probabilities[:3] = np.eye(3)  # as sure as can be
    expected = called_by_program(torch.from_numpy(probabilities), CLASSES, threshold).tolist()
    assert called_by(CLASSES, probabilities, threshold) == expected and len(set(expected)) > 1 - bool(threshold)


def test_the_confidence_is_that_in_the_class_a_row_is_called_by() -> None:
    (answer,) = answers_of(["no", "yes"], [np.zeros((1, 2)), np.array([[0.75, 0.25]])], threshold="yes=0.2")
    assert (answer["prediction"], answer["confidence"], answer["probability of no"]) == ("yes", 0.25, 0.75)


@pytest.mark.parametrize("threshold", ["yes", "yes=2", "yes=nan", "maybe=0.3", "=0.3"])
def test_a_threshold_that_is_none_is_told_with_the_classes(threshold: str) -> None:
    with pytest.raises(ThresholdError, match="one of the classes yes, no, a=b"):
        called_by(CLASSES, np.ones((1, 3)) / 3, threshold)
    with pytest.raises(ThresholdError, match="predicts a number"):
        answers_of([], [np.zeros(1)], threshold=threshold)


def test_the_script_takes_a_threshold_as_predict_does(tmp_path: Path) -> None:
    folder = program(tmp_path, "mlp", "wine")
    report = exported(folder)["report"]
    assert "`--threshold CLASS=P`" in (folder / "onnx" / "README.md").read_text()
    name = report["classes"][-1]
    given = [*rows_written(folder), "--threshold", f"{name}=0"]
    done = samples.python(folder, "-c", WITHOUT_TORCH, *given, "--output", "onnx.csv", PYTHONPATH="")
    assert done.returncode == 0, done.stderr
    assert samples.run(folder, "predict.py", *given, "--output", "torch.csv").returncode == 0
    # the script numbers the rows; `predict.py` gives the file back with the answers behind
    assert answers(folder / "onnx.csv")[0].keys() - answers(folder / "torch.csv")[0].keys() == {"row"}
    for out in ("onnx.csv", "torch.csv"):
        assert {row["prediction"] for row in answers(folder / out)} == {name}
    wrong = ["-c", WITHOUT_TORCH, *given[:-1], f"{name}=7", "--output", "none.csv"]
    refused = samples.python(folder, *wrong, PYTHONPATH="")
    assert refused.returncode == 1 and refused.stderr.startswith(f"The threshold '{name}=7' is not a class")
    gone = ["-c", WITHOUT_TORCH, "--input", "gone.csv", "--output", "none.csv"]
    missed = samples.python(folder, *gone, PYTHONPATH="")
    assert missed.returncode == 1 and missed.stderr.splitlines() == ["gone.csv: No such file or directory"]
    assert not (folder / "none.csv").exists()
