"""Amounts with a currency, a per cent sign or a measure are numbers where nearly all values of the column are such."""

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
        (["$1,234.50", "$7", "-$3", "$-.5"], [1234.5, 7, -3, -0.5], "thousands, $"),
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
        ["s1", "s2", "s3", "m1"],
        ["5 km", "6 kg", "7 km", "9 kg"],
    ],
    ids=["per cent and shares", "two currencies", "words", "names", "names like measures", "two kinds of measures"],
)
def test_a_column_that_is_not_of_one_unit_stays_words(lab: Lab, values: list[str]) -> None:
    profile = profiled(lab, values)
    column = profile.column("price")
    assert column and (column.type, column.spelling) == (ColumnType.CATEGORY, "")
    assert lab.table()["price"].to_pylist()[:4] == values
    told = {found.code for found in profile.warnings if found.column == "price"}
    assert ("numbers_as_words" in told) == (values[0][0] in "$5")


def test_a_person_may_have_a_mixed_column_read_as_numbers(lab: Lab) -> None:
    profiled(lab, ["$5", "$6", "$7", "many"], column_types={"price": ColumnType.NUMERIC})
    assert lab.table()["price"].to_pylist()[:4] == [5, 6, 7, None]


def test_a_person_may_have_amounts_kept_as_words(lab: Lab) -> None:
    profiled(lab, ["$5", "$6"], column_types={"price": ColumnType.CATEGORY})
    assert lab.table()["price"].to_pylist()[:2] == ["$5", "$6"]


@pytest.mark.parametrize(
    ("spelled", "expected", "spelling"),
    [
        (["694 mm", "701", "38,5 cm", "702mm"], [694, 701, 385, 702], "decimal comma, mm"),
        (["1.5 km", "2 km", "500 m", "2.25 km"], [1.5, 2, 0.5, 2.25], "km"),
        (["5 kg", "1,250 g", "2 t", "7 kg"], [5, 1.25, 2000, 7], "thousands, kg"),
        (["1,5 h", "2 h", "45 min", "-36 s"], [1.5, 2, 0.75, -0.01], "decimal comma, h"),
        (["1.234 m", "7,5 m", "0,5 km", "12"], [1234, 7.5, 500, 12], "decimal comma, m"),
    ],
)
def test_measures_of_one_kind_are_converted_to_the_commonest(
    lab: Lab, spelled: list[str], expected: list[float], spelling: str
) -> None:
    profile = profiled(lab, spelled)
    column = profile.column("price")
    assert column and (column.type, column.spelling, column.missing) == (ColumnType.NUMERIC, spelling, 0)
    assert (column.minimum, column.maximum) == (min(expected), max(expected))
    assert lab.table()["price"].to_pylist()[:4] == expected


@pytest.mark.parametrize(
    "spelled", [["1m", "5m", "15m", "30m"], ["5 g", "10 g"], ["2g", "3g", "4g", "5g"], ["30 min", "1 h", "n/a"]]
)
def test_few_different_measures_stay_as_they_are_written(lab: Lab, spelled: list[str]) -> None:
    rows = [f"{i % 7}\t{spelled[i % len(spelled)]}" for i in range(60)]
    profile = lab.profile("a.tsv", "\n".join(["z\tdose", *rows]), target="dose")
    column = profile.column("dose")
    kept = {value for value in spelled if value != "n/a"}
    assert column and (column.type, column.spelling) == (ColumnType.CATEGORY, "")
    assert column.reason.startswith(f"only {len(kept)} different numbers with ")
    assert profile.task == "tabular_classification" and {name for name, _ in profile.classes} == kept
    assert not {"number_unit", "numbers_as_words", "mixed_types"} & {found.code for found in profile.warnings}


@pytest.mark.parametrize(
    ("spelled", "said", "remedy"),
    [
        (
            ["$5", "$10"],
            "'price' holds only 2 different amounts, which are read as classes.",
            "If the amount is meant: S",
        ),
        (["5 g", "10 g"], "'price' holds only 2 different amounts, which are read as classes.", "type to numeric"),
        (["$5/$10", "$1/$2", "2/5"], "hold several numbers each, such as '$1/$2'", "a column of its own"),
        (["10-20 %", "20-30 %"], "hold several numbers each, such as '10-20 %'", "a column of its own"),
    ],
)
def test_why_amounts_to_predict_are_read_as_classes_is_said(
    lab: Lab, spelled: list[str], said: str, remedy: str
) -> None:
    profile = profiled(lab, spelled, target="price")
    assert profile.task == "tabular_classification"
    found = finding(profile, "amounts_as_classes", "price")
    assert said in found.message and remedy in found.meaning


@pytest.mark.parametrize("spelled", [["1", "2"], ["$5.50", *(f"${at}.25" for at in range(30))], ["a-1", "b-2"]])
def test_classes_and_amounts_that_need_no_word_get_none(lab: Lab, spelled: list[str]) -> None:
    profile = profiled(lab, spelled, target="price")
    assert "amounts_as_classes" not in {found.code for found in profile.warnings}


def test_one_number_in_two_units_is_two_values(lab: Lab) -> None:
    column = profiled(lab, ["1 m", "1 km"]).column("price")
    assert column and (column.type, column.unique) == (ColumnType.CATEGORY, 2)


def test_it_is_told_what_was_converted_and_where(lab: Lab) -> None:
    told = finding(profiled(lab, ["694 mm", "701", "38,5 cm", "702 mm", "1 m", "40 cm"]), "number_unit", "price")
    assert told.message == (
        "Numbers of 'price' are written with mm, which was taken off. 20 with cm and 10 with m were converted to mm. "
        "10 numbers without it were read the same way."
    )
    assert "may have it or not, or cm, m or km" in told.meaning
    assert told.severity is Severity.WARNING and told.rows == (3, 5, 6, 9, 11)


def test_a_measure_that_some_of_many_numbers_have_makes_none_of_them_a_word(lab: Lab) -> None:
    profiled(lab, [*map(str, range(1, 8)), "1.5 cm", "2 cm", "5 mm"])
    assert lab.table()["price"].to_pylist()[6:10] == [7, 1.5, 2, 0.5]


def test_a_measure_at_a_single_value_is_not_that_of_the_column(lab: Lab) -> None:
    rows = [f"{'12 m' if i == 7 else i % 97},{i % 4},{'ab'[i % 2]}\n" for i in range(400)]
    profile = lab.profile("a.csv", "size,z,label\n" + "".join(rows))
    column = profile.column("size")
    assert column and (column.type, column.spelling) == (ColumnType.NUMERIC, "")
    assert lab.table()["size"].to_pylist()[6:9] == [6, None, 8]
    assert "'12 m' in row 8" in finding(profile, "mixed_types", "size").message
    assert "number_unit" not in {found.code for found in profile.warnings}


@pytest.mark.parametrize(("name", "step"), [("size", 1), ("serial_no", 7)], ids=["count the rows", "named like a key"])
def test_measures_that_only_name_the_rows_are_an_identifier(lab: Lab, name: str, step: int) -> None:
    rows = [f"{1000 + step * i}m,{i % 4},{'ab'[i % 2]}\n" for i in range(60)]
    profile = lab.profile("a.csv", f"{name},z,label\n" + "".join(rows))
    column = profile.column(name)
    assert column and (column.type, column.spelling) == (ColumnType.IDENTIFIER, "")
    assert not {"number_unit", "numbers_as_words"} & {found.code for found in profile.warnings if found.column == name}


def test_measures_are_converted_alike_in_all_batches(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codegen.profile.delimited._SLOW_ROWS", 7)
    rows = [f'"{i} mm",{i % 4},"a ""{i % 2}"""' if i % 9 else f'"{i} cm",{i % 4},b' for i in range(1, 61)]
    lab.profile("a.csv", "\n".join(["size,z,label", *rows]))
    assert lab.table()["size"].to_pylist() == [i if i % 9 else 10 * i for i in range(1, 61)]


def test_a_mixed_category_tells_what_numbers_alone_would_lose(lab: Lab) -> None:
    told = finding(profiled(lab, ["5", "6 ft", "7 ft", "9 ft"]), "mixed_types", "price")
    assert "45 of 60 values would count as missing" in told.meaning
