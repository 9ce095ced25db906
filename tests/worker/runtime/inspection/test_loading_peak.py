"""How much memory reading the rows is foretold to take, by how a program reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worker.runtime.samples import program, wine
from tests.worker.runtime.traces import traced
from worker.runtime.inspection.workloads import loading_of

WHOLE_TABLE = """\
import numpy as np, pyarrow.parquet as pq, torch
from worker.runtime.data import Dataset, Part

def load(spec, folder):
    table = pq.read_table(folder / "table.parquet")
    names = [name for name in table.column_names if name != spec.shape.target]
    numbers = torch.tensor(np.stack([table[name].to_numpy() for name in names], 1), dtype=torch.float32)
    classes = sorted(set(table[spec.shape.target].to_pylist()))
    targets = torch.tensor([classes.index(name) for name in table[spec.shape.target].to_pylist()])
    rows = torch.arange(len(targets)).split([len(targets) - 40, 20, 20])
    none = torch.empty(len(targets), 0, dtype=torch.int64)
    parts = [Part((numbers[part], none[part]), targets[part], part) for part in rows]
    shape = {"features": names, "categorical": [], "cardinalities": [], "classes": classes, "outputs": len(classes)}
    return Dataset(*parts, classes, {}, shape)
"""


def test_a_program_that_reads_its_table_whole_is_given_the_memory_for_that(tmp_path: Path) -> None:
    folder = program(tmp_path / "program", wine(tmp_path / "data"), model={"family": "mlp"})
    by_column = traced(folder, tmp_path / "data")
    (folder / "data.py").write_text(WHOLE_TABLE)
    whole = traced(folder, tmp_path / "data")
    assert whole.dataset_bytes == by_column.dataset_bytes
    assert by_column.loading_bytes == by_column.dataset_bytes + 130 * 178
    assert whole.loading_bytes == 8 * whole.dataset_bytes


@pytest.mark.parametrize(
    ("source", "by_column"),
    [
        ("import torch\nfrom worker.runtime.columns import Columns\n", True),
        ("import worker.runtime.columns as columns\n", True),
        ("# no more: from worker.runtime.columns import Columns\n", False),
        ("import pyarrow.parquet as pq\n", False),
    ],
)
def test_an_import_tells_how_a_table_is_read_and_nothing_of_pictures(source: str, by_column: bool) -> None:
    for task in ("tabular_classification", "tabular_regression"):
        assert loading_of(task, source) == ((1.0, 130) if by_column else (8.0, 0))
    assert loading_of("image_classification", source) == (2.0, 0)
    assert loading_of("another", source) == (0.0, 0)
