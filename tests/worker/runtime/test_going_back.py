"""A person has a program go on from an older checkpoint, off the platform, as often as they like."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.worker.runtime import samples
from tests.worker.runtime.ranks import Ranks, events

pytestmark = pytest.mark.ranks


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("step-*"))


def test_what_was_learnt_after_an_older_checkpoint_is_put_aside_each_time(tmp_path: Path) -> None:
    wishes = {"training": {"epochs": 3, "patience": 0}, "checkpoints": {"every_epochs": 1, "keep": 5}}
    program = samples.program(tmp_path, samples.wine(tmp_path / "data"), **wishes)
    folder = program / "work" / "checkpoints"
    first = Ranks(program, 1)
    assert first.wait() == [0], first.log()
    made = names(folder)
    assert len(made) == 3
    for time in (1, 2):
        again = Ranks(program, 1, arguments=("--resume", made[0]))
        assert again.wait() == [0], again.log()
        assert names(folder) == made
        aside = sorted(path for path in folder.glob("before-attempt-*"))
        assert [names(path) for path in aside] == [made[1:]] * time


def test_who_starts_anew_is_given_nothing_of_the_run_before(tmp_path: Path) -> None:
    wishes = {"training": {"epochs": 4, "patience": 0}, "checkpoints": {"every_epochs": 1, "keep": 5}}
    program = samples.program(tmp_path, samples.wine(tmp_path / "data"), **wishes)
    folder = program / "work" / "checkpoints"
    first = Ranks(program, 1)
    assert first.wait() == [0], first.log()
    made = names(folder)
    again = Ranks(program, 1, arguments=("--fresh", "--epochs", "1"))
    assert again.wait() == [0], again.log()
    assert names(folder) == made[:1]
    assert names(folder / "before-attempt-0") == made


def test_a_model_that_was_changed_begins_anew_and_its_results_are_its_own(tmp_path: Path) -> None:
    wishes = {"training": {"epochs": 2, "patience": 0}, "model": {"family": "mlp", "size": "small"}}
    program = samples.program(tmp_path, samples.wine(tmp_path / "data"), **wishes)
    assert samples.run(program, "train.py").returncode == 0
    samples.change_spec(program, model={"params": {"layers": 1, "width": 32, "dropout": 0.0}})
    refused = samples.run(program, "train.py")
    assert refused.returncode != 0
    assert "does not fit the model" in refused.stderr and "--fresh" in refused.stderr.splitlines()[-1]
    samples.change_spec(program, training={"learning_rate": 1e-9})  # worse than what was put aside
    anew = samples.run(program, "train.py", "--fresh")
    assert anew.returncode == 0, anew.stderr
    weights = load_file(program / "work" / "results" / "model.safetensors")
    assert weights["head.weight"].shape == (3, 32)
    results = json.loads((program / "work" / "results" / "results.json").read_text())
    assert results["timing"]["epochs"] == 2 and results["metric"]["value_test"] < 0.9


@pytest.mark.parametrize("size", [1, 2])
def test_who_goes_on_with_other_rows_held_out_is_told_on_the_page_and_in_the_results(size: int, tmp_path: Path) -> None:
    program = samples.program(tmp_path, samples.wine(tmp_path / "data"), training={"epochs": 4, "patience": 0})

    def resumed(epochs: int) -> tuple[int, dict]:
        """(notes so far that rows are shared out otherwise, results)."""
        ranks = Ranks(program, size, arguments=("--epochs", str(epochs)))
        assert ranks.wait() == [0] * size, ranks.log()
        notes = [event["data"].get("message", "") for event in events(program / "work")]
        results = json.loads((program / "work" / "results" / "results.json").read_text())
        return sum("shared out otherwise" in note for note in notes), results

    (first, results), (again, same) = resumed(1), resumed(2)
    assert first == again == 0 and "otherwise" not in same["split"]
    assert results["test_rows"] == same["test_rows"]
    samples.change_spec(program, training={"seed": 5})  # as another release of the runtime might
    told, others = resumed(3)
    assert told == 1 and "shared out otherwise" in others["split"] and others["test_rows"] != same["test_rows"]
    assert resumed(4)[0] == 2, "what was trained on stays so"
