"""A spec.yaml that a person has edited: what means nothing is refused by line and field, before anything is trained."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from codegen.program_spec import dump_program_spec
from codegen.spec import TaskSpec
from tests.worker.runtime.samples import digits, wine
from tests.worker.runtime.samples import program as make_program
from tests.worker.runtime.spoiled import check_of, edit, error_of
from worker.runtime.failures import ProgramFailure, describe
from worker.runtime.spec import load_spec
from worker.runtime.spec_check import RULES, spec_check

VALUES = (-1, 0, 1, 2, 0.5, 1.5, -0.5, math.inf, math.nan, 2**32, 10**400, "many", "auto", [1], None, True, False)
WORDS = (
    "adamw", "sgd", "adam", "cosine", "constant", "linear", "none", "balanced", "shift", "shift_flip", "fp16", "bf16",
    "cpu", "cuda", "gpu", "single", "replicated", "sync", "async", "pipeline", "pipeline+sync", "random", "group",
    "time", "accuracy", "balanced_accuracy", "macro_f1", "roc_auc", "log_loss", "r2", "rmse", "mae", "acc", "own",
    "synced", "float32",
)  # fmt: skip
SETTLED = ("resources.device", "mode", "training.precision", "budget.time_s")
"""In a program these may still be auto."""


@pytest.fixture
def program(wine_program: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return Path(shutil.copytree(wine_program, tmp_path / "program"))


def told_of(program: Path, old: str, new: str) -> dict[str, Any]:
    """What is said of the program after its first field `old` in spec.yaml was replaced."""
    lines = (program / "spec.yaml").read_text().splitlines()
    place = next(number for number, line in enumerate(lines) if line.strip().startswith(f"{old}:"))
    lines[place] = lines[place].split(old)[0] + new
    (program / "spec.yaml").write_text("\n".join(lines))
    try:
        spec_check(load_spec(program / "spec.yaml"), program / "spec.yaml")
    except ProgramFailure as failure:
        told = describe(failure, program, lambda: None)
        assert (told["file"], told["line"]) == ("spec.yaml", place + 1)
        return told
    return {"message": ""}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("epochs", "epochs: many", "training.epochs must be a whole number from 1 to 10000000, not 'many'"),
        ("epochs", "epochs: 0", "training.epochs must be a whole number from 1 to 10000000, not 0"),
        ("batch_size", "batch_size: -3", "training.batch_size must be a whole number from 1 to 10000000, not -3"),
        ("optimizer", "optimizer: adam", "training.optimizer must be one of adamw, sgd, not 'adam'"),
        (
            "learning_rate",
            "learning_rate: .nan",
            "training.learning_rate must be a number above 0 and at most 100, not nan",
        ),
        (
            "learning_rate",
            "learning_rate: 1e30",
            "training.learning_rate must be a number above 0 and at most 100, not 1e+30",
        ),
        ("precision", "precision: fp8", "training.precision must be one of auto, float32, bf16, fp16, not 'fp8'"),
        ("warmup", "warmup: 1.0", "training.warmup must be a number from 0 to below 1, not 1.0"),
        (
            "every_epochs",
            "every_epochs: yes",
            "checkpoints.every_epochs must be a whole number from 1 to 10000000, not True",
        ),
        ("every_minutes", "every_minutes: .nan", "checkpoints.every_minutes must be a number above 0, not nan"),
        (
            "every_minutes",
            f"every_minutes: 1{400 * '0'}",
            "checkpoints.every_minutes must be a number above 0, not 100",
        ),
        ("time_s", "time_s: 0", "budget.time_s must be a number above 0, or auto, not 0"),
        ("time_s", "time_s: 30 min", "budget.time_s must be a number above 0, or auto, not '30 min'"),
        ("weight_decay", f"weight_decay: 1{400 * '0'}", "training.weight_decay must be a number from 0, not 100"),
    ],
)
def test_a_value_that_means_nothing_is_refused_by_line_and_field(program: Path, old: str, new: str, words: str) -> None:
    assert words in told_of(program, old, new)["message"]


def test_what_is_no_yaml_is_refused_by_line(program: Path) -> None:
    edit(program, "spec.yaml", lambda text: text.replace("training:", "training: [", 1))
    told = check_of(program)["problem"]
    assert told["file"] == "spec.yaml" and told["message"].startswith(f"spec.yaml, line {told['line']}: not YAML: ")


def test_levels_without_end_are_refused_as_the_programs_own_fault(program: Path) -> None:
    edit(program, "spec.yaml", lambda text: text + "mine: " + "[" * 3000 + "]" * 3000 + "\n")
    told = check_of(program)["problem"]
    assert (told["code"], told["message"]) == (
        "program_error",
        "spec.yaml, line 1: values lie too deep in one another.",
    )


def test_an_impossible_split_is_refused_and_not_quietly_made_another(program: Path) -> None:
    edit(program, "spec.yaml", lambda text: text.replace("    validation: ", "    validation: 0.9 #", 1))
    for told in (check_of(program)["problem"], error_of(program)):
        assert told["file"] == "spec.yaml"
        assert "impossible split: validation 0.9 + test" in told["message"]


def test_a_needed_field_with_another_name_is_missed(program: Path) -> None:
    edit(program, "spec.yaml", lambda text: text.replace("  epochs:", "  epoch:", 1))
    with pytest.raises(ProgramFailure, match=r"training\.epochs is missing"):
        spec_check(load_spec(program / "spec.yaml"), program / "spec.yaml")


def test_a_rate_written_like_1e_3_is_a_number(program: Path) -> None:
    assert told_of(program, "learning_rate", "learning_rate: 1e-3")["message"] == ""
    assert load_spec(program / "spec.yaml").training.learning_rate == 0.001


def test_fields_of_a_persons_own_pass(program: Path) -> None:
    edit(program, "spec.yaml", lambda text: text.replace("  epochs:", "  my_knob: anything\n  epochs:", 1))
    spec_check(load_spec(program / "spec.yaml"), program / "spec.yaml")


def test_a_word_that_the_program_itself_knows_passes(program: Path) -> None:
    edit(program, "train.py", lambda text: text.replace('== "sgd"', 'in ("sgd", "lion")', 1))
    assert told_of(program, "optimizer", "optimizer: lion")["message"] == ""
    assert "training.schedule must be one of" in told_of(program, "schedule", "schedule: lionlike")["message"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("mode", "mode: pipeline", "training.batch_norm: synced does nothing in mode pipeline"),
        ("accumulate", "accumulate: 2", "training.accumulate has them in parts"),
    ],
)
def test_statistics_that_ranks_cannot_share_are_refused(program: Path, old: str, new: str, words: str) -> None:
    assert told_of(program, "batch_norm", "batch_norm: synced")["message"] == ""
    assert told_of(program, "batch_norm", "batch_norm: own")["message"] == ""
    assert told_of(program, old, new)["message"] == ""
    assert words in told_of(program, "batch_norm", "batch_norm: synced")["message"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("time_s", "time_s: null"),
        ("clip_norm", "clip_norm:"),
        ("keep", "keep: null"),
        ("ema", "ema: ~"),
        ("every_epochs", "every_epochs:"),
    ],
)
def test_null_passes_where_it_means_nothing_of_it(program: Path, old: str, new: str) -> None:
    assert told_of(program, old, new)["message"] == ""


def test_one_gpu_of_several_may_be_named(program: Path) -> None:
    assert told_of(program, "device", "device: cuda:1")["message"] == ""


def test_names_in_the_data_stay_words_that_look_like_numbers(tmp_path: Path) -> None:
    body = {
        "name": "1e3", "data": {"target": "1e5", "features": ["2e5", "1.5e3"]}, "shape": {"classes": ["3e1", "4e1"]},
    }  # fmt: skip
    (tmp_path / "spec.yaml").write_text(dump_program_spec(body))
    assert load_spec(tmp_path / "spec.yaml") == body


def accepted(field: str, value: Any) -> bool:
    """Whether the platform's own spec takes the value."""
    body: Any = value
    for name in reversed(field.split(".")):
        body = {name: body}
    try:
        TaskSpec.model_validate(body)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("field", RULES)
def test_a_program_takes_what_the_platforms_spec_takes(field: str) -> None:
    for value in (*VALUES, *WORDS):
        if value != "auto":
            assert (RULES[field](value) is None) == accepted(field, value), f"{field}: {value!r}"
    assert (RULES[field]("auto") is None) == (field in SETTLED)


@pytest.mark.parametrize("family", ["mlp", "resmlp", "ft_transformer", "cnn", "resnet", "convnext"])
def test_every_generated_program_passes(family: str, tmp_path: Path) -> None:
    profile = digits(tmp_path / "data", rows=40) if family in ("cnn", "resnet", "convnext") else wine(tmp_path / "data")
    folder = make_program(tmp_path / "program", profile, model={"family": family})
    spec_check(load_spec(folder / "spec.yaml"), folder / "spec.yaml")
