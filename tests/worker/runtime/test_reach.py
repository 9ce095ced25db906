"""Dates that programs write for no date count as missing in training, and in rows to predict for."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from codegen.profile import profile_dataset
from codegen.profile.types import ColumnType, ProfileOptions
from worker.runtime.onnx_export import predict_table
from worker.runtime.spelling import as_trained
from worker.runtime.tables import InputError

NOTED = {"numeric": [{"column": "when", "kind": "dates", "feature": "when: days"}], "missing": ["when"]}
NO_DATE = datetime(1, 1, 1)
ROWS = [datetime(2020, 1 + row % 12, 1 + row % 28) if row % 40 else NO_DATE for row in range(200)]


def packed(folder: Path, name: str) -> list[datetime | None]:
    """The dates as training reads them, of a file of them."""
    table = pa.table({"when": pa.array(ROWS, pa.timestamp("us")), "y": [row % 2 for row in range(len(ROWS))]})
    if name.endswith(".parquet"):
        pq.write_table(table, folder / name)
    else:
        lines = [f"{day.isoformat()[:10]},{row % 2}\n" for row, day in enumerate(ROWS)]
        (folder / name).write_text("".join(["when,y\n", *lines]))
    options = ProfileOptions(target="y", column_types={"when": ColumnType.DATE})
    profile_dataset(folder / name, folder / "packed", options, lambda *_: None)
    return pq.read_table(folder / "packed" / "table.parquet")["when"].to_pylist()


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
@pytest.mark.parametrize("kind", [pa.string(), pa.timestamp("us"), pa.timestamp("s"), pa.timestamp("us", "UTC")])
def test_rows_to_predict_for_lack_the_dates_that_training_lacked(tmp_path: Path, name: str, kind: pa.DataType) -> None:
    trained = packed(tmp_path, name)
    assert trained[0] is None and trained.count(None) == 5
    told: list[str] = []
    table = pa.table({"when": pa.array(ROWS, pa.timestamp("us")).cast(kind)})
    assert as_trained(NOTED, table, told.append)["when"].to_pylist() == trained
    assert told == [
        "Column 'when': 5 dates lie outside of the years 1000 to 9999, such as in row 1; they count as missing, as in "
        "training."
    ]


@pytest.mark.parametrize("trained", ["", "%d.%m.%Y", "%Y-%m-%d"])
@pytest.mark.parametrize(
    ("texts", "days"),
    [
        (["01.01.0001", "05.03.2020", None, "2020-03-06"], [None, datetime(2020, 3, 5), None, datetime(2020, 3, 6)]),
        (["01.01.0001", "31.12.07"], [None, datetime(2007, 12, 31)]),
        (["01/01/0001", "01/01/0001"], [None, None]),
        (["0001-01-01", "13/05/2020"], [None, datetime(2020, 5, 13)]),
    ],
)
def test_so_do_those_in_other_formats(texts: list[str | None], days: list[datetime | None], trained: str) -> None:
    told: list[str] = []
    noted = {**NOTED, "missing": [], "spelling": {"when": trained}}
    read = as_trained(noted, pa.table({"when": pa.array(texts, pa.string())}), told.append)
    assert read["when"].to_pylist() == days
    assert len(told) == 1 and "outside of the years 1000 to 9999, such as in row 1;" in told[0]


@pytest.mark.parametrize("text", ["01.01.001", "31.02.0001", "soon"])
def test_what_no_format_reads_is_still_refused_beside_them(text: str) -> None:
    table = pa.table({"when": ["01.01.0001", "05.03.2020", text]})
    with pytest.raises(InputError, match=r"Row 3.*is not a date that can be read"):
        as_trained({**NOTED, "missing": []}, table)


def test_so_do_those_that_are_predicted_for_without_torch() -> None:
    days = [predict_table.date_number(text, "days", "") for text in ("0001-01-01", "0999-12-31", "1000-01-01")]
    assert np.isnan(days).tolist() == [True, True, False]
    assert np.isnan(predict_table.date_number("0001-01-01T00:00:00+00:00", "year", ""))
