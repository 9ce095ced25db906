"""Resolving: no `auto` is left, each guess has a reason."""

from __future__ import annotations

import json

import pytest

from codegen import spec_yaml
from codegen.profile.types import ColumnType
from codegen.reading import table_shape
from codegen.resolve import resolve
from codegen.types import SpecError
from tests.codegen.model_profiles import ONE_GPU, TWO_CORES, column, numbers, pictures, table
from tests.codegen.resolving import problems, resolved

CASES = {"table": table(), "numbers": numbers(), "pictures": pictures()}


def autos(value, field: str = "") -> list[str]:
    if isinstance(value, dict):
        return [name for key, item in value.items() for name in autos(item, f"{field}.{key}".strip("."))]
    return [field] if value == "auto" else []


@pytest.mark.parametrize("profile", CASES.values(), ids=CASES)
@pytest.mark.parametrize("hardware", [TWO_CORES, ONE_GPU], ids=["cpu", "gpu"])
def test_nothing_stays_auto_but_dataset_budget_and_what_the_place_decides(profile, hardware):
    left = ["data.dataset", "budget.deadline", "budget.time_s", "resources.memory_gib", "training.precision"]
    assert autos(resolved("", profile, hardware)) == left


@pytest.mark.parametrize("profile", CASES.values(), ids=CASES)
def test_every_guess_has_a_reason_and_the_spec_is_json(profile):
    answer = resolve(spec_yaml.load(""), profile, TWO_CORES)
    assert all(guess.reason for guess in answer.guesses)
    fields = {guess.field for guess in answer.guesses}
    assert {"model.family", "model.size", "training.epochs", "resources.count", "mode"} <= fields
    assert json.loads(json.dumps(answer.spec)) == answer.spec


def test_memory_that_is_left_open_is_told_as_the_share_of_the_node_that_applies():
    answer = resolve(spec_yaml.load(""), table(), TWO_CORES)
    (told,) = [guess for guess in answer.guesses if guess.field == "resources.memory_gib"]
    assert told.value == answer.spec["resources"]["memory_gib"] == "auto"
    assert "share of its node's memory" in told.reason
    assert resolved("resources: {memory_gib: 3}", table())["resources"]["memory_gib"] == 3


def test_wishes_are_kept_and_not_listed_as_guesses():
    text = "training: {epochs: 7, learning_rate: 0.5, seed: 9}\nmodel: {family: mlp, params: {width: 33}}"
    answer = resolve(spec_yaml.load(text), table(), TWO_CORES)
    assert answer.spec["training"]["epochs"] == 7
    assert answer.spec["training"]["seed"] == 9
    assert answer.spec["model"]["params"]["width"] == 33
    fields = {guess.field for guess in answer.guesses}
    assert not fields & {"training.epochs", "training.learning_rate", "model.family", "model.params.width"}


def test_a_table_has_its_inputs_by_kind_and_its_features_in_order():
    shape = resolved("", table())["shape"]
    assert shape["numeric"] == ["age", "hours"]
    assert shape["indicators"] == ["age"]
    assert shape["categorical"] == ["city"]
    assert shape["features"][:3] == ["age", "age: missing", "hours"]
    assert len(shape["features"]) == 3 + 5 + 2 + shape["topics"] + shape["scores"] == 36
    assert shape["cardinalities"] == [13]
    assert (shape["target"], shape["outputs"], shape["classes"]) == ("income", 2, ["high", "low"])


def test_a_category_that_is_missing_in_some_rows_has_a_number_for_that():
    columns = [column(f"c{missing}", ColumnType.CATEGORY, unique=12, missing=missing) for missing in (0, 1, 2)]
    assert table_shape(columns, 100)["cardinalities"] == [13, 13, 14]


def test_identifiers_and_constants_are_left_out_with_the_reason():
    answer = resolve(spec_yaml.load(""), table(), TWO_CORES)
    left_out = {guess.value for guess in answer.guesses if guess.reason.startswith("left out")}
    assert left_out == {"without id", "without unit"}


def test_a_number_as_target_becomes_regression_with_one_output():
    spec = resolved("", numbers())
    assert spec["task"] == "tabular_regression"
    assert spec["objective"]["metric"] == "r2"
    assert spec["shape"]["outputs"] == 1
    assert spec["data"]["split"]["stratify"] is False


def test_a_class_of_nearly_all_rows_is_not_said_to_hold_all_and_a_rare_one_not_to_have_none():
    frauds = table(200_000, classes=(("no", 199_996), ("yes", 4)))
    told = {guess.field: guess for guess in resolve(spec_yaml.load(""), frauds, TWO_CORES).guesses}
    assert told["objective.metric"].value == "macro_f1"
    assert told["objective.metric"].reason.startswith("one class holds 99.998 % of the rows")
    assert told["training.class_weights"].reason.startswith("the rarest class has 0.002 % of the rows")


def test_pictures_keep_their_size_and_photos_are_mirrored():
    spec = resolved("", pictures())
    assert (spec["shape"]["channels"], spec["shape"]["height"], spec["shape"]["width"]) == (3, 32, 32)
    assert spec["model"]["params"]["image_size"] == 32
    assert spec["training"]["augment"] == "shift_flip"


@pytest.mark.parametrize("profile", [pictures(channels=1), pictures(classes=("0", "1", "2"))], ids=["grey", "digits"])
def test_digits_and_grey_pictures_are_not_mirrored(profile):
    assert resolved("", profile)["training"]["augment"] == "shift"


def test_the_batch_size_may_stand_among_the_knobs_of_the_cnn():
    spec = resolved("model: {family: cnn, params: {batch_size: 17, filters: 8}}", pictures())
    assert spec["training"]["batch_size"] == 17
    assert "batch_size" not in spec["model"]["params"]
    text = "model: {family: cnn, params: {batch_size: 17}}\ntraining: {batch_size: 18}"
    assert "model.params.batch_size" in problems(text, pictures())


def test_weights_are_averaged_over_the_steps_that_the_run_will_have():
    spec = spec_yaml.load("training: {epochs: 2, batch_size: 10}")
    (guess,) = [guess for guess in resolve(spec, table(5000), TWO_CORES).guesses if guess.field == "training.ema"]
    assert guess.value == round(1 - 10 / 700, 4)
    assert guess.reason == "averages the weights of about the last 70 of 700 steps"


@pytest.mark.parametrize(("rows", "epochs", "steps"), [(420, 100, 9), (5000, 18, 109), (2_000_000, 12, 1914)])
def test_the_reason_for_the_epochs_counts_the_steps_that_the_run_will_have(rows, epochs, steps):
    told = {guess.field: guess for guess in resolve(spec_yaml.load(""), table(rows), TWO_CORES).guesses}
    assert told["training.epochs"].value == epochs
    total = f"{epochs * steps:,} steps"
    assert told["training.epochs"].reason.startswith(f"about {total} in all at {steps:,} per epoch, in the suggested")
    assert told["training.ema"].reason.endswith(f"of {total}")
    assert ("so few rows" in told["training.epochs"].reason) is (epochs == 100)


def test_a_share_that_would_be_enough_of_many_rows_is_named():
    message = problems("data: {split: {validation: 0, test: 0.1}}", table(20_000))["data.split.validation"]
    assert message.endswith("use at least 7.5e-05")


@pytest.mark.parametrize(("rows", "validation", "test"), [(400, 0.1, 0.2), (5000, 0.15, 0.15)])
def test_each_share_of_the_split_that_is_left_open_is_told_by_its_field(rows, validation, test):
    answer = resolve(spec_yaml.load(""), table(rows), TWO_CORES)
    told = {guess.field: guess.value for guess in answer.guesses if guess.field.startswith("data.split.")}
    assert (told["data.split.validation"], told["data.split.test"]) == (validation, test)
    assert (answer.spec["data"]["split"]["validation"], answer.spec["data"]["split"]["test"]) == (validation, test)


def test_a_given_split_is_kept_and_counted():
    profile = pictures(given_split=(("train", 5000), ("test", 1000)))
    answer = resolve(spec_yaml.load(""), profile, TWO_CORES)
    assert any(guess.value == "given" and "5,000" in guess.reason for guess in answer.guesses)


@pytest.mark.parametrize(
    ("metric", "weights"),
    [("auto", "none"), ("accuracy", "none"), ("log_loss", "none"), ("balanced_accuracy", "balanced")],
)
def test_classes_are_weighted_only_where_the_metric_counts_them_alike(metric, weights):
    answer = resolve(spec_yaml.load(f"objective: {{metric: {metric}}}"), table(), TWO_CORES)
    (guess,) = [guess for guess in answer.guesses if guess.field == "training.class_weights"]
    assert answer.spec["training"]["class_weights"] == guess.value == weights
    assert "class" in guess.reason


@pytest.mark.parametrize(
    ("wish", "metric"), [("balanced", "balanced_accuracy"), ("none", "accuracy"), ("auto", "accuracy")]
)
def test_the_best_checkpoint_is_chosen_by_what_the_weights_are_for(wish, metric):
    assert resolve(spec_yaml.load(f"training: {{class_weights: {wish}}}"), table(), TWO_CORES).spec["objective"] == {
        "metric": metric
    }


def test_a_rare_class_is_told_where_weights_are_left_out():
    rare = table(classes=(("low", 4900), ("high", 100)))
    answer = resolve(spec_yaml.load("objective: {metric: accuracy}"), rare, TWO_CORES)
    (guess,) = [guess for guess in answer.guesses if guess.field == "training.class_weights"]
    assert guess.value == "none" and "2.00 % of the rows: `balanced` finds more" in guess.reason


def test_a_class_with_one_row_is_told():
    answer = resolve(spec_yaml.load(""), table(100, classes=(("a", 60), ("b", 39), ("c", 1))), TWO_CORES)
    assert any("'c'" in guess.reason for guess in answer.guesses)


def test_weights_to_start_from_are_named_in_the_program_and_how_they_match_has_a_reason():
    assert "weights" not in resolve(spec_yaml.load(""), table(), TWO_CORES).spec["model"]
    found = resolve(spec_yaml.load("model: {weights: mine}"), table(), TWO_CORES)
    assert (found.spec["model"]["weights"], found.spec["model"]["weights_match"]) == ("mine", "fitting")
    assert "head" in next(one.reason for one in found.guesses if one.field == "model.weights_match")
    strict = resolve(spec_yaml.load("model: {weights: mine, weights_match: all}"), table(), TWO_CORES)
    assert strict.spec["model"]["weights_match"] == "all"


def test_how_weights_match_is_refused_where_none_are_named():
    with pytest.raises(SpecError, match="name one in"):
        spec_yaml.load("model: {weights_match: all}")
