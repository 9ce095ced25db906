"""Programs that forecast, from the file that a person uploads to the next values, on a machine that knows nothing of
us."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from tests.codegen.time_series import profiled, rising, shops
from tests.worker.runtime import samples


def trained(folder: Path, table, **spec) -> tuple[Path, dict]:
    """(program that has been trained, its results)."""
    profile = profiled(folder / "data", table)
    program = samples.program(folder, profile, alone=True, task="forecast", **spec)
    done = samples.python(program, "train.py", PYTHONPATH="")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Warning" not in done.stderr
    return program, json.loads((program / "work/results/results.json").read_text())


def charts(results: dict) -> dict[str, dict]:
    return {chart["id"]: chart for chart in results["charts"]}


def predicted(program: Path, *options: str):
    done = samples.python(program, "predict.py", "--output", "out.csv", *options, PYTHONPATH="")
    assert done.returncode == 0, done.stderr[-3000:]
    return pa_csv.read_csv(program / "out.csv")


@pytest.fixture(scope="module")
def risen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    return trained(tmp_path_factory.mktemp("risen"), rising(), training={"epochs": 6})


def test_a_rising_series_is_foretold_beyond_all_that_was_seen(risen: tuple[Path, dict]) -> None:
    program, results = risen
    assert "| `history.py` |" in (program / "README.md").read_text()
    test = results["metrics"]["test"]
    assert test["mae"] < 2.0, "chance alone is off by 0.8"
    assert test["r2"] > 0.9, "of the true values, not of what was learned"
    kept = pq.read_table(program / "work/results/predictions.parquet").filter(pc.field("split") == "test")
    assert kept.select(["row", "steps ahead"]).group_by(["row", "steps ahead"]).aggregate([]).num_rows == kept.num_rows
    coming = predicted(program)
    assert coming.column_names == ["day", "steps ahead", "forecast", "low", "high"]
    place = np.arange(400, 414)
    true = 100 + place + 10 * np.sin(2 * np.pi * place / 7)
    said, low, high = (coming[name].to_numpy() for name in ("forecast", "low", "high"))
    assert str(coming["day"][0]) == "2021-02-04"
    assert np.abs(said - true).mean() < 2.5 and ((low < said) & (said < high)).all()
    assert said.max() > rising()["sold"].to_numpy().max()


def test_results_show_the_back_test_beside_forecasts_without_a_model(risen: tuple[Path, dict]) -> None:
    _, results = risen
    drawn = charts(results)
    picture = drawn["back_test"]
    assert picture["split"] == "test" and len(picture["rows"]) == 80
    assert picture["columns"] == ["series", "time", "true", "forecast", "low", "high", "steps ahead"]
    assert [row[-1] for row in picture["rows"][:15]] == [*range(1, 15), 1]
    inside = np.mean([low <= true <= high for _, _, true, _, low, high, _ in picture["rows"]])
    assert inside > 0.6
    names = [row[0] for row in drawn["simple_forecasts"]["rows"]]
    assert names == ["this model", "last value", "7 steps before"]
    errors = [row[1] for row in drawn["simple_forecasts"]["rows"]]
    assert errors[0] == pytest.approx(results["metrics"]["test"]["mae"]) and errors[0] < min(errors[1:])
    assert "less than that of the best simple forecast" in drawn["simple_forecasts"]["note"]
    assert len(drawn["error_by_step"]["rows"]) == 3 * 14
    assert all(row[0].startswith(("sold: ", "day: ")) for row in drawn["importance"]["rows"])
    assert {row[0] for row in drawn["error_by_feature"]["rows"]} <= {row[0] for row in drawn["importance"]["rows"]}
    assert results["ranges"]["said"].startswith("A forecast comes with a range that held 90 %")
    assert results["intervals"] == {"test": {}}, "80 moments are too few stretches of time"


def test_newer_rows_are_gone_on_from_and_mistakes_in_them_are_told(risen: tuple[Path, dict]) -> None:
    program, _ = risen
    (program / "new.csv").write_text("day,sold\n04.02.2021,510\n05.02.2021,511\n")
    coming = predicted(program, "--input", "new.csv")
    assert str(coming["day"][0]) == "2021-02-06" and coming["forecast"][0].as_py() > 450
    for text, told in (
        ("day\n2021-02-04\n", "Column missing from the input: sold"),
        ("day,sold\n2022-01-01,1\n", "Rows are missing between"),
    ):
        (program / "bad.csv").write_text(text)
        done = samples.python(program, "predict.py", "--output", "out.csv", "--input", "bad.csv", PYTHONPATH="")
        assert done.returncode != 0 and told in done.stderr and "Traceback" not in done.stderr


def test_several_series_are_learned_together_and_each_is_foretold(tmp_path: Path) -> None:
    program, results = trained(tmp_path, shops(), data={"horizon": 7}, training={"epochs": 8})
    assert results["metrics"]["test"]["r2"] > 0.9
    assert list(dict.fromkeys(row[0] for row in charts(results)["back_test"]["rows"])) == ["north", "south", "west"]
    done = samples.python(program, "predict.py", "--output", "out.json", PYTHONPATH="")
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads((program / "out.json").read_text())
    assert answer["columns"] == ["shop", "day", "steps ahead", "forecast", "low", "high"]
    assert [row[0] for row in answer["rows"]] == ["north"] * 7 + ["south"] * 7 + ["west"] * 7
    assert answer["history"]["columns"] == ["shop", "day", "sold"]
    for name, middle in (("north", 110), ("south", 160), ("west", 210)):
        said = np.mean([row[3] for row in answer["rows"] if row[0] == name])
        assert said == pytest.approx(middle, abs=15)
