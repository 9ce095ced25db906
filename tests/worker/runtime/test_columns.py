"""A table in a file is read by the column or some rows at a time, and holds what the whole of it would."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from worker.runtime import columns
from worker.runtime.columns import Columns
from worker.runtime.split import same_rows

ROWS = 1000
CHOSEN = np.array([999, 3, 250, 251, 0, 700])


@pytest.fixture
def whole(tmp_path: Path) -> pa.Table:
    """Also written to `table.parquet`, in row groups of 300."""
    numbers = pa.array(range(ROWS), mask=np.arange(ROWS) % 7 == 0)
    table = pa.table({"a": numbers, "b.c": [f"text {row % 9}" for row in range(ROWS)], "d": np.arange(ROWS) / 3})
    pq.write_table(table, tmp_path / "table.parquet", row_group_size=300)
    return table


@pytest.mark.parametrize("at_once", [1, 2000, 10**6], ids=["a column", "two columns", "all columns"])
def test_columns_are_those_of_the_whole_in_any_order(
    whole: pa.Table, tmp_path: Path, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "VALUES_AT_ONCE", at_once)
    table = Columns(tmp_path / "table.parquet")
    assert table.column_names == whole.column_names and table.num_rows == ROWS
    for name in ("d", "a", "b.c", "b.c", "a"):
        assert table[name].equals(whole[name])
    with pytest.raises(KeyError, match="x"):
        table["x"]


@pytest.mark.parametrize("piece_bytes", [1, 1000, 5000])
def test_texts_that_one_piece_cannot_hold_come_in_several(
    whole: pa.Table, tmp_path: Path, piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "PIECE_BYTES", piece_bytes)
    table = Columns(tmp_path / "table.parquet")
    assert table["b.c"].equals(whole["b.c"]) and table["a"].equals(whole["a"])
    assert table["b.c"].num_chunks > 1
    chosen = table.take(CHOSEN)["b.c"]
    assert chosen.to_pylist() == whole["b.c"].take(pa.array(CHOSEN)).to_pylist()
    assert len(table.take(np.empty(0, np.int64))["b.c"]) == 0


def test_chosen_columns_and_rows_are_those_alone_in_their_order(whole: pa.Table, tmp_path: Path) -> None:
    table = Columns(tmp_path / "table.parquet").select(["d", "a"]).take(CHOSEN)
    assert table.column_names == ["d", "a"] and table.num_rows == len(CHOSEN)
    assert table["a"].to_pylist() == whole["a"].take(pa.array(CHOSEN)).to_pylist()
    again = table.take(np.array([2, 0]))
    assert again["d"].to_pylist() == [250 / 3, 999 / 3]


@pytest.mark.parametrize("at_once", [1, 30, 10**6])
def test_blocks_hold_each_chosen_row_once_and_tell_its_place(
    whole: pa.Table, tmp_path: Path, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "VALUES_AT_ONCE", at_once)
    found: dict[int, float] = {}
    for places, rows in Columns(tmp_path / "table.parquet").select(["d", "a"]).take(CHOSEN).blocks():
        assert rows.column_names == ["d", "a"] and 0 < rows.num_rows == len(places) <= max(1, at_once // 2)
        found |= dict(zip(places.tolist(), rows["d"].to_pylist(), strict=True))
    assert [found[place] for place in range(len(CHOSEN))] == whole["d"].take(pa.array(CHOSEN)).to_pylist()


def test_a_table_without_rows_has_columns_and_no_blocks(whole: pa.Table, tmp_path: Path) -> None:
    table = Columns(tmp_path / "table.parquet").take(np.empty(0, np.int64))
    assert table["a"].to_pylist() == [] and list(table.blocks()) == []


@pytest.mark.parametrize("from_file", [True, False])
def test_rows_are_alike_whatever_size_their_texts_have(
    whole: pa.Table, tmp_path: Path, from_file: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = whole.select(["b.c"])
    alike = same_rows(texts, np.arange(ROWS) % 5)
    monkeypatch.setattr(columns, "PIECE_BYTES", 1)
    again = same_rows(Columns(tmp_path / "table.parquet", ["b.c"]) if from_file else texts, np.arange(ROWS) % 5)
    assert (again == alike).all()
