"""The learning rate of a batch other than the usual one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codegen.catalog.rates import MOST_FACTOR, rate_factor
from codegen.resolve import resolve
from codegen.spec import TaskSpec
from codegen.types import Resolved
from tests.codegen.model_profiles import TWO_CORES, pictures, table


def resolved(**training: object) -> Resolved:
    return resolve(TaskSpec.model_validate({"training": training}), table(), TWO_CORES)


def values(**training: object) -> dict:
    return resolved(**training).spec["training"]


def test_the_usual_batch_takes_the_usual_rate() -> None:
    usual = values()
    assert usual["rate_rule"] == "none"
    for rule in ("linear", "sqrt", "range"):
        told = values(rate_rule=rule)
        assert (told["rate_rule"], told["learning_rate"]) == ("none", usual["learning_rate"])


def test_trials_are_made_for_the_usual_batch_too() -> None:
    usual, told = values(), values(rate_rule="trials")
    assert (told["rate_rule"], told["learning_rate"]) == ("trials", usual["learning_rate"])
    assert values(rate_rule="trials", learning_rate=0.01)["rate_rule"] == "none"


@pytest.mark.parametrize(
    ("training", "rule", "factor"),
    [
        ({}, "sqrt", 2.0),
        ({"optimizer": "sgd"}, "linear", 4.0),
        ({"rate_rule": "linear"}, "linear", 4.0),
        ({"rate_rule": "none"}, "none", 1.0),
        ({"rate_rule": "range"}, "range", 1.0),
        ({"rate_rule": "trials"}, "trials", 1.0),
    ],
)
def test_another_batch_has_its_rate_by_the_rule(training: dict, rule: str, factor: float) -> None:
    usual = values(optimizer=training.get("optimizer", "auto"))
    told = resolved(batch_size=4 * usual["batch_size"], **training)
    got = told.spec["training"]
    assert got["rate_rule"] == rule
    assert got["learning_rate"] == pytest.approx(factor * usual["learning_rate"], rel=1e-2)
    assert "training.learning_rate" in {guess.field for guess in told.guesses}


def test_a_batch_that_memory_keeps_small_has_its_rate_by_the_rule() -> None:
    spec = TaskSpec.model_validate({"model": {"family": "convnext", "size": "medium"}})
    tight = replace(TWO_CORES, cpu_memory_bytes=2**29)
    usual, small = (resolve(spec, pictures(12_000), pool).spec["training"] for pool in (TWO_CORES, tight))
    assert (usual["batch_size"], usual["rate_rule"]) == (128, "none")
    assert (small["batch_size"], small["rate_rule"]) == (64, "sqrt")
    assert small["learning_rate"] == pytest.approx(usual["learning_rate"] * 0.5**0.5, rel=1e-2)


def test_a_rate_that_is_left_open_says_that_a_test_may_replace_it() -> None:
    usual = values()
    told = {guess.field: guess.reason for guess in resolved(batch_size=4 * usual["batch_size"]).guesses}
    assert "until a range test" in told["training.rate_rule"]
    assert "not the usual" in told["training.rate_rule"]


@pytest.mark.parametrize(("backup", "factor"), [(0, 1.0), (1, 0.75**0.5), (2, 0.5**0.5), ("auto", 1.0)])
def test_rows_that_backup_ranks_drop_do_not_count(backup: object, factor: float) -> None:
    body = {"mode": "async", "resources": {"device": "cpu", "count": 4}, "training": {"backup": backup}}
    got = resolve(TaskSpec.model_validate(body), table(), replace(TWO_CORES, cpu_cores=4)).spec["training"]
    assert got["learning_rate"] == pytest.approx(values()["learning_rate"] * factor, rel=1e-2)


def test_sgd_has_a_rate_and_a_decay_of_its_own() -> None:
    adamw, sgd = values(), values(optimizer="sgd")
    assert sgd["learning_rate"] == pytest.approx(10 * adamw["learning_rate"])
    assert sgd["weight_decay"] == pytest.approx(adamw["weight_decay"] / 100)
    reasons = {guess.field: guess.reason for guess in resolved(optimizer="sgd").guesses}
    assert "10 times" in reasons["training.learning_rate"]
    given = values(optimizer="sgd", learning_rate=0.2, weight_decay=0.3)
    assert (given["learning_rate"], given["weight_decay"]) == (0.2, 0.3)


def test_a_given_rate_is_never_scaled() -> None:
    usual = values()
    told = values(batch_size=4 * usual["batch_size"], learning_rate=0.01, rate_rule="linear")
    assert (told["learning_rate"], told["rate_rule"]) == (0.01, "none")


@given(st.sampled_from(["none", "linear", "sqrt", "range", "trials"]), st.integers(1, 10**7), st.integers(1, 10**7))
def test_factors_are_bounded_and_turn_around(rule: str, batch: int, reference: int) -> None:
    factor = rate_factor(rule, batch, reference)
    assert 1 / MOST_FACTOR <= factor <= MOST_FACTOR
    assert factor * rate_factor(rule, reference, batch) == pytest.approx(1.0)
