"""Remarks on numbers and categories that training has seen nothing like."""

from __future__ import annotations

import pyarrow as pa

from worker.runtime.seen import planned_tell, unseen_tell
from worker.runtime.unseen import COLUMNS_TOLD


def noted(*columns: tuple[str, float, float]) -> dict[str, object]:
    return {"numeric": [{"column": name, "kind": "numeric", "low": low, "high": high} for name, low, high in columns]}


def test_ends_and_value_can_be_told_apart() -> None:
    told: list[str] = []
    unseen_tell(noted(("pay", 45_000.0, 1_234_567.0)), pa.table({"pay": ["50000", None, "1234568"]}), told.append)
    (sentence,) = told
    assert "outside of 45,000 to 1,234,567, all" in sentence and "such as 1,234,568 in row 3" in sentence


def test_many_columns_are_counted_and_not_all_named() -> None:
    names = [f"c{number}" for number in range(3000)]
    told: list[str] = []
    unseen_tell(noted(*((name, 0.0, 1.0) for name in names)), pa.table({name: ["7"] for name in names}), told.append)
    assert len(told) == COLUMNS_TOLD + 1 and told[-1] == "So do values of 2,995 other columns."


def test_what_is_within_or_no_number_or_not_noted_is_not_remarked() -> None:
    told: list[str] = []
    rows = pa.table({"a": ["0", "1"], "b": ["x", "9"], "c": [5.0, 6.0]})
    unseen_tell(noted(("a", 0.0, 1.0), ("b", 0.0, 1.0), ("gone", 0.0, 1.0)), rows, told.append)
    assert told == []


SIGNS = {"categorical": [{"column": "sign", "values": ["in", "out"], "missing": False}]}


def test_a_category_that_training_does_not_know_is_named_with_its_row() -> None:
    told: list[str] = []
    unseen_tell(SIGNS, pa.table({"sign": ["in", None, "neon", "neon"], "other": ["neon"] * 4}), told.append)
    assert told == [
        "Column 'sign': 2 values are not among those that training has seen at least twice, such as 'neon' in row 3; "
        "the model can only guess there."
    ]
    unseen_tell(SIGNS, pa.table({"sign": ["in", "out", None]}), told.append)
    unseen_tell({"categorical": ["mine", {"column": "sign"}]}, pa.table({"sign": ["neon"]}), told.append)
    assert len(told) == 1


def test_where_only_the_most_frequent_categories_were_kept_no_other_is_said_to_be_rare() -> None:
    told: list[str] = []
    many = {"categorical": [{"column": "sign", "values": [str(number) for number in range(10_000)]}]}
    unseen_tell(many, pa.table({"sign": ["7", "neon"]}), told.append)
    assert len(told) == 1
    assert "1 value is not among the 10,000 most frequent of those that training has seen at least twice" in told[0]


def test_of_rows_known_ahead_only_these_columns_are_remarked_by_the_moment_of_their_row() -> None:
    preprocess = {**noted(("price", 5.0, 10.0), ("sold: last value", 0.0, 1.0)), **SIGNS}
    preprocess["forecast"] = {"known": ["price", "sign"]}
    inputs = pa.table({"price": [8.0, 99.0], "sign": ["neon", "in"], "sold: last value": [7.0, 7.0]})
    for series, of in (("", ""), ("north", "'north' of ")):
        told: list[str] = []
        labels = [[series, "2020-10-27", 1], [series, "2020-10-28", 2]]
        planned_tell(preprocess, inputs, labels, told.append)
        assert f"such as 99 in the row of {of}2020-10-28;" in told[0] and len(told) == 2
        assert f"such as 'neon' in the row of {of}2020-10-27;" in told[1]
