"""What a profile tells about a good table: leaks, repeated rows, an uneven target."""

from __future__ import annotations

import io

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from codegen.profile.leaks import leak_suspects
from codegen.profile.types import ColumnProfile, ColumnType, Severity
from tests.codegen.profile.uploads import Lab, finding


def test_one_of_a_thing_is_told_in_the_singular(lab: Lab) -> None:
    rows = [f"{i * 0.3},{i % 7},{'ab'[i % 2]}" for i in range(60)]
    body = "x,z,label\n" + "\n".join([*rows[:59], f"inf,{'word'},b", rows[3], "1,2"]) + "\n"
    profile = lab.profile("a.csv", body)
    said = {found.code: found.message for found in profile.warnings}
    assert said["duplicate_rows"].startswith("1 row repeats an earlier row")
    assert said["ragged_rows"].startswith("1 line does not have the 3 fields")
    assert "1 infinite or too large value." in said["infinite_values"]
    assert "1 value is a word:" in said["mixed_types"]
    assert "in 1 of 61 rows" in said["missing_values"]


def test_one_column_left_out_of_parquet_is_told_in_the_singular(lab: Lab) -> None:
    target = io.BytesIO()
    pq.write_table(pa.table({"x": [1.5, 2.5] * 30, "parts": [[1], [2]] * 30, "label": ["a", "b"] * 30}), target)
    profile = lab.profile("a.parquet", target.getvalue())
    assert finding(profile, "unsupported_columns").message.startswith("1 column was left out: 'parts'")


def test_a_copy_of_the_target_is_a_leak(lab: Lab) -> None:
    rng = np.random.default_rng(1)
    body = "x,code,target\n" + "".join(
        f"{rng.normal():.4f},{('p', 'q', 'r')[kind]},{('a', 'b', 'c')[kind]}\n" for kind in rng.integers(0, 3, 300)
    )
    found = finding(lab.profile("a.csv", body), "leak_suspect")
    assert (found.column, found.severity) == ("code", Severity.DANGER)


def test_a_feature_that_makes_a_numeric_target_is_a_leak(lab: Lab) -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=400)
    body = "noise,price_pred,price\n" + "".join(
        f"{rng.normal():.4f},{value * 2 + rng.normal() * 1e-3:.5f},{value:.5f}\n" for value in values
    )
    found = finding(lab.profile("a.csv", body), "leak_suspect")
    assert found.column == "price_pred" and "name" in found.message


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("problem", False), ("improbable", False), ("copyright", False), ("construed", False), ("underscores_x", False),
        ("prob", True), ("prob_1", True), ("y_pred", True), ("Churn Score", True), ("churnScore", True),
        ("predictions", True), ("probability", True), ("true_label", True), ("SCORE", True),
        ("goalie", False), ("Segoal", False), ("log_goal", True), ("meanGoal", True), ("goal2", True),
    ],
)  # fmt: skip
def test_a_name_is_suspicious_by_whole_words(name: str, named: bool) -> None:
    sample = pl.DataFrame(
        {name: [f"{row % 4}" for row in range(400)], "goal": ["ab"[row % 4 > 2] for row in range(400)]}
    )
    kind = ColumnType.CATEGORY
    column = ColumnProfile(name=name, type=kind, guessed_type=kind, reason="", missing=0, unique=4)
    (leak,) = leak_suspects(sample, [column], "goal", regression=False)
    assert leak.named is named


def test_honest_features_are_no_leaks(lab: Lab) -> None:
    from sklearn.datasets import load_wine

    wine = load_wine()
    rows = [",".join(map(str, (*row, kind))) for row, kind in zip(wine.data, wine.target, strict=True)]
    profile = lab.profile("wine.csv", "\n".join([",".join([*wine.feature_names, "target"]), *rows]))
    assert (profile.target, profile.task) == ("target", "tabular_classification")
    assert not [entry for entry in profile.warnings if entry.code == "leak_suspect"]


def test_repeated_rows_are_counted_and_named_whatever_their_id(lab: Lab) -> None:
    lines = [f"{i},{i % 50 * 0.37:.2f},{'ab'[i % 2]}" for i in range(50)] + ["50,0.00,a", "51,0.37,b"]
    profile = lab.profile("a.csv", "id,x,label\n" + "\n".join(lines))
    assert profile.duplicate_rows == 2
    assert finding(profile, "duplicate_rows").rows == (51, 52)


def test_an_uneven_target_is_told(lab: Lab) -> None:
    body = "x,label\n" + "".join(f"{i % 17},{'b' if i % 100 == 3 else 'a'}\n" for i in range(1000))
    found = finding(lab.profile("a.csv", body), "imbalanced_target")
    assert "99.0 %" in found.message


def visits(name: str, target: str = "label", groups: int = 40, rows: int = 400) -> str:
    """A table of `groups` groups; `own`: the target is the same in all rows of one."""
    rng = np.random.default_rng(2)
    of_group = rng.integers(0, 2, groups)
    lines = []
    for row in range(rows):
        group = row % groups
        label = of_group[group] if target == "own" else rng.integers(0, 2)
        lines.append(f"g{group:02d},{rng.normal():.4f},{'ab'[label]}")
    return f"{name},x,label\n" + "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("name", "target", "severity"),
    [
        ("patient_id", "free", Severity.INFO),
        ("customerId", "free", Severity.INFO),
        ("Device", "free", Severity.INFO),
        ("patient", "own", Severity.WARNING),
        ("where", "own", Severity.WARNING),
        ("where", "free", None),
        ("grid", "free", None),
    ],
)
def test_a_column_that_names_groups_is_told_by_its_name_or_by_its_target(
    lab: Lab, name: str, target: str, severity: Severity | None
) -> None:
    profile = lab.profile("a.csv", visits(name, target))
    found = [entry for entry in profile.warnings if entry.code == "group_column"]
    assert [(entry.column, entry.severity) for entry in found] == ([(name, severity)] if severity else [])
    for entry in found:
        assert "40 values, each in about 10 rows" in entry.message and "A split by group" in entry.meaning
        assert ("is the same in all rows of one" in entry.message) is (target == "own")


def test_values_that_hardly_repeat_and_few_values_name_no_groups(lab: Lab) -> None:
    for groups in (3, 300):
        profile = lab.profile("a.csv", visits("patient_id", groups=groups))
        assert not [entry for entry in profile.warnings if entry.code == "group_column"]


def test_one_class_in_nearly_all_rows_makes_no_groups_of_it(lab: Lab) -> None:
    rows = [f"w{row % 40:02d},{row % 13},{'b' if row % 100 == 3 else 'a'}" for row in range(400)]
    profile = lab.profile("a.csv", "where,x,label\n" + "\n".join(rows) + "\n")
    assert not [entry for entry in profile.warnings if entry.code == "group_column"]


@pytest.mark.parametrize(("values", "told"), [((0, 1), False), ((0, 1, 900), True)], ids=["flag", "amount"])
def test_a_rare_flag_is_no_uneven_number(lab: Lab, values: tuple[int, ...], told: bool) -> None:
    rows = [f"{values[-1] if i % 50 == 0 else values[i % (len(values) - 1)]},{i * 0.37:.2f}" for i in range(400)]
    profile = lab.profile("a.csv", "flag,y\n" + "\n".join(rows) + "\n")
    assert profile.columns[0].skew is not None and profile.columns[0].skew > 5
    assert any(found.code == "skewed" and found.column == "flag" for found in profile.warnings) is told
