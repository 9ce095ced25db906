"""What is guessed for a person's own model.py: only what data and task tell, with no word of a family."""

from __future__ import annotations

import re

import pytest

from codegen import spec_yaml
from codegen.catalog import FAMILIES, OWN, families_for
from codegen.resolve import resolve
from codegen.spec_training import Training
from codegen.types import Guess, Hardware, SpecError
from tests.codegen.model_profiles import ONE_GPU, TWO_CORES, numbers, pictures, table

PROFILES = {"classes": table(), "numbers": numbers(), "pictures": pictures(), "large": table(200_000)}
FAMILY_WORDS = re.compile(
    "|".join(re.escape(word) for one in FAMILIES.values() if one.name != OWN for word in (one.title, one.word)), re.I
)


def guesses(text: str, profile, hardware=TWO_CORES) -> dict[str, Guess]:
    return {one.field: one for one in resolve(spec_yaml.load(text), profile, hardware, is_own=True).guesses}


@pytest.mark.parametrize("hardware", [TWO_CORES, ONE_GPU], ids=["cores", "gpu"])
@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize(
    "training",
    ["{}", "{batch_size: 8}", "{optimizer: sgd}", "{rate_rule: trials}", "{batch_size: 8, rate_rule: range}"],
)
def test_no_guess_for_an_own_model_names_a_family(name, hardware, training):
    told = guesses(f"training: {training}", PROFILES[name], hardware)
    assert told["model.family"].value == OWN
    for guess in told.values():
        assert not FAMILY_WORDS.search(guess.reason) and "family" not in guess.reason, guess


@pytest.mark.parametrize("name", PROFILES)
def test_an_own_model_is_trained_alike_whatever_family_is_named(name):
    profile = PROFILES[name]
    specs = []
    for family in ("auto", OWN, *(one.name for one in families_for(profile.task))):
        wish = spec_yaml.load(f"model: {{family: {family}}}")
        specs.append(resolve(wish, profile, ONE_GPU, is_own=True).spec)
    for part in ("name", "training", "resources", "mode", "checkpoints"):
        assert all(spec[part] == specs[0][part] for spec in specs), part


def test_the_rate_and_the_epochs_of_an_own_model_are_not_those_of_the_suggested_family():
    many = pictures(60_000)
    own, suggested = (resolve(spec_yaml.load(""), many, TWO_CORES, is_own=one).spec for one in (True, False))
    assert suggested["model"]["family"] != OWN
    assert own["training"]["learning_rate"] == FAMILIES[OWN].learning_rate != suggested["training"]["learning_rate"]
    assert own["training"]["epochs"] > suggested["training"]["epochs"], "that family's time bounds nothing here"
    assert own["training"]["batch_size"] == suggested["training"]["batch_size"], "by the number of rows"


def test_what_is_not_known_of_an_own_model_is_said():
    told = guesses("", table(), ONE_GPU)
    assert "how long your own model takes for one is not known" in told["training.epochs"].reason
    assert told["training.learning_rate"].reason == "usual peak of a model that nothing is known of, with AdamW"
    assert told["training.optimizer"].reason == "works for most models without tuning"
    assert told["resources.device"].reason.endswith("choose cuda if your own model is large")
    for field in ("training.accumulate", "resources.memory_gib"):
        assert told[field].reason.endswith("is known from an offer")
    assert told["training.batch_size"].reason == "about 109 steps per epoch of 3,500 training rows"


def test_little_memory_is_no_claim_of_what_fits():
    small = Hardware(cpu_cores=2, cpu_memory_bytes=1 << 16)
    assert guesses("", table(), small)["training.batch_size"].reason == "fewer rows than usual, as memory is short"


@pytest.mark.parametrize("family", ["auto", OWN])
def test_an_own_model_keeps_the_knobs_that_it_is_given(family):
    wish = spec_yaml.load(f"model: {{family: {family}, params: {{depth: 3}}}}")
    spec = resolve(wish, table(), TWO_CORES, is_own=True).spec
    assert spec["model"] == {"family": OWN, "size": "small", "params": {"depth": 3}}
    assert set(spec["training"]) == set(Training.model_fields) - {"staleness", "backup"}  # of mode async alone


def test_an_own_model_that_began_as_one_of_a_family_gets_the_knobs_of_the_named_family():
    spec = resolve(spec_yaml.load("model: {family: mlp}"), table(), TWO_CORES, is_own=True).spec
    assert set(spec["model"]["params"]) == {"layers", "width", "dropout"}
    with pytest.raises(SpecError, match=r"unknown knob of mlp"):
        resolve(spec_yaml.load("model: {family: mlp, params: {depth: 3}}"), table(), TWO_CORES, is_own=True)


def test_the_size_of_pictures_for_an_own_model_follows_the_pictures():
    told = guesses("", pictures(size=300), ONE_GPU)["model.params.image_size"]
    assert told.value == 224 and told.reason.startswith("as most pictures are, or the next smaller usual size")
