"""Amounts with a currency or a per cent sign are numbers where nearly all values of the column are such."""

from __future__ import annotations

import pytest

from codegen.profile.types import ColumnType, DatasetProfile, Severity
from tests.codegen.profile.uploads import Lab, finding


def profiled(lab: Lab, values: list[str], **options: object) -> DatasetProfile:
    rows = [f"{values[i % len(values)]}\t{i % 4}\t{'ab'[i % 2]}" for i in range(60)]
    return lab.profile("a.tsv", "\n".join(["price\tz\tlabel", *rows]), **options)


@pytest.mark.parametrize(
    ("spelled", "expected", "spelling"),
    [
        (["$1,234.50", "$7", "-$3", "$-.5"], [1234.5, 7, -3, -0.5], "$"),
        (["12 %", "7%", "12.5 %", "0%"], [12, 7, 12.5, 0], "%"),
        (["EUR 5", "EUR 1.234,50", "7,25 EUR", "0 EUR"], [5, 1234.5, 7.25, 0], "decimal comma, EUR"),
        (["1,5\u00a0€", "12\u202f€", "3 €", "1.250.000 €"], [1.5, 12, 3, 1250000], "decimal comma, €"),
        (["£0.99", " £1 ", "n/a", "£12"], [0.99, 1, None, 12], "£"),
    ],
)
def test_amounts_are_read_as_numbers(lab: Lab, spelled: list[str], expected: list[float | None], spelling: str) -> None:
    profile = profiled(lab, spelled)
    column = profile.column("price")
    assert column and (column.type, column.spelling) == (ColumnType.NUMERIC, spelling)
    assert lab.table()["price"].to_pylist()[:4] == expected
    found = finding(profile, "number_unit", "price")
    assert f"written with {spelling.split(', ')[-1]}" in found.message and found.severity is Severity.INFO
    assert ("12 % is 12, not 0.12" in found.message) == (spelling == "%")


def test_a_word_among_amounts_counts_as_missing_and_is_named(lab: Lab) -> None:
    rows = [f"{'on request' if i == 7 else f'${i}.50'},{i % 4},{'ab'[i % 2]}\n" for i in range(60)]
    profile = lab.profile("a.csv", "price,z,label\n" + "".join(rows))
    assert "'on request' in row 8" in finding(profile, "mixed_types", "price").message
    assert lab.table()["price"].to_pylist()[6:9] == [6.5, None, 8.5]


def test_a_number_without_the_sign_of_the_others_is_read_alike_and_told(lab: Lab) -> None:
    rows = [f"{'7' if i == 7 else f'{i} %'},{i % 4},{'ab'[i % 2]}\n" for i in range(60)]
    profile = lab.profile("a.csv", "rate,z,label\n" + "".join(rows))
    found = finding(profile, "number_unit", "rate")
    assert "1 number without it was read the same way" in found.message and found.severity is Severity.WARNING
    assert lab.table()["rate"].to_pylist()[6:9] == [6, 7, 8]


@pytest.mark.parametrize(
    "values",
    [
        ["50 %", "0.5", "12 %", "0.25"],
        ["$5", "€5", "$7", "€9"],
        ["$5", "$6", "$7", "many"],
        ["BMW 320", "BMW 520", "VOL 40", "VOL 60"],
        ["5 km", "6 km", "7 km", "9 km"],
    ],
    ids=["per cent and shares", "two currencies", "words", "names", "lengths"],
)
def test_a_column_that_is_not_of_one_unit_stays_words(lab: Lab, values: list[str]) -> None:
    profile = profiled(lab, values)
    column = profile.column("price")
    assert column and (column.type, column.spelling) == (ColumnType.CATEGORY, "")
    assert lab.table()["price"].to_pylist()[:4] == values
    told = {found.code for found in profile.warnings if found.column == "price"}
    assert ("numbers_as_words" in told) == (values[0][0] in "$5" and "km" not in values[0])


def test_a_person_may_have_a_mixed_column_read_as_numbers(lab: Lab) -> None:
    profiled(lab, ["$5", "$6", "$7", "many"], column_types={"price": ColumnType.NUMERIC})
    assert lab.table()["price"].to_pylist()[:4] == [5, 6, 7, None]


def test_a_person_may_have_amounts_kept_as_words(lab: Lab) -> None:
    profiled(lab, ["$5", "$6"], column_types={"price": ColumnType.CATEGORY})
    assert lab.table()["price"].to_pylist()[:2] == ["$5", "$6"]
