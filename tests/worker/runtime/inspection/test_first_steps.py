"""The first steps of train.py when a program is checked: on a few rows, or all where a few do not do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from worker.runtime.failures import ProgramFailure
from worker.runtime.inspection.few_rows import LIMIT_BYTES
from worker.runtime.inspection.first_steps import first_steps_make

ROWS = LIMIT_BYTES // 4
TRAIN = """
import pyarrow.parquet as pq
from worker.runtime import Run
run = Run.start("spec.yaml")
rows = pq.read_metadata(run.data_folder / "table.parquet").num_rows
with open("seen", "a") as file:
    print(rows, file=file)
if rows < {least}:
    raise ValueError(f"{{rows}} rows do not do")
run.finish(None)
"""
OWN_STEPS = """
import torch
from worker.runtime import Run
run = Run.start("spec.yaml")
net = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(net.parameters())
for _ in range(2):
    net(torch.ones(4, 1)).sum().backward()
    optimizer.step()
"""


def seen(wine_program: Path, folder: Path, *, least: int) -> list[int]:
    """How many rows a program saw that needs so many. Raises what it raises."""
    (folder / "data").mkdir()
    pq.write_table(pa.table({"x": pa.array(range(ROWS), pa.int64())}), folder / "data" / "table.parquet")
    shutil.copy(wine_program / "spec.yaml", folder)
    (folder / "train.py").write_text(TRAIN.format(least=least))
    try:
        first_steps_make(folder, folder / "data", 16)
    finally:
        counts = [int(line) for line in (folder / "seen").read_text().split()]
    return counts


def test_a_few_rows_do_where_a_program_can_do_with_them(wine_program: Path, tmp_path: Path) -> None:
    (count,) = seen(wine_program, tmp_path, least=1)
    assert count < ROWS


def test_a_program_that_needs_all_rows_gets_them(wine_program: Path, tmp_path: Path) -> None:
    assert seen(wine_program, tmp_path, least=ROWS)[-1] == ROWS


def test_what_fails_on_all_rows_is_told_of_them(wine_program: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"{ROWS} rows do not do"):
        seen(wine_program, tmp_path, least=ROWS + 1)


@pytest.mark.parametrize("train", ["print('all is well')\n", OWN_STEPS], ids=["nothing", "steps of its own"])
def test_a_train_py_that_ends_without_a_step_is_told_so(train: str, wine_program: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    pq.write_table(pa.table({"x": pa.array(range(9), pa.int64())}), tmp_path / "data" / "table.parquet")
    shutil.copy(wine_program / "spec.yaml", tmp_path)
    (tmp_path / "train.py").write_text(train)
    with pytest.raises(ProgramFailure, match=r"without a step.*run\.batches.*without run\.finish") as caught:
        first_steps_make(tmp_path, tmp_path / "data", 16)
    assert "Run.start" in caught.value.hint and "run.finish(dataset)" in caught.value.hint
    (tmp_path / "train.py").write_text(OWN_STEPS + "run.finish(None)\n")
    first_steps_make(tmp_path, tmp_path / "data", 16)
