"""Permutation importance: which inputs the model goes by, within the time there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from worker.runtime.data import Part
from worker.runtime.outcome.importance import (
    LEAST_REPEATS,
    LEAST_ROWS,
    REPEATS,
    ROWS,
    importance_chart,
    importances,
    input_places,
)

PREPROCESS = {
    "numeric": [{"column": "when"}, {"column": "when"}, {"column": "age"}],
    "categorical": [{"column": "city"}],
}


def part_make(rows: int) -> Part:
    generator = torch.Generator().manual_seed(0)
    numeric = torch.randn(rows, 3, generator=generator)
    numeric[:, 1] = numeric[:, 0]
    categorical = torch.randint(0, 4, (rows, 1), generator=generator)
    return Part((numeric, categorical), 2 * numeric[:, 0] + categorical[:, 0], torch.arange(rows))


def error(part: Part) -> float:
    """Of a model that knows the rule: both parts of the date must agree, the age does not matter."""
    numeric, categorical = part.inputs
    return float((numeric[:, 0] + numeric[:, 1] + categorical[:, 0] - part.targets).square().mean())


def clock_make(pass_s: float) -> tuple[Callable[[], float], Callable[[Part], float], list[int]]:
    """(clock, score of which each pass takes `pass_s` for `ROWS` rows, rows of each pass)."""
    now, seen = [0.0], []

    def score(part: Part) -> float:
        now[0] += pass_s * len(part) / ROWS
        seen.append(len(part))
        return error(part)

    return lambda: now[0], score, seen


def test_what_was_made_of_a_column_is_found_again() -> None:
    assert input_places(part_make(4), PREPROCESS) == {"when": [(0, 0), (0, 1)], "age": [(0, 2)], "city": [(1, 0)]}


@pytest.mark.parametrize(
    "preprocess",
    [
        {},
        {"numeric": PREPROCESS["numeric"]},
        {**PREPROCESS, "numeric": [{"column": "age"}]},
        {**PREPROCESS, "categorical": ["city"]},
        {**PREPROCESS, "categorical": "city"},
    ],
)
def test_rows_prepared_in_another_way_have_no_importances(preprocess: dict[str, object]) -> None:
    assert input_places(part_make(4), preprocess) == {}
    assert importance_chart(part_make(4), {}, error, "rmse", budget_s=1.0, seed=0) is None


def test_pictures_have_no_columns() -> None:
    pictures = Part((torch.zeros(2, 3, 8, 8),), torch.zeros(2), torch.arange(2))
    assert input_places(pictures, PREPROCESS) == {}


def test_the_inputs_that_the_model_goes_by_lead_and_the_others_count_nothing() -> None:
    part = part_make(500)
    before = [tensor.clone() for tensor in part.inputs]
    chart = importance_chart(part, input_places(part, PREPROCESS), error, "loss", budget_s=60.0, seed=0)
    assert chart is not None and chart["columns"] == ["input", "importance", "low", "high"]
    assert [row[0] for row in chart["rows"]] == ["when", "city", "age"]
    when, city, age = (row[1:] for row in chart["rows"])
    assert when[0] == pytest.approx(
        8.0, rel=0.2
    )  # both columns of the date are shuffled alike: 4 times twice the variance
    assert city[0] == pytest.approx(2.5, rel=0.2) and when[1] < when[0] < when[2]
    assert age == [0.0, 0.0, 0.0]
    assert f"among 500 rows: mean of {REPEATS} shuffles" in chart["note"]
    assert all(torch.equal(one, other) for one, other in zip(part.inputs, before, strict=True))


def test_the_same_seed_shuffles_alike() -> None:
    part = part_make(300)
    places = input_places(part, PREPROCESS)
    one, two = (importance_chart(part, places, error, "loss", budget_s=60.0, seed=3) for _ in range(2))
    assert one == two


def test_of_many_rows_some_are_enough() -> None:
    clock, score, seen = clock_make(0.0)
    part = part_make(ROWS + 1000)
    found = importances(part, input_places(part, PREPROCESS), score, budget_s=1.0, seed=0, clock=clock)
    assert found is not None and found[1] == ROWS and set(seen) == {ROWS}


@pytest.mark.parametrize(
    ("pass_s", "rows", "repeats"), [(0.05, ROWS, REPEATS), (0.1, ROWS, 3), (0.5, 444, LEAST_REPEATS)]
)
def test_with_less_time_there_are_fewer_shuffles_and_then_fewer_rows(pass_s: float, rows: int, repeats: int) -> None:
    clock, score, _ = clock_make(pass_s)
    part = part_make(ROWS)
    found = importances(part, input_places(part, PREPROCESS), score, budget_s=1.0, seed=0, clock=clock)
    assert found is not None and found[0].shape == (repeats, 3) and found[1] == rows


def test_a_model_that_is_too_slow_is_not_tried() -> None:
    clock, score, seen = clock_make(60.0)
    part = part_make(ROWS)
    assert importances(part, input_places(part, PREPROCESS), score, budget_s=1.0, seed=0, clock=clock) is None
    assert len(seen) == 1


def test_a_model_that_becomes_slow_is_left_at_twice_the_time() -> None:
    now: Iterator[float] = iter([0.0, 0.001, 0.5, 1.9, 2.1])
    assert importances(
        part_make(LEAST_ROWS), {"age": [(0, 2)], "city": [(1, 0)]}, error, budget_s=1.0, seed=0, clock=lambda: next(now)
    ) is None  # fmt: skip


def test_too_few_rows_tell_nothing() -> None:
    part = part_make(LEAST_ROWS - 1)
    assert importances(part, input_places(part, PREPROCESS), error, budget_s=60.0, seed=0) is None
