"""Suggestions: ranked, sized, with reasons, and within memory."""

from __future__ import annotations

import pytest

from codegen.resolve import resolve
from codegen.spec import Model, TaskSpec
from codegen.suggest import suggest
from codegen.types import Hardware
from tests.codegen.model_profiles import GIB, ONE_GPU, TWO_CORES, numbers, pictures, table

CASES = {"table": table(), "small table": table(200), "numbers": numbers(), "pictures": pictures()}


@pytest.mark.parametrize("profile", CASES.values(), ids=CASES)
@pytest.mark.parametrize("hardware", [TWO_CORES, ONE_GPU], ids=["cpu", "gpu"])
def test_three_families_are_ranked_with_words_for_and_against(profile, hardware):
    suggestions = suggest(TaskSpec(), profile, hardware)
    assert len(suggestions) >= 3
    assert [suggestion.rank for suggestion in suggestions] == list(range(1, len(suggestions) + 1))
    for suggestion in suggestions:
        assert suggestion.reason
        assert suggestion.against
        assert suggestion.parameters > 0
        assert suggestion.flops_per_sample > 0
        assert suggestion.memory_bytes > suggestion.parameters * 4
        assert suggestion.fits
    assert len({suggestion.flops_per_sample for suggestion in suggestions}) == len(suggestions)


@pytest.mark.parametrize("profile", CASES.values(), ids=CASES)
def test_the_first_suggestion_is_what_auto_resolves_to(profile):
    first = suggest(TaskSpec(), profile, TWO_CORES)[0]
    spec = resolve(TaskSpec(), profile, TWO_CORES).spec
    assert spec["model"] == {"family": first.family, "size": first.size, "params": first.params}
    assert spec["training"] == first.training


@pytest.mark.parametrize("profile", CASES.values(), ids=CASES)
def test_each_suggestion_can_be_taken_as_it_is(profile):
    for suggestion in suggest(TaskSpec(), profile, TWO_CORES):
        training = suggestion.training
        spec = TaskSpec.model_validate(
            {"model": {"family": suggestion.family, "params": suggestion.params}, "training": training}
        )
        assert resolve(spec, profile, TWO_CORES).spec["training"] == training


def test_a_small_table_gets_the_plain_net_first_a_large_one_the_residual_net():
    assert suggest(TaskSpec(), table(200), TWO_CORES)[0].family == "mlp"
    assert suggest(TaskSpec(), table(20_000), TWO_CORES)[0].family == "resmlp"


def test_tiny_pictures_get_the_cnn_first_others_the_resnet():
    assert suggest(TaskSpec(), pictures(size=8, channels=1), TWO_CORES)[0].family == "cnn"
    assert suggest(TaskSpec(), pictures(size=32), TWO_CORES)[0].family == "resnet"


def test_a_gpu_buys_a_larger_model():
    small = suggest(TaskSpec(), pictures(rows=60_000), TWO_CORES)[0]
    large = suggest(TaskSpec(), pictures(rows=60_000), ONE_GPU)[0]
    assert large.flops_per_sample > small.flops_per_sample


def test_what_does_not_fit_is_said_and_ranked_last():
    tiny = Hardware(cpu_cores=2, cpu_memory_bytes=GIB // 40)
    suggestions = suggest(TaskSpec(), pictures(size=64), tiny)
    flags = [suggestion.fits for suggestion in suggestions]
    assert flags == sorted(flags, reverse=True)
    assert not flags[-1]
    assert "Needs about 85.4 MiB, more than 80 % of the 25.6 MiB there are." in suggestions[-1].against


LARGE = TaskSpec(model=Model(size="large"))
TIGHT = Hardware(cpu_cores=2, cpu_memory_bytes=16 * GIB // 1024)


def test_the_first_of_what_fits_is_not_called_the_best_for_that():
    first, second, _ = suggest(LARGE, table(), TIGHT)
    assert (first.family, first.fits, second.family, second.fits) == ("mlp", True, "resmlp", False)
    assert not first.expected_quality.startswith("Best expected")
    assert second.expected_quality.startswith("Best expected")


def test_a_model_fits_whose_batch_does_in_parts():
    tight = Hardware(cpu_cores=2, cpu_memory_bytes=140 * GIB // 1024)
    first = suggest(TaskSpec(), pictures(size=64), tight)[0]
    assert (first.family, first.fits, first.training["accumulate"]) == ("resnet", True, 2)
    assert first.memory_bytes < 0.8 * tight.cpu_memory_bytes
    assert resolve(TaskSpec(), pictures(size=64), tight).spec["model"]["family"] == "resnet"


def test_auto_takes_the_first_of_what_is_suggested_and_says_what_does_not_fit():
    first = suggest(LARGE, table(), TIGHT)[0]
    resolved = resolve(LARGE, table(), TIGHT)
    assert (resolved.spec["model"]["family"], resolved.spec["model"]["params"]) == (first.family, first.params)
    (guess,) = (guess for guess in resolved.guesses if guess.field == "model.family")
    assert guess.reason.endswith(" takes more than 80 % of the memory there is.")


def test_auto_takes_the_best_where_nothing_fits():
    nothing = Hardware(cpu_cores=2, cpu_memory_bytes=1 << 20)
    best = resolve(TaskSpec(), pictures(size=64), TWO_CORES).spec["model"]["family"]
    assert resolve(TaskSpec(), pictures(size=64), nothing).spec["model"]["family"] == best


def test_auto_with_knobs_is_the_model_that_has_them_whatever_the_memory():
    knobs = TaskSpec(model=Model(size="large", params={"blocks": 2}))
    families = {resolve(knobs, table(), hardware).spec["model"]["family"] for hardware in (TIGHT, TWO_CORES)}
    assert families == {"resmlp"}


def test_large_pictures_count_at_the_size_they_are_scaled_to():
    for suggestion in suggest(TaskSpec(), pictures(size=4000), TWO_CORES):
        assert suggestion.fits
        assert suggestion.params["image_size"] <= 64


def test_suggestions_are_plain_values():
    assert suggest(TaskSpec(), table(), TWO_CORES)[0].to_dict()["family"]


def test_a_plain_net_comes_first_where_texts_are_all_there_is():
    texts_alone = TaskSpec.model_validate({"data": {"features": ["note"]}})
    first, *others = suggest(texts_alone, table(), TWO_CORES)
    assert first.family == "mlp" and "28 numbers" in first.reason and "not their order" in first.against
    assert {"resmlp", "ft_transformer"} == {other.family for other in others}
    assert suggest(TaskSpec(), table(), TWO_CORES)[0].family == "resmlp"
