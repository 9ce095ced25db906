"""Rows to predict for are prepared many at a time, handed to the model in chunks, and named where they are at fault."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
import torch
from torch import Tensor

from worker.runtime import serving

PREPROCESS = {"numeric": [{"column": "x", "kind": "numeric", "low": 0.0, "high": 1e9}], "categorical": []}
ROWS = 2 * serving.BLOCK_ROWS + 700


def rows_of(values: list[Any]) -> pa.Table:
    return pa.table({"x": values})


def prepare(preprocess: dict[str, Any], table: pa.Table) -> tuple[Tensor, ...]:
    values = table["x"].to_pylist()
    if -1 in values:
        raise ValueError("a number below 0")
    return torch.tensor(values), -torch.tensor(values)


def test_every_row_comes_once_in_order_and_few_calls_prepare_them() -> None:
    asked: list[int] = []

    def counted(preprocess: dict[str, Any], table: pa.Table) -> tuple[Tensor, ...]:
        asked.append(table.num_rows)
        return prepare(preprocess, table)

    chunks = list(serving.table_inputs(counted, PREPROCESS, rows_of(list(range(ROWS)))))
    assert max(len(chunk) for chunk, _ in chunks) == serving.CHUNK
    assert torch.cat([chunk for chunk, _ in chunks]).tolist() == list(range(ROWS))
    assert all(torch.equal(first, -second) for first, second in chunks)
    assert asked == [0, serving.BLOCK_ROWS, serving.BLOCK_ROWS, 700]


def test_of_a_wide_table_fewer_rows_are_prepared_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "VALUES_AT_ONCE", 2 * serving.CHUNK + 1)
    asked: list[int] = []

    def counted(preprocess: dict[str, Any], table: pa.Table) -> tuple[Tensor, ...]:
        asked.append(table.num_rows)
        return prepare(preprocess, table)

    assert len(list(serving.table_inputs(counted, PREPROCESS, rows_of(list(range(1500)))))) == 3
    assert asked == [0, 2 * serving.CHUNK, 1500 - 2 * serving.CHUNK]


@pytest.mark.parametrize("at", [0, 511, 512, 5000, ROWS - 1])
def test_the_first_row_at_fault_is_named_wherever_it_lies(at: int) -> None:
    values = list(range(ROWS))
    values[at] = values[-1] = -1
    with pytest.raises(serving.InputError, match=f"^Row {at + 1}: a number below 0"):
        list(serving.table_inputs(prepare, PREPROCESS, rows_of(values)))
