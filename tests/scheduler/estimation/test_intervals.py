"""Ranges for groups of programs that were never seen, from a few that were."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.estimation.intervals import LEAST_SCORES, LEVEL, of_new_groups, quantiles


def groups_of_errors(generator: np.random.Generator, count: int, common: float, size: int = 12) -> np.ndarray:
    """[groups, programs]: what a group has in common is `common` times as large as what its programs differ by."""
    return common * generator.normal(size=(count, 1)) + generator.normal(size=(count, size))


def share_held(groups: int, common: float, *, widen: bool) -> float:
    """Of programs of a new group in the range from `groups` others, over many draws."""
    generator, held = np.random.default_rng(groups), []
    for _ in range(2000):
        *known, new = groups_of_errors(generator, groups + 1, common)
        scores = np.concatenate(known)
        low, high = quantiles(of_new_groups(scores, groups) if widen else scores.tolist(), LEVEL)
        held.append(np.mean((low <= new) & (new <= high)))
    return float(np.mean(held))


@pytest.mark.parametrize("groups", [2, 3, 5])
@pytest.mark.parametrize("common", [0.5, 1.0, 5.0])
def test_the_range_of_a_new_group_holds_what_it_says_however_few_were_seen(groups: int, common: float) -> None:
    assert LEVEL - 0.01 <= share_held(groups, common, widen=True) <= 0.97


def test_quantiles_of_two_groups_as_they_are_hold_too_little() -> None:
    assert share_held(2, 5.0, widen=False) < LEVEL - 0.15


def test_the_side_of_the_groups_that_were_seen_does_not_count() -> None:
    scores = np.linspace(0.5, 2.0, 20)
    found = of_new_groups(scores, 2)
    assert found == tuple(-score for score in reversed(found)) == of_new_groups(-scores, 2)


def test_many_groups_need_no_widening_and_too_few_scores_give_none() -> None:
    scores = np.linspace(-1.0, 1.0, 40)
    assert max(of_new_groups(scores, 10_000)) == pytest.approx(1.0, rel=1e-3)
    assert of_new_groups(scores[: LEAST_SCORES - 1], 5) == ()
