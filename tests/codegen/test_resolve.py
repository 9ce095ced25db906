"""Resolving: no `auto` is left, each guess has a reason, each mistake names its field."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from codegen import spec_yaml
from codegen.catalog.base import Cost, Facts
from codegen.catalog.training import memory_bytes, micro_batches
from codegen.modes import pick_mode
from codegen.profile.types import ColumnType
from codegen.resolve import resolve
from codegen.spec import Task, Training
from codegen.types import SpecError
from tests.codegen.model_profiles import ONE_GPU, TWO_CORES, column, numbers, pictures, table

CASES = {"table": table(), "numbers": numbers(), "pictures": pictures()}


def resolved(text: str, profile, hardware=TWO_CORES) -> dict:
    return resolve(spec_yaml.load(text), profile, hardware).spec


def problems(text: str, profile, hardware=TWO_CORES) -> dict[str, str]:
    with pytest.raises(SpecError) as caught:
        resolve(spec_yaml.load(text), profile, hardware)
    return dict(caught.value.problems)


def autos(value, field: str = "") -> list[str]:
    if isinstance(value, dict):
        return [name for key, item in value.items() for name in autos(item, f"{field}.{key}".strip("."))]
    return [field] if value == "auto" else []


@pytest.mark.parametrize("profile", CASES.values(), ids=CASES)
@pytest.mark.parametrize("hardware", [TWO_CORES, ONE_GPU], ids=["cpu", "gpu"])
def test_nothing_stays_auto_but_dataset_budget_and_what_the_device_decides(profile, hardware):
    left = ["data.dataset", "budget.deadline", "budget.time_s", "training.precision"]
    assert autos(resolved("", profile, hardware)) == left


@pytest.mark.parametrize("profile", CASES.values(), ids=CASES)
def test_every_guess_has_a_reason_and_the_spec_is_json(profile):
    answer = resolve(spec_yaml.load(""), profile, TWO_CORES)
    assert all(guess.reason for guess in answer.guesses)
    fields = {guess.field for guess in answer.guesses}
    assert {"model.family", "model.size", "training.epochs", "resources.count", "mode"} <= fields
    assert json.loads(json.dumps(answer.spec)) == answer.spec


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
    assert len(shape["features"]) == 3 + 5 + 2
    assert shape["cardinalities"] == [13]
    assert (shape["target"], shape["outputs"], shape["classes"]) == ("income", 2, ["low", "high"])


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


def test_pictures_keep_their_size_and_photos_are_mirrored():
    spec = resolved("", pictures())
    assert (spec["shape"]["channels"], spec["shape"]["height"], spec["shape"]["width"]) == (3, 32, 32)
    assert spec["model"]["params"]["image_size"] == 32
    assert spec["training"]["augment"] == "shift_flip"


@pytest.mark.parametrize("profile", [pictures(channels=1), pictures(classes=("0", "1", "2"))], ids=["grey", "digits"])
def test_digits_and_grey_pictures_are_not_mirrored(profile):
    assert resolved("", profile)["training"]["augment"] == "shift"


def test_several_devices_train_in_step_one_device_alone():
    assert resolved("resources: {count: 2}", table())["mode"] == "sync"
    assert resolved("resources: {count: 1}", table())["mode"] == "single"


@pytest.mark.parametrize("mode", ["replicated", "async", "sync"])
def test_a_named_mode_for_several_devices_takes_several(mode):
    spec = resolved(f"mode: {mode}", table())
    assert (spec["mode"], spec["resources"]["count"]) == (mode, 2)
    assert spec["training"].get("staleness") == (8 if mode == "async" else None)


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ("mode: sync\ntraining: {backup: 1}", "training.backup"),
        ("mode: auto\nresources: {count: 2}\ntraining: {staleness: 3}", "training.staleness"),
        ("mode: async\ntraining: {compression: fp16}", "training.compression"),
        *(
            (f"mode: {mode}\ntraining: {{batch_norm: synced}}", "training.batch_norm")
            for mode in ("replicated", "async", "pipeline")
        ),
        ("mode: pipeline\ntraining: {accumulate: 2, compression: bf16}", "training.accumulate"),
    ],
)
def test_a_wish_that_the_mode_would_quietly_drop_is_refused_by_field(wish, field):
    assert "auto" in problems(wish, table())[field]


@pytest.mark.parametrize(
    "wish",
    [
        "mode: async\ntraining: {backup: 1, staleness: 3, accumulate: 2}",
        "mode: sync\ntraining: {compression: fp16, accumulate: 2}",
        "mode: sync\ntraining: {batch_norm: synced, compression: bf16}",
        "mode: sync\nresources: {least: 1}\ntraining: {batch_norm: synced}",
        "resources: {count: 1}\ntraining: {batch_norm: synced}",
        "mode: async\ntraining: {batch_norm: own}",
        "resources: {count: 1}\ntraining: {compression: fp16}",
        "mode: pipeline\ntraining: {accumulate: 1, compression: none}\npipeline: {micro_batches: 4}",
    ],
)
def test_wishes_that_the_mode_knows_pass(wish):
    assert resolved(wish, table())


def test_the_mode_that_is_picked_has_a_reason_and_never_changes_the_result_unasked():
    small = Facts(task=Task.IMAGE_CLASSIFICATION, rows=10, train_rows=8, outputs=2, device="cuda", memory_bytes=8 << 30)
    model = Cost(parameters=10**6, flops=1e6, activation_bytes=1e3)
    giant = replace(model, parameters=10**9)
    assert [pick_mode(count, small, model)[0] for count in (1, 2, 8)] == ["single", "sync", "sync"]
    mode, why = pick_mode(2, small, giant)
    assert mode == "pipeline"
    assert "18.6 GiB" in why and "8 GiB" in why
    assert pick_mode(2, replace(small, device="cpu"), giant)[0] == "sync"


def test_a_batch_that_does_not_fit_is_worked_off_in_parts():
    facts = Facts(task=Task.IMAGE_CLASSIFICATION, rows=5000, train_rows=4000, outputs=2, memory_bytes=1 << 30)
    cost = Cost(parameters=10**6, flops=1e6, activation_bytes=4 << 20)
    assert micro_batches(facts, cost, 64, 1)[0] == 1
    parts, why = micro_batches(facts, cost, 1024, 1)
    assert parts == 8
    assert "about 5 GiB at once" in why
    assert memory_bytes(facts, cost, 1024 // parts) <= 0.8 * facts.memory_bytes < memory_bytes(facts, cost, 1024)
    assert micro_batches(facts, cost, 1024, 200)[0] == 2  # a rank has five rows: parts of two at least


def test_a_gpu_is_taken_for_pictures_but_not_for_a_small_table():
    assert resolved("", pictures(), ONE_GPU)["resources"]["device"] == "cuda"
    assert resolved("", table(), ONE_GPU)["resources"]["device"] == "cpu"


@pytest.mark.parametrize(("data", "on_gpu"), [(pictures(), True), (table(), False)], ids=["a GPU", "a core"])
def test_a_seed_promises_no_more_of_a_gpu_than_it_keeps(data, on_gpu):
    guesses = resolve(spec_yaml.load(""), data, ONE_GPU).guesses
    (seed,) = [guess for guess in guesses if guess.field == "training.seed"]
    assert ("on a GPU" in seed.reason) == on_gpu


@pytest.mark.parametrize(
    ("mode", "said"),
    [("replicated", "without dropout"), ("async", "order of the updates"), ("sync", "a run repeatable")],
)
def test_a_seed_promises_no_more_of_a_mode_than_it_keeps(mode, said):
    guesses = resolve(spec_yaml.load(f"{{mode: {mode}, resources: {{device: cpu}}}}"), table(), TWO_CORES).guesses
    (seed,) = [guess for guess in guesses if guess.field == "training.seed"]
    assert said in seed.reason


def test_the_batch_size_may_stand_among_the_knobs_of_the_cnn():
    spec = resolved("model: {family: cnn, params: {batch_size: 17, filters: 8}}", pictures())
    assert spec["training"]["batch_size"] == 17
    assert "batch_size" not in spec["model"]["params"]
    text = "model: {family: cnn, params: {batch_size: 17}}\ntraining: {batch_size: 18}"
    assert "model.params.batch_size" in problems(text, pictures())


def test_an_own_model_gets_training_defaults_and_keeps_its_knobs():
    spec = resolved("model: {family: own, params: {depth: 3}}", table())
    assert spec["model"]["params"] == {"depth": 3}
    assert set(spec["training"]) == set(Training.model_fields) - {"staleness", "backup"}  # of mode async alone


def test_weights_are_averaged_over_the_steps_that_the_run_will_have():
    spec = spec_yaml.load("training: {epochs: 2, batch_size: 10}")
    (guess,) = [guess for guess in resolve(spec, table(5000), TWO_CORES).guesses if guess.field == "training.ema"]
    assert guess.value == round(1 - 10 / 700, 4)
    assert guess.reason == "averages the weights of about the last 70 of 700 steps"


def test_a_share_that_would_be_enough_of_many_rows_is_named():
    message = problems("data: {split: {validation: 0, test: 0.1}}", table(20_000))["data.split.validation"]
    assert message.endswith("use at least 7.5e-05")


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


MISTAKES = {
    "target unknown": ("data: {target: incme}", table(), "data.target", "income"),
    "feature unknown": ("data: {features: [age, towm]}", table(), "data.features", "'towm'"),
    "exclude unknown": ("data: {exclude: [towm]}", table(), "data.exclude", "'towm'"),
    "target among features": ("data: {features: [age, income]}", table(), "data.features", "target"),
    "constant wanted": ("data: {features: [unit]}", table(), "data.features", "unit"),
    "nothing left": (
        "data: {exclude: [age, hours, city, joined, note]}",
        table(),
        "data.features",
        "no column is left",
    ),
    "words as amount": ("task: tabular_regression", table(), "task", "tabular_classification"),
    "pictures as table": ("task: tabular_regression", pictures(), "task", "image_classification"),
    "table as pictures": ("task: image_classification", table(), "task", "table"),
    "one class": ("", table(classes=(("low", 5000),)), "data.target", "only one value"),
    "a class each": (
        "task: tabular_classification",
        table(target_column=column("income", ColumnType.CATEGORY, unique=4000), classes=()),
        "data.target",
        "4,000 classes",
    ),
    "one picture class": ("", pictures(classes=("cat",)), "data.target", "only one class"),
    "too few rows": ("", table(6, classes=(("a", 3), ("b", 3))), "data.dataset", "only 6"),
    "empty test part": (
        "data: {split: {validation: 0.2, test: 0.01}}",
        table(50),
        "data.split.test",
        "less than one row",
    ),
    "no rows left to train on": (
        "data: {split: {validation: 0.98, test: 0.01}}",
        table(100),
        "data.split",
        "leaves 1 to train on; at least 2",
    ),
    "one row per rank": (
        "{data: {split: {validation: 0.49, test: 0.48}}, resources: {count: 2}}",
        table(100),
        "data.split",
        "at least 4 are needed for 2 ranks",
    ),
    "no memory": ("resources: {memory_gib: 0.05}", table(), "resources.memory_gib", "0.5 GiB"),
    "metric of numbers": ("objective: {metric: r2}", table(), "objective.metric", "accuracy"),
    "metric of classes": ("objective: {metric: accuracy}", numbers(), "objective.metric", "rmse"),
    "stratified numbers": ("data: {split: {stratify: true}}", numbers(), "data.split.stratify", "classification"),
    "unknown family": ("model: {family: forest}", table(), "model.family", "resmlp"),
    "family of another task": ("model: {family: cnn}", table(), "model.family", "resmlp"),
    "unknown knob": ("model: {family: mlp, params: {depth: 3}}", table(), "model.params.depth", "layers"),
    "knob out of range": ("model: {family: mlp, params: {layers: 99}}", table(), "model.params.layers", "between"),
    "kernel too big": (
        "model: {family: cnn, params: {image_size: 8, kernel: 9, conv_layers: 2}}",
        pictures(),
        "model.params.kernel",
        "bigger than the picture",
    ),
    "no gpu": ("resources: {device: cuda}", pictures(), "resources.device", "no GPU"),
    "too many cores": ("resources: {count: 64}", table(), "resources.count", "2 CPU cores"),
    "too much memory": ("resources: {memory_gib: 4096}", table(), "resources.memory_gib", "8 GiB"),
    "batch above rows": ("training: {batch_size: 100000}", table(), "training.batch_size", "training rows"),
    "a row for two": (
        "mode: sync\nresources: {count: 2}\ntraining: {batch_size: 1}",
        table(),
        "training.batch_size",
        "2 ranks",
    ),
    "table mirrored": ("training: {augment: shift}", table(), "training.augment", "pictures"),
    "numbers smoothed": ("training: {label_smoothing: 0.1}", numbers(), "training.label_smoothing", "classes"),
    "numbers weighted": ("training: {class_weights: balanced}", numbers(), "training.class_weights", "classes"),
    "servers for one": ("mode: async\nresources: {count: 1}", table(), "mode", "2 devices or more"),
    "parts of a row": ("training: {batch_size: 8, accumulate: 5}", table(), "training.accumulate", "at most 4"),
    "statistics of parts": (
        "mode: sync\ntraining: {accumulate: 2, batch_norm: synced}",
        table(),
        "training.batch_norm",
        "2 parts",
    ),
    "columns of pictures": ("data: {features: [a]}", pictures(), "data.features", "pictures"),
}


@pytest.mark.parametrize(("text", "profile", "field", "word"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_names_its_field_and_the_next_step(text, profile, field, word):
    assert word in problems(text, profile)[field]


@pytest.mark.parametrize(("gib", "word"), [(16, ""), (17, "2 nodes have 8 GiB each")])
def test_a_gang_that_needs_several_nodes_may_ask_for_the_memory_of_as_many(gib, word):
    text = f"mode: sync\nresources: {{count: 4, memory_gib: {gib}}}"
    four = replace(TWO_CORES, most_cpu_cores=4)
    if word:
        assert word in problems(text, table(), four)["resources.memory_gib"]
    else:
        assert resolved(text, table(), four)["resources"]["memory_gib"] == gib


def test_a_count_that_needs_several_nodes_is_refused_for_what_keeps_nodes_apart():
    apart = replace(TWO_CORES, apart="Jobs over several nodes need one release; there is a with 1.0, b with 0.9.")
    told = problems("mode: sync\nresources: {count: 4}", table(), apart)["resources.count"]
    assert told.startswith("the largest node has 2 CPU cores, and no job can use several now. Jobs over several nodes")
    assert told.endswith("b with 0.9. Ask for at most 2, or have an admin mend that")
    assert resolved("mode: sync\nresources: {count: 2}", table(), apart)["resources"]["count"] == 2
    # One process is on one node whatever the nodes run.
    replicated = problems("mode: replicated\nresources: {count: 4}", table(), apart)["resources.count"]
    assert replicated == "the largest node has 2 CPU cores; ask for at most 2"


def test_several_mistakes_come_at_once():
    found = problems("data: {exclude: [nope], features: [neither]}", table())
    assert set(found) == {"data.exclude", "data.features"}
