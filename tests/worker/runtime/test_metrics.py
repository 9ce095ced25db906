"""The area under the ROC curve as a metric, beside scikit-learn's; and metrics of a person's own."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from textwrap import indent
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from tests.worker.runtime import samples
from worker.intervals import share_interval
from worker.runtime.checkpoint import CheckpointStore
from worker.runtime.data import Dataset, Part
from worker.runtime.failures import ProgramFailure
from worker.runtime.metrics import (
    classification_metrics,
    judged_by,
    mean_roc_area,
    metrics_of,
    plain_numbers,
    regression_metrics,
)
from worker.runtime.outcome.intervals import part_intervals
from worker.runtime.outcome.results import is_said


def rows(classes: int, count: int = 300) -> tuple[Tensor, Tensor]:
    """Logits that know a little of their targets, some of them alike."""
    generator = torch.Generator().manual_seed(classes)
    targets = torch.randint(0, classes, (count,), generator=generator)
    logits = torch.randn(count, classes, generator=generator).round(decimals=1)
    logits[torch.arange(count), targets] += 0.7
    return logits, targets


def area(logits: Tensor, targets: Tensor) -> float:
    """The metric of these rows."""
    return classification_metrics(logits, targets)["roc_auc"]


def test_of_two_classes_it_is_that_of_scikit_learn() -> None:
    logits, targets = rows(2)
    assert area(logits, targets) == pytest.approx(roc_auc_score(targets, logits.double().softmax(1)[:, 1]))
    assert 0.6 < area(logits, targets) < 0.9


def test_of_more_it_is_the_mean_of_each_against_all_others() -> None:
    logits, targets = rows(5)
    expected = roc_auc_score(targets, logits.double().softmax(1), multi_class="ovr", average="macro")
    assert area(logits, targets) == pytest.approx(expected)


def test_a_class_that_no_row_is_of_does_not_count() -> None:
    logits, targets = rows(5)
    there = targets != 3
    found, shares = area(logits[there], targets[there]), logits[there].double().softmax(1)
    each = [roc_auc_score(targets[there] == place, shares[:, place]) for place in (0, 1, 2, 4)]
    assert found == pytest.approx(sum(each) / 4)


def test_where_nothing_can_be_told_apart_it_is_that_of_guessing() -> None:
    logits, _ = rows(3)
    assert area(logits, torch.ones(len(logits), dtype=torch.int64)) == 0.5
    assert area(torch.zeros(6, 2), torch.tensor([0, 1, 0, 1, 0, 1])) == 0.5


def test_it_is_no_number_where_an_output_is_none() -> None:
    logits, targets = rows(3)
    logits[4, 1] = math.nan
    assert math.isnan(area(logits, targets))


def test_a_run_chooses_its_best_weights_by_it_and_tells_what_its_charts_tell(tmp_path: Path) -> None:
    data = tmp_path / "data"
    asked = {"objective": {"metric": "roc_auc"}, "training": {"epochs": 4}, "model": {"family": "mlp"}}
    folder = samples.program(tmp_path / "program", samples.wine(data), **asked)
    done = samples.run(folder, "train.py", "--data", str(data), DLH_THREADS="1")
    assert done.returncode == 0, done.stderr[-2000:]
    body = json.loads((folder / "work" / "results" / "results.json").read_text())
    (chart,) = [chart for chart in body["charts"] if chart["id"] == "average_precision"]
    areas = [row[chart["columns"].index("roc_auc")] for row in chart["rows"]]
    assert len(areas) == 3 and body["metrics"]["test"]["roc_auc"] == pytest.approx(sum(areas) / 3)
    assert body["metric"]["name"] == "roc_auc"
    assert body["metric"]["value_val"] == body["metrics"]["val"]["roc_auc"] > 0.8


EVALUATED = "run.log_epoch(run.evaluate(ema.net if ema else net, dataset))"


def guided(tmp_path: Path, *, by: str = "", loss: str = "") -> list[dict[str, Any]]:
    """Events of a run whose train.py is changed as the guide says, with another line of one's own, or another loss."""
    data = tmp_path / "data"
    folder = samples.program(tmp_path / "program", samples.wine(data), training={"epochs": 2}, model={"family": "mlp"})
    text, guide = (folder / "train.py").read_text(), (Path(__file__).parents[3] / "docs/user-guide.md").read_text()
    assert f"    {EVALUATED}" in text and EVALUATED in guide
    (own,) = [block for block in re.findall(r"```python\n(.*?)```", guide, re.DOTALL) if "run.log_epoch" in block]
    own = own.replace('metrics["val"]["cost"] = float(metrics["val"]["loss"]) * 3  # yours', by) if by else own
    text = text.replace(f"    {EVALUATED}", indent(own, "    "))
    (begins,) = re.findall(r' {4}"""The loss of some rows, .*"""\n', text)
    (folder / "train.py").write_text(text.replace(begins, f"{begins}    return {loss}\n") if loss else text)
    done = samples.run(folder, "train.py", "--data", str(data), DLH_THREADS="1")
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in (folder / "work" / "events" / "rank-0.jsonl").read_text().splitlines()]


def values_of(events: list[dict[str, Any]], name: str) -> list[float]:
    told = (event["data"]["values"] for event in events if event["kind"] == "metric")
    return [values[name] for values in told if name in values]


def test_a_metric_of_ones_own_is_told_beside_the_others_as_the_guide_says(tmp_path: Path) -> None:
    events = guided(tmp_path)
    costs, losses = values_of(events, "val/cost"), values_of(events, "val/loss")
    assert len(costs) == 2 and costs == pytest.approx([3 * loss for loss in losses])


def test_a_figure_of_ones_own_under_the_name_of_the_metric_chooses_the_best_epoch(tmp_path: Path) -> None:
    events = guided(tmp_path, by='metrics["val"]["accuracy"] = 1.0 / run.position.step')
    told = values_of(events, "val/accuracy")
    saved = [event["data"] for event in events if event["kind"] == "checkpoint"]
    (best,) = [one for one in saved if one["metric"] == pytest.approx(max(told))]
    assert best["step"] == min(one["step"] for one in saved)
    body = json.loads((tmp_path / "program" / "work" / "results" / "results.json").read_text())
    assert body["metric"]["value_val"] == body["metrics"]["val"]["accuracy"] != pytest.approx(max(told))


def test_a_loss_of_ones_own_is_what_is_trained_by(tmp_path: Path) -> None:
    events = guided(tmp_path, loss="F.cross_entropy(outputs, targets) * 0 + outputs.sum() * 0 + 7.0")
    assert values_of(events, "train/loss")[0] == pytest.approx(7.0) and values_of(events, "val/loss")[0] < 7.0


def test_what_is_learned_as_a_difference_is_judged_by_the_sum() -> None:
    values, base = torch.tensor([1.0, 5.0, 9.0], dtype=torch.float64), torch.tensor([0.0, 4.0, 10.0]).double()
    targets = ((values - base - 0.5) / 2).float()
    part = Part((torch.zeros(3, 1),), targets, torch.arange(3), values, base)
    dataset = Dataset(part, part, part, preprocess={"target_mean": 0.5, "target_std": 2.0})
    found = metrics_of(dataset, part, torch.zeros(3, 1))
    assert found["mae"] == pytest.approx((0.5 + 0.5 + 1.5) / 3)
    spread = ((values - values.mean()) ** 2).sum()
    assert found["r2"] == pytest.approx(1 - float((0.5**2 + 0.5**2 + 1.5**2) / spread))
    assert metrics_of(dataset, part.take(slice(0, 2)), torch.zeros(2, 1))["mae"] == pytest.approx(0.5)


@pytest.mark.parametrize("value", [0.1, 3.3, -7.77, 0.0])
@pytest.mark.parametrize("count", [3, 4, 7, 10])
def test_r2_of_targets_that_are_all_the_same_is_no_giant_and_tells_a_near_model_from_a_far_one(
    value: float, count: int
) -> None:
    targets = torch.full((count,), value, dtype=torch.float64)
    far, near, right = (regression_metrics((targets + off)[:, None], targets, 2.0)["r2"] for off in (0.5, 0.25, 0.0))
    assert (far, near, right) == pytest.approx((-0.25, -0.0625, 0.0))


@pytest.mark.parametrize(
    "targets",
    [
        torch.tensor([0.3, 0.1 + 0.2, 0.3, 0.3], dtype=torch.float64),
        torch.tensor([1e200, 1e200, 1e200 * (1 + 2**-52)], dtype=torch.float64),
        torch.tensor([1.1, 1.1, 1.1 + 2**-23, 1.1]),
    ],
    ids=["double", "large", "single"],
)
def test_r2_of_targets_that_are_the_same_but_for_a_rounding_is_no_giant(targets: Tensor) -> None:
    off = 0.5 if float(targets[0]) < 2 else 0.0
    assert regression_metrics((targets + off)[:, None], targets, 2.0)["r2"] == pytest.approx(-(off**2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_r2_of_targets_that_differ_little_is_that_of_their_spread(dtype: torch.dtype) -> None:
    targets = 1 + torch.tensor([0.0, 8.0, 16.0], dtype=dtype) * torch.finfo(dtype).eps
    assert regression_metrics(targets[:, None], targets, 2.0)["r2"] == 1.0
    assert regression_metrics(targets[[1, 1, 1]][:, None], targets, 2.0)["r2"] == pytest.approx(0.0, abs=0.1)


def test_r2_of_a_forecast_of_values_that_stay_the_same_is_no_giant_either() -> None:
    values, base = torch.full((5,), 0.3, dtype=torch.float64), torch.tensor([0.1, 0.7, 1.1, 12.3, 4.7]).double()
    targets = ((values - base - 0.05) / 0.7).float()
    part = Part((torch.zeros(5, 1),), targets, torch.arange(5), values, base)
    dataset = Dataset(part, part, part, preprocess={"target_mean": 0.05, "target_std": 0.7})
    found = metrics_of(dataset, part, targets[:, None] + 0.5)
    assert found["r2"] == pytest.approx(-0.25, rel=1e-4) and found["mae"] == pytest.approx(0.35, rel=1e-4)


def test_a_metric_may_be_a_tensor_of_one_number_and_what_is_none_is_named() -> None:
    assert plain_numbers({"val": {"cost": torch.tensor([2.5]), "n": np.float32(3)}}) == {"val": {"cost": 2.5, "n": 3.0}}
    for wrong, said in (
        ({"val": {"cost": torch.ones(2)}}, r"metrics\['val'\]\['cost'\] is a Tensor of shape \[2\], not one number"),
        ({"val": {"cost": "high"}}, r"metrics\['val'\]\['cost'\] is a str, not one number"),
        ({"cost": 3.0}, r"metrics\['cost'\] is a float, not a dict of numbers by name"),
    ):
        with pytest.raises(ProgramFailure, match=said) as caught:
            plain_numbers(wrong)  # type: ignore[arg-type]
        assert 'metrics["val"]' in caught.value.hint


def test_figures_of_very_many_classes_take_no_memory_for_each_two_of_them() -> None:
    classes, targets = 60_000, torch.tensor([5, 59_999, 5, 7])
    logits = torch.zeros(4, classes)
    logits[torch.arange(4), torch.tensor([5, 59_999, 7, 7])] = 3.0
    found = classification_metrics(logits, targets)  # a table of all pairs has 29 GB
    assert (found["accuracy"], found["balanced_accuracy"]) == (0.75, pytest.approx((1 / 2 + 1 + 1) / 3))
    assert found["macro_f1"] == pytest.approx((2 / 3 + 1 + 2 / 3) / 3)


def test_a_row_with_a_logit_that_is_no_number_is_of_no_class() -> None:
    logits = torch.tensor([[2.0, 0.0], [torch.nan, 0.0], [0.0, 2.0]])
    targets = torch.tensor([0, 0, 1])
    found = classification_metrics(logits, targets)
    assert found["accuracy"] == pytest.approx(2 / 3) and found["balanced_accuracy"] == pytest.approx(3 / 4)
    assert found["macro_f1"] == pytest.approx((2 / 3 + 1) / 2) and math.isnan(found["loss"])
    low, high = part_intervals(logits, targets, 1.0)["accuracy"]
    assert (low, high) == share_interval(2, 3)[1:]


@pytest.mark.parametrize("nothing", [[0.0, torch.inf], [-torch.inf, -torch.inf], [torch.nan, 0.0]])
def test_a_row_of_which_no_probabilities_are_finite_counts_as_wrong_wherever_rows_are_counted(
    nothing: list[float],
) -> None:
    logits, targets = torch.tensor([[2.0, -torch.inf], nothing, nothing]), torch.tensor([0, 1, 0])
    part = Part(inputs=(logits,), targets=targets, rows=torch.arange(3))
    assert (
        is_said(part, logits).tolist() == logits.double().softmax(1).isfinite().all(1).tolist() == [True, False, False]
    )
    assert classification_metrics(logits, targets)["accuracy"] == pytest.approx(1 / 3)
    assert tuple(part_intervals(logits, targets, 1.0)["accuracy"]) == share_interval(1, 3)[1:]
    assert math.isnan(mean_roc_area(logits, targets))
    assert mean_roc_area(logits[[0, 0]], torch.tensor([0, 1])) == 0.5


OWN_EPOCHS = """\
    losses = [0.9, 0.1, 0.5, 0.4, 0.3]
    run.log_epoch({"val": {"loss": losses[run.position.epoch]}})"""
TOLD = "    run.log_epoch(run.evaluate(ema.net if ema else net, dataset))"


def own_program(tmp_path: Path, epochs: int, then: str = "") -> Path:
    """A program that tells the loss of its epochs alone, and keeps all of them."""
    training, kept = {"epochs": epochs, "patience": 0}, {"every_epochs": 1, "keep": 5}
    folder = samples.program(
        tmp_path / "program", samples.wine(tmp_path / "data"), training=training, model={"family": "mlp"},
        checkpoints=kept,
    )  # fmt: skip
    text = (folder / "train.py").read_text()
    assert TOLD in text
    (folder / "train.py").write_text(text.replace(TOLD, then + OWN_EPOCHS))
    return folder


def told_of(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = (folder / "work" / "events" / "rank-0.jsonl").read_text().splitlines()
    return [event["data"] for event in map(json.loads, lines) if event["kind"] == kind]


def test_epochs_of_a_program_that_tells_their_loss_alone_are_judged_by_it_and_less_is_better(tmp_path: Path) -> None:
    folder = own_program(tmp_path, 3)
    done = samples.run(folder, "train.py", "--data", str(tmp_path / "data"), DLH_THREADS="1")
    assert done.returncode == 0, done.stderr[-2000:]
    saved = told_of(folder, "checkpoint")
    assert [(one["metric"], one["best"]) for one in saved] == [(-0.9, True), (-0.1, True), (-0.5, False)]
    notes = [note["message"] for note in told_of(folder, "note")]
    assert sum("judged by their loss" in note and "accuracy" in note for note in notes) == 1


def test_such_a_run_of_an_earlier_runtime_takes_none_of_its_epochs_for_the_best(tmp_path: Path) -> None:
    goes_on = tmp_path / "goes-on"
    stops = f"if run.position.epoch == 3 and not pathlib.Path({str(goes_on)!r}).exists():"
    folder = own_program(tmp_path, 5, f"    {stops}\n        run.checkpointer.settle()\n        os._exit(3)\n")
    program = folder / "train.py"
    program.write_text(program.read_text().replace("\nimport ", "\nimport os\nimport pathlib\nimport ", 1))
    assert samples.run(folder, "train.py", "--data", str(tmp_path / "data"), DLH_THREADS="1").returncode == 3
    store = CheckpointStore(folder / "work" / "checkpoints", 5, larger_is_better=True)
    for one in store.saved():  # as that runtime told them: losses as they are, the largest the best
        state = store.load(one.name)
        del state["position"]["by_loss"]
        state["position"]["best"] = 0.9
        store.save(state, step=one.step, epoch=one.epoch, metric=-(one.metric or 0.0))
    goes_on.touch()
    done = samples.run(folder, "train.py", "--data", str(tmp_path / "data"), DLH_THREADS="1")
    assert done.returncode == 0, done.stderr[-2000:]
    saved = told_of(folder, "checkpoint")[-2:]
    assert [(one["metric"], one["best"]) for one in saved] == [(-0.4, True), (-0.3, True)]
    best = store.best()
    assert best is not None and best.metric == -0.3


def test_epochs_without_the_metric_of_the_spec_and_without_a_loss_are_refused() -> None:
    assert judged_by({"loss": 0.3, "accuracy": 0.9}, "accuracy") == 0.9
    assert judged_by({"loss": 0.3}, "rmse") == 0.3
    with pytest.raises(ProgramFailure, match="neither accuracy nor loss"):
        judged_by({"cost": 1.0}, "accuracy")
