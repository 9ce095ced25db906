"""The catalog: knobs are checked, presets are valid, counts grow as they should."""

from __future__ import annotations

import pytest

from codegen.catalog import DATA_TEMPLATES, FAMILIES, OWN, families_for
from codegen.catalog.base import SIZES, Facts
from codegen.catalog.training import epoch_steps, memory_bytes, training_defaults
from codegen.spec import Task
from codegen.spec_training import Training
from worker import shares

TABLE = Facts(
    task=Task.TABULAR_CLASSIFICATION, rows=6000, train_rows=4200, outputs=3, features=7, cardinalities=(3, 9, 41)
)
PICTURES = Facts(
    task=Task.IMAGE_CLASSIFICATION,
    rows=6000,
    train_rows=4200,
    outputs=10,
    channels=3,
    native_size=32,
    photos=True,
    devices=2,
)
BUILT_IN = [family for family in FAMILIES.values() if family.name != OWN]


def facts_for(family) -> Facts:
    return PICTURES if Task.IMAGE_CLASSIFICATION in family.tasks else TABLE


@pytest.mark.parametrize("task", list(Task))
def test_each_task_has_three_families_of_different_cost(task):
    facts = PICTURES if task is Task.IMAGE_CLASSIFICATION else TABLE
    flops = {family.cost(facts, family.defaults(facts, "medium")).flops for family in families_for(task)}
    assert len(flops) >= 3
    assert task in DATA_TEMPLATES


@pytest.mark.parametrize("family", BUILT_IN, ids=lambda family: family.name)
def test_presets_are_valid_and_grow(family):
    facts = facts_for(family)
    costs = []
    for size in SIZES:
        params = family.defaults(facts, size)
        assert family.problems(facts, params) == []
        assert set(params) == {knob.name for knob in family.knobs}
        costs.append(family.cost(facts, params).flops)
    assert costs == sorted(costs)


@pytest.mark.parametrize("family", families_for(Task.IMAGE_CLASSIFICATION), ids=lambda family: family.name)
@pytest.mark.parametrize("native_size", [4, 8, 9, 28, 100, 500, 4000])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_presets_fit_pictures_of_any_size(family, native_size, device):
    facts = Facts(
        task=Task.IMAGE_CLASSIFICATION,
        rows=900,
        train_rows=700,
        outputs=2,
        channels=1,
        native_size=native_size,
        device=device,
    )
    for size in SIZES:
        assert family.problems(facts, family.defaults(facts, size)) == []


@pytest.mark.parametrize("family", BUILT_IN, ids=lambda family: family.name)
def test_each_knob_refuses_what_is_out_of_range_and_of_a_wrong_type(family):
    facts = facts_for(family)
    params = family.defaults(facts, "small")
    for knob in family.knobs:
        for wrong in ("three", True, knob.high + 1, knob.low - 1):
            found = family.problems(facts, {**params, knob.name: wrong})
            assert [name for name, _ in found] == [knob.name], (knob.name, wrong)


def test_an_unknown_knob_is_named_with_the_known_ones():
    family = FAMILIES["cnn"]
    ((name, message),) = family.problems(PICTURES, {**family.defaults(PICTURES, "small"), "filtres": 3})
    assert name == "filtres"
    assert "filters" in message


def test_a_kernel_bigger_than_the_picture_is_refused():
    family = FAMILIES["cnn"]
    params = {**family.defaults(PICTURES, "small"), "image_size": 8, "conv_layers": 2, "kernel": 9}
    assert family.problems(PICTURES, params) == [("kernel", "9 is bigger than the picture of 8 x 8 pixels")]


def test_more_halvings_than_pixels_are_refused_with_the_most_layers():
    family = FAMILIES["cnn"]
    params = {**family.defaults(PICTURES, "small"), "image_size": 8, "conv_layers": 7}
    ((name, message),) = family.problems(PICTURES, params)
    assert name == "conv_layers"
    assert "at most 6 layers" in message
    assert family.problems(PICTURES, {**params, "conv_layers": 6}) == []


def test_heads_must_divide_the_width():
    family = FAMILIES["ft_transformer"]
    ((name, _),) = family.problems(TABLE, {**family.defaults(TABLE, "small"), "heads": 3})
    assert name == "heads"


def test_a_patch_too_big_for_the_picture_is_refused():
    family = FAMILIES["convnext"]
    ((name, _),) = family.problems(PICTURES, {**family.defaults(PICTURES, "small"), "patch": 16})
    assert name == "patch"


def test_a_persons_own_model_takes_any_knob_but_a_wrong_image_size():
    family = FAMILIES[OWN]
    assert family.problems(TABLE, {"anything": "goes"}) == []
    assert family.problems(PICTURES, {"image_size": 2})[0][0] == "image_size"


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_training_defaults_fill_every_field_with_a_reason(family):
    facts = facts_for(family)
    cost = family.cost(facts, family.defaults(facts, "small"))
    defaults = training_defaults(family, facts, cost)
    later = {"accumulate", "ema", "rate_rule", "staleness", "backup"}  # follow from batch, epochs, mode and devices
    assert set(defaults) == set(Training.model_fields) - {"seed"} - later
    assert all(reason for _, reason in defaults.values())
    Training(**{name: value for name, (value, _) in defaults.items()})


def test_short_memory_halves_the_batch():
    family = FAMILIES["resnet"]
    cost = family.cost(PICTURES, family.defaults(PICTURES, "large"))
    roomy = training_defaults(family, PICTURES, cost)["batch_size"][0]
    limit = memory_bytes(PICTURES, cost, roomy)
    tight = Facts(**{**vars(PICTURES), "memory_bytes": limit})
    assert training_defaults(family, tight, cost)["batch_size"][0] < roomy


def test_mirroring_is_only_for_colour_pictures():
    family = FAMILIES["cnn"]
    cost = family.cost(PICTURES, family.defaults(PICTURES, "small"))
    assert training_defaults(family, PICTURES, cost)["augment"][0] == "shift_flip"
    grey = Facts(**{**vars(PICTURES), "photos": False})
    assert training_defaults(family, grey, cost)["augment"][0] == "shift"


def test_a_wished_time_shortens_the_training():
    family = FAMILIES["resnet"]
    cost = family.cost(PICTURES, family.defaults(PICTURES, "medium"))
    hurried = Facts(**{**vars(PICTURES), "time_s": 60.0})
    assert (
        training_defaults(family, hurried, cost)["epochs"][0] < training_defaults(family, PICTURES, cost)["epochs"][0]
    )


@pytest.mark.parametrize("family", BUILT_IN, ids=lambda family: family.name)
def test_a_wished_time_beyond_all_bounds_shortens_nothing(family):
    facts = facts_for(family)
    cost = family.cost(facts, family.defaults(facts, "small"))
    long, endless = (
        training_defaults(family, Facts(**{**vars(facts), "time_s": time_s}), cost)["epochs"] for time_s in (1e9, 1e308)
    )
    assert endless == long


def test_an_epoch_has_as_many_steps_as_a_run_makes():
    for rows in range(1, 300):
        for batch in (1, 2, 3, 7, 32, 64):
            assert epoch_steps(rows, batch) == shares.epoch_steps(rows, batch), (rows, batch)
