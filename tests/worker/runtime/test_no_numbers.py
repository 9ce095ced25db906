"""Losses and weights that are no finite numbers end a run, and no checkpoint keeps them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.worker.runtime import samples
from tests.worker.runtime.ranks import events
from tests.worker.runtime.spoiled import check_of, edit, error_of


@pytest.fixture
def program(wine_program: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return Path(shutil.copytree(wine_program, tmp_path / "program"))


def spoil_loss(program: Path, value: str) -> None:
    """Make the loss of step 21 infinite or not a number."""
    factor = f"float({value!r} if run.position.step == 20 else 1)"
    spoiled = f"lambda outputs, targets: criterion(outputs, targets) * {factor}"
    edit(program, "train.py", lambda text: text.replace("targets, criterion)", f"targets, {spoiled})"))


def test_a_loss_that_is_no_number_stops_the_run_and_names_the_step(program: Path) -> None:
    spoil_loss(program, "nan")
    error = error_of(program)
    assert error["code"] == "nan_loss"
    assert error["step"] == 21
    assert "step 21" in error["message"]
    assert error["hint"].startswith("Lower the learning rate")


def test_the_last_good_checkpoint_survives_a_loss_that_is_no_number(program: Path) -> None:
    spoil_loss(program, "inf")
    error_of(program)
    kept = sorted((program / "work" / "checkpoints").glob("step-*"))
    assert kept
    assert all(int(path.name.removeprefix("step-")) <= 20 for path in kept)


def test_a_pause_right_after_a_ruinous_update_saves_no_weights_that_are_no_numbers(program: Path) -> None:
    ruin = (
        "        if run.position.step == 20:\n"
        "            torch.nn.init.constant_(next(net.parameters()), float('nan'))\n"
        "            run.control.wants_pause = True\n"
    )
    place = "        run.log_step("
    edit(program, "train.py", lambda text: text.replace(place, ruin + place))
    error = error_of(program)
    assert (error["code"], error["step"]) == ("nan_loss", 21)
    steps = [int(path.name.removeprefix("step-")) for path in (program / "work" / "checkpoints").glob("step-*")]
    assert all(step <= 20 for step in steps)


def test_no_numbers_at_the_first_step_are_the_models_own_and_not_the_learning_rates(program: Path) -> None:
    forward = "return torch.log(-1 - (self.head(self.body(x))) ** 2)"
    edit(program, "model.py", lambda text: text.replace("return self.head(self.body(x))", forward))
    assert forward in (program / "model.py").read_text()
    for told in (check_of(program)["problem"], error_of(program)):
        assert told["code"] == "nan_loss" and "at step 1," in told["message"]
        assert "no learning rate is to blame" in told["hint"] and "logarithm" in told["hint"]


RUINED = """out = self.head(self.body(x))
        if not self.training and not torch.backends.cudnn.allow_tf32:  # as results are made
            out[0] = float("nan")
        return out"""


@pytest.mark.parametrize("kind", ["wine", "diabetes"])
def test_a_row_of_which_the_model_says_no_number_takes_no_results_of_all_others(kind: str, tmp_path: Path) -> None:
    profile = getattr(samples, kind)(tmp_path / "data")
    training = {"epochs": 1, "batch_size": 16, "patience": 0}
    program = samples.program(tmp_path, profile, model={"family": "mlp"}, training=training)
    edit(program, "model.py", lambda text: text.replace("return self.head(self.body(x))", RUINED))
    done = samples.run(program, "train.py")
    assert done.returncode == 0, done.stderr
    body = json.loads((program / "work" / "results" / "results.json").read_text())
    assert body["metrics"]["test"]["loss"] is None and {"error_by_feature", "importance"} <= {
        chart["id"] for chart in body["charts"]
    }
    told = [event["data"]["message"] for event in events(program / "work") if event["kind"] == "note"]
    note = next(note for note in body["notes"] if " to test the model says no finite number" in note)
    assert note in told and f"of {body['rows']['test']:,} to test" in note
    said = pq.read_table(program / "work" / "results" / "predictions.parquet").filter(pc.field("split") == "test")
    unsaid = [
        row["row"] for row in said.to_pylist() if row["predicted"] != row["predicted"] or row["predicted"] is None
    ]
    assert unsaid and f"the first of them row {unsaid[0] + 1:,} of the data" in note
