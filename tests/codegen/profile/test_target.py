"""Choosing and checking the target, as pure functions of a profile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codegen.profile import profile_dataset
from codegen.profile.target import target_problems, unlearnable
from codegen.profile.target_guess import guess_target, guess_task
from codegen.profile.types import (
    ColumnProfile,
    ColumnType,
    DataKind,
    DataProblem,
    DatasetProfile,
    Finding,
    ProfileOptions,
    Severity,
)
from tests.codegen.resolving import problems, resolved

CLASSIFY, REGRESS = "tabular_classification", "tabular_regression"


def column(name: str, kind: ColumnType = ColumnType.NUMERIC, unique: int = 500, **more: Any) -> ColumnProfile:
    more = {"missing": 0, "reason": "made", **more}
    return ColumnProfile(name=name, type=kind, guessed_type=kind, unique=unique, **more)


def table(*columns: ColumnProfile, rows: int = 1000, **more: Any) -> DatasetProfile:
    return DatasetProfile(kind=DataKind.TABLE, rows=rows, columns=columns, **more)


def codes(problems: list[DataProblem | Finding]) -> list[str]:
    return [problem.code for problem in problems]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a", "Target", "b"], "Target"),
        (["label", "a", "b"], "label"),
        (["y", "a"], "y"),
        (["a", "loan_class", "b"], "loan_class"),
        (["a", "income", "b"], "income"),
        (["a", "b", "c"], "c"),
        (["target_copy", "a", "target"], "target"),
    ],
)
def test_the_target_is_guessed_by_name_then_by_place(names: list[str], expected: str) -> None:
    assert guess_target([column(name) for name in names])[0] == expected


def test_a_guess_that_was_seen_stays_one_while_the_column_can_be_predicted() -> None:
    columns = [column("a"), column("b"), column("label")]
    assert guess_target(columns, "b") == ("b", "guessed before types of columns were changed")
    assert guess_target(columns, "label") == guess_target(columns)
    found, why = guess_target([column("a"), column("b", ColumnType.TEXT), column("label")], "b")
    former = "; 'b', which was guessed before types were changed, cannot be predicted as it is"
    assert (found, why) == ("label", guess_target(columns)[1] + former)
    assert guess_target(columns, "gone") == guess_target(columns)


def test_a_column_that_cannot_be_predicted_is_no_target() -> None:
    columns = [column("a"), column("key", ColumnType.IDENTIFIER), column("note", ColumnType.TEXT)]
    assert guess_target(columns)[0] == "a"
    assert guess_target(columns[1:]) == (None, "no column has the values of a class or an amount")


@pytest.mark.parametrize(
    ("target", "task"),
    [
        (column("a", ColumnType.CATEGORY, 7), CLASSIFY),
        (column("a", unique=2), CLASSIFY),
        (column("a", unique=10, whole_numbers=True), CLASSIFY),
        (column("a", unique=28, whole_numbers=True), REGRESS),
        (column("label", unique=90, whole_numbers=True), CLASSIFY),
        (column("a", unique=10), REGRESS),
        (column("a", unique=700), REGRESS),
    ],
)
def test_the_task_follows_from_the_values(target: ColumnProfile, task: str) -> None:
    found, reason = guess_task(target, 1000)
    assert found == task and reason


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["1.5", "2.75"] * 5, REGRESS),
        (["1.5", "2.75"] * 10, CLASSIFY),
        (["1.5", "2.75", "4.25"] * 10, REGRESS),
        (["1", "2"] * 5, CLASSIFY),
        (["0.0", "1.0"] * 5, CLASSIFY),
        (["0.5 kg", "1.5 kg"] * 5, REGRESS),
        (["0.5 kg", "1.5 kg"] * 10, CLASSIFY),
    ],
)
def test_two_fractions_are_amounts_unless_they_repeat_often(tmp_path: Path, values: list[str], task: str) -> None:
    rows = [f"{number},{value}" for number, value in enumerate(values)]
    (tmp_path / "t.csv").write_text("\n".join(["x,target", *rows]) + "\n")
    profile = profile_dataset(tmp_path / "t.csv", tmp_path / "packed", ProfileOptions(), lambda *_: None)
    assert (profile.target, profile.task) == ("target", task)


def test_a_good_target_has_no_problems() -> None:
    counts = (("a", 520), ("b", 480))
    profile = table(column("x"), column("t", ColumnType.CATEGORY, 2, top_values=counts))
    assert target_problems(profile, "t", CLASSIFY) == []
    assert target_problems(profile, "x", REGRESS) == []


def test_a_target_that_is_not_there_names_the_nearest() -> None:
    [problem] = target_problems(table(column("income"), column("x")), "incom", CLASSIFY)
    assert isinstance(problem, DataProblem) and problem.code == "target_not_found" and "'income'" in problem.hint
    assert codes(target_problems(table(column("x")), None, CLASSIFY)) == ["target_missing"]


@pytest.mark.parametrize(
    ("target", "task", "code"),
    [
        (column("t", ColumnType.CONSTANT, 0, missing=1000), CLASSIFY, "target_all_missing"),
        (column("t", ColumnType.CONSTANT, 1, top_values=(("a", 1000),)), CLASSIFY, "one_class"),
        (column("t", ColumnType.CONSTANT, 1), REGRESS, "one_class"),
        (column("t", ColumnType.CATEGORY, 5), REGRESS, "target_not_numeric"),
        (column("t", unique=900), CLASSIFY, "target_is_amount"),
        (column("t", ColumnType.CATEGORY, 700), CLASSIFY, "too_many_classes"),
        (column("t", ColumnType.IDENTIFIER, 1000), CLASSIFY, "too_many_classes"),
        (column("t"), "image_classification", "wrong_task"),
    ],
)
def test_what_makes_training_impossible_is_a_problem(target: ColumnProfile, task: str, code: str) -> None:
    [problem] = target_problems(table(column("x"), target), "t", task)
    assert isinstance(problem, DataProblem) and problem.code == code and problem.hint


def test_what_training_can_bear_is_a_finding() -> None:
    counts = (("a", 700), ("b", 199), ("c", 1))
    profile = table(column("t", ColumnType.CATEGORY, 3, missing=100, top_values=counts))
    found = target_problems(profile, "t", CLASSIFY)
    assert codes(found) == ["target_missing_values", "single_sample_class", "imbalanced_target"]
    assert all(isinstance(problem, Finding) and problem.meaning for problem in found)


def test_most_of_the_target_missing_is_a_danger() -> None:
    profile = table(column("t", missing=600))
    [found] = target_problems(profile, "t", REGRESS)
    assert isinstance(found, Finding) and found.severity is Severity.DANGER


def test_many_classes_are_told_even_where_their_counts_are_unknown() -> None:
    profile = table(column("t", ColumnType.CATEGORY, 10_000), rows=60_000)
    assert codes(target_problems(profile, "t", CLASSIFY)) == ["many_classes"]


def test_pictures_are_judged_by_their_folders() -> None:
    profile = DatasetProfile(kind=DataKind.IMAGES, rows=50, classes=(("cat", 50),))
    assert codes(target_problems(profile, None, "image_classification")) == ["one_class"]
    assert codes(target_problems(profile, None, CLASSIFY)) == ["wrong_task"]


def _lab_profile(folder: Path, body: str, target: str | None = None) -> DatasetProfile:
    path = folder / "a.csv"
    path.write_text(body)
    return profile_dataset(path, folder / "out", ProfileOptions(target=target), lambda *_: None)


def test_what_looks_like_the_target_with_one_value_leaves_nothing_to_learn_unless_another_is_named(
    tmp_path: Path,
) -> None:
    body = "size,kind,target\n" + "".join(f"{at * 37 % 91},{'ab'[at % 2]},yes\n" for at in range(60))
    problem = unlearnable(_lab_profile(tmp_path, body))
    assert problem is not None and (problem.code, problem.column) == ("one_class", "target")
    assert "only one value ('yes')" in problem.message and "such as 'kind' or 'size'" in problem.hint
    chosen = unlearnable(_lab_profile(tmp_path, body, "target"))
    assert chosen is not None and "choose another target, such as 'kind'" in chosen.hint
    assert unlearnable(_lab_profile(tmp_path, body, "kind")) is None
    assert unlearnable(_lab_profile(tmp_path, body.replace("yes", "no", 9))) is None


def test_a_target_that_is_open_is_refused_while_nothing_can_be_learned_of_it(tmp_path: Path) -> None:
    body = "size,kind,target\n" + "".join(f"{at * 37 % 91},{'ab'[at % 2]},yes\n" for at in range(60))
    profile = _lab_profile(tmp_path, body)
    assert "name the column to predict, such as 'kind'" in problems("", profile)["data.target"]
    assert resolved("data: {target: kind}", profile)["data"]["target"] == "kind"
