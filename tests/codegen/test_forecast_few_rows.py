"""A forecast whose data are too large to be read whole while a program is looked at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.codegen.time_series import days, profiled
from tests.worker.runtime import samples
from worker.runtime.inspection.few_rows import few_rows
from worker.runtime.inspection.trace import trace
from worker.runtime.spec import load_spec

SERIES, DAYS = 60, 100


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(program, data) of many series, each day of all of them below the day before."""
    folder, chance = tmp_path_factory.mktemp("many"), np.random.default_rng(0)
    columns = {
        "day": [day for day in days(DAYS) for _ in range(SERIES)],
        "shop": [f"shop {number}" for number in range(SERIES)] * DAYS,
        "sold": chance.normal(size=SERIES * DAYS),
    }
    profile = profiled(folder / "data", pa.table(columns))
    return samples.program(folder, profile, alone=True, task="forecast", data={"horizon": 7}), folder / "data"


def test_some_series_are_taken_whole(made: tuple[Path, Path]) -> None:
    program, data = made
    with few_rows(data, load_spec(program / "spec.yaml"), limit_bytes=5_000) as few:
        table = pq.read_table(few.folder / "table.parquet")
    sizes = set(table["shop"].value_counts().field("counts").to_pylist())
    assert sizes == {DAYS} and few.share == table.num_rows / (SERIES * DAYS) < 0.2


def test_the_program_is_traced_and_counted_as_with_all_rows(made: tuple[Path, Path]) -> None:
    program, data = made
    few, whole = trace(program, data, limit_bytes=5_000), trace(program, data)
    assert few["ok"] and whole["ok"], few["problem"]
    for name in ("train_rows", "evaluated_rows", "dataset_bytes", "parameters"):
        assert few["workload"][name] == pytest.approx(whole["workload"][name], rel=0.05), name
