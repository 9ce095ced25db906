"""What is looked for in all columns of a batch at once: no column is read otherwise for it."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from codegen.profile import marks
from codegen.profile.marks import batch_marks
from codegen.profile.survey import ColumnSurvey

TEXTS = st.sampled_from(
    [
        "007",
        " 007 ",
        "0.7",
        "0",
        "1.234",
        "\u00a01.234",
        "-1.234.567",
        "12.5",
        "$007",
        "$ 1.234",
        "NaN",
        "inf",
        "na",
        "x",
        "",
    ]
)
COLUMN = st.lists(TEXTS | st.none(), min_size=1, max_size=12)


def told(survey: ColumnSurvey) -> dict[str, object]:
    survey.settle(comma_elsewhere=False)
    found = vars(survey.numbers) | vars(survey.words) | {"coded": survey.coded, "present": survey.present}
    return found | {"distinct": survey.distinct.count, "unit": survey.unit, "markers": survey.markers}


@given(column=COLUMN, comma=st.booleans())
def test_a_column_is_surveyed_alike_with_and_without_marks(column: list[str | None], comma: bool) -> None:
    values = pl.Series("x", column, dtype=pl.String)
    with_marks, without = (ColumnSurvey("x", decimal_comma=comma) for _ in range(2))
    with_marks.add(values, batch_marks(values.to_frame())["x"])
    without.add(values)
    assert told(with_marks) == told(without)


def test_columns_of_numbers_and_long_batches_are_not_looked_through() -> None:
    assert batch_marks(pl.DataFrame({"x": [1.5]})) == {}
    assert batch_marks(pl.DataFrame({"x": ["1"] * (marks._SHORT_ROWS + 1)})) == {}
    assert batch_marks(pl.DataFrame({"x": ["1"], "^y$": ["01"], "z": [1]})).keys() == {"x", "^y$"}
