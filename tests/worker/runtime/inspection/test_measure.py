"""Timed real steps, made-up rows, and the ranks that a measurement starts."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from codegen.profile.types import ColumnType
from codegen.reading import table_shape
from scheduler.estimation.calibration import CalibrationPoint
from scheduler.estimation.link import fit_link
from scheduler.workload import Workload
from tests.codegen.model_profiles import column
from tests.codegen.programs import module
from tests.codegen.time_series import profiled, rising, shops
from tests.worker.runtime.apart import apart
from tests.worker.runtime.samples import change_spec, diabetes, digits, pack_table, program, python, staged, wine
from worker import power
from worker.power import EnergyMeter
from worker.quiet import Gauge
from worker.runtime.inspection.few_rows import LIMIT_BYTES, GivenShapeSpec
from worker.runtime.inspection.measure import measure, together
from worker.runtime.inspection.synthetic_rows import make_rows
from worker.runtime.spec import as_spec, load_spec

PACKERS = {"digits": lambda folder: digits(folder, 200), "wine": wine, "diabetes": diabetes}


def measured(folder: Path, data: Path | None, gauge: Gauge | None = None, **changes: Any) -> dict[str, Any]:
    options = {"batch": None, "steps": 2, "repeats": 2, "budget": 20.0, "device": "cpu", "threads": 1, **changes}
    return apart(measure, folder, data, argparse.Namespace(**options), 0, gauge)


def make(tmp_path: Path, dataset: str, **spec: Any) -> tuple[Path, Path]:
    data = tmp_path / "data"
    profile = PACKERS[dataset](data)
    return program(tmp_path / "program", profile, **spec), data


@pytest.mark.parametrize(
    ("dataset", "family"),
    [("digits", "cnn"), ("digits", "convnext"), ("wine", "resmlp"), ("diabetes", "ft_transformer")],
)
def test_a_program_is_measured_on_its_rows_and_on_made_up_ones(dataset: str, family: str, tmp_path: Path) -> None:
    folder, data = make(tmp_path, dataset, model={"family": family, "size": "small"})
    for rows in (data, None):
        answer = measured(folder, rows, batch=24)  # idle taken as 0: this process is no fresh one
        assert answer["ok"], answer["problem"]
        assert len(answer["step_s"]) == 2
        assert all(math.isfinite(value) and value > 0 for value in answer["step_s"])
        assert answer["steps"] >= 2 and len(answer["warmup_s"]) == 2
        assert 0 < answer["data_s"] < min(answer["step_s"])
        assert answer["evaluation_row_s"] > 0
        assert answer["run_peak_bytes"] >= answer["peak_bytes"] > 0
        assert answer["noise"] >= 0
        load = Workload.from_dict(json.loads(json.dumps(answer["workload"])))
        assert (load.batch_size, load.parameters) == (24, answer["parameters"])


def test_the_workload_counts_all_rows_of_data_of_which_few_were_measured(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    columns = {f"x{number}": generator.normal(size=12_000) for number in range(40)}
    kinds = {"kind": [("low", "high")[int(value > 0)] for value in columns["x0"]]}
    profile = pack_table(tmp_path / "data", columns | kinds, "kind")
    assert (tmp_path / "data" / "table.parquet").stat().st_size > LIMIT_BYTES
    split = {"split": {"validation": 0.1, "test": 0.1}}
    folder = program(tmp_path / "program", profile, model={"family": "mlp", "size": "small"}, data=split)
    answer = measured(folder, tmp_path / "data")
    assert answer["workload"]["train_rows"] == pytest.approx(9600, rel=0.01)


class Spell(Gauge):
    """A host that is loud for so many readings, and quiet then."""

    loud = 12

    def is_quiet(self) -> bool:
        self.loud -= 1
        return self.loud < 0


class Loud(Gauge):
    """A host that never is quiet."""

    def is_quiet(self) -> bool:
        return False


def test_what_is_loaded_once_counts_for_no_row(tmp_path: Path) -> None:
    folder, data = make(tmp_path, "wine")
    slow, once_s = folder / "data.py", 3.0
    slow.write_text(f"import time\n\ntime.sleep({once_s})\n" + slow.read_text())
    answer = measured(folder, data)
    assert answer["ok"], answer["problem"]
    assert 0 < answer["load_row_s"] * 178 < once_s < answer["load_once_s"]


def test_steps_of_a_loud_host_are_made_again(tmp_path: Path) -> None:
    folder, data = make(tmp_path, "wine", model={"family": "mlp"})
    answer = measured(folder, data, gauge=Spell(0.5))
    assert answer["ok"], answer["problem"]
    assert answer["loud_s"] > 0
    assert answer["quickest_s"] == 0.5
    assert measured(folder, data)["quickest_s"] is None


def test_a_host_that_stays_loud_is_measured_as_it_is(tmp_path: Path) -> None:
    folder, data = make(tmp_path, "wine", model={"family": "mlp"})
    answer = measured(folder, data, gauge=Loud(patience_s=0.2))
    assert answer["ok"], answer["problem"]
    assert answer["loud_s"] >= 0.2
    assert len(answer["step_s"]) == 2


@pytest.mark.parametrize(("asked", "precision"), [("auto", "float32"), ("bf16", "bfloat16")])
def test_an_answer_makes_a_calibration_point(asked: str, precision: str, tmp_path: Path) -> None:
    folder, data = make(tmp_path, "wine", model={"family": "mlp"}, training={"precision": asked})
    answer = measured(folder, data)
    point = CalibrationPoint.from_dict(
        {
            "workload": answer["workload"], "kind": "cpu", "model_name": "test", "step_s": answer["step_s"],
            "peak_bytes": answer["peak_bytes"], "power_w": answer["power_w"], "noise": answer["noise"],
            "batch_size": answer["batch_size"], "precision": answer["precision"],
        }
    )  # fmt: skip
    assert point.typical_s > 0 and point.computed_in == precision and point.workload.precision == asked


def test_a_batch_larger_than_the_rows_there_are_is_measured_as_it_is(tmp_path: Path) -> None:
    folder, data = make(tmp_path, "wine", model={"family": "mlp"})
    counted = folder / "train.py"
    text = counted.read_text().replace(
        "        rate = learning_rate(run.done)\n",
        "        rate = learning_rate(run.done)\n        assert len(targets) == 500, len(targets)\n",
    )
    assert "500" in text
    counted.write_text(text)
    answer = measured(folder, data, batch=500)
    assert answer["ok"], answer["problem"]
    assert answer["batch_size"] == 500


def test_the_steps_are_those_of_train_py_itself(tmp_path: Path) -> None:
    folder, data = make(tmp_path, "wine", model={"family": "mlp"})
    change_spec(folder, training={"optimizer": "sgd", "clip_norm": 0, "ema": 0})
    plain = measured(folder, data)
    train = folder / "train.py"
    place = "run.update(optimizer)"
    train.write_text(train.read_text().replace(place, f"import time; time.sleep(0.05); {place}"))
    slow = measured(folder, data)
    assert slow["step_s"][0] > 0.05
    assert plain["ok"] and slow["ok"]


def test_more_memory_is_seen_where_a_step_takes_more(tmp_path: Path) -> None:
    folder, _ = make(tmp_path, "wine", model={"family": "mlp", "params": {"layers": 2, "width": 256}})
    peaks = []
    for batch in (64, 16384):
        arguments = ("--program", str(folder), "--batch", str(batch), "--steps", "1", "--repeats", "1")
        done = python(folder, "-m", "worker.runtime.inspection.measure", *arguments)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout.splitlines()[-1])
        peaks.append(answer["peak_bytes"])
        load = Workload.from_dict(answer["workload"])
    assert peaks[1] - peaks[0] > 0.6 * load.activation_bytes


def test_a_program_that_cannot_be_traced_can_be_measured(tmp_path: Path) -> None:
    source = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(13, 3)
    def forward(self, numeric, categorical):
        return self.head(numeric if float(numeric.mean()) > 0 else -numeric)

def build(spec):
    return Net()
"""
    data = tmp_path / "data"
    folder = program(tmp_path / "program", wine(data), own_model=source)
    answer = measured(folder, data)
    assert answer["ok"], answer["problem"]
    assert answer["workload"] is None
    assert answer["trace_problem"]["code"] == "cannot_trace"


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("def build(spec): return 3", "model_no_build"),
        ("import sys; sys.exit(0)", "program_error"),
        ("def build(spec): raise ValueError('no')", "program_error"),
    ],
)
def test_a_faulty_program_is_told_apart(source: str, code: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    folder = program(tmp_path / "program", wine(data), own_model=source)
    answer = measured(folder, data)
    assert not answer["ok"]
    assert answer["problem"]["code"] == code


@pytest.mark.parametrize("dataset", PACKERS)
def test_made_up_rows_have_the_shape_of_the_real_ones(dataset: str, tmp_path: Path) -> None:
    folder, data = make(tmp_path, dataset)
    spec = load_spec(folder / "spec.yaml")
    made = make_rows(spec, tmp_path / "made")
    (name,) = [file.name for file in made.iterdir()]
    real, mine = pq.read_schema(data / name), pq.read_schema(made / name)
    assert set(mine.names) == set(real.names)
    assert GivenShapeSpec(spec).with_shape({"outputs": 99, "new": 1}).shape.outputs == spec.shape.outputs


@pytest.mark.parametrize("by", ["group", "time"])
def test_made_up_rows_have_parts_where_there_is_no_group_or_time_to_split_by(by: str, tmp_path: Path) -> None:
    columns = {"visit": np.arange(60) // 3, "x": np.arange(60.0), "kind": ["ab"[row % 2] for row in range(60)]}
    profile = pack_table(tmp_path / "data", columns, "kind")
    wish = {"by": by, "column": "visit", "validation": 0.25, "test": 0.25}
    folder = program(tmp_path / "program", profile, data={"exclude": ["visit"], "split": wish})
    spec = load_spec(folder / "spec.yaml")
    dataset = module("data_tabular.py").load(spec, make_rows(spec, tmp_path / "made"))
    assert [len(part) for part in (dataset.train, dataset.val, dataset.test)] == pytest.approx([128, 64, 64], abs=2)


def test_inputs_that_do_not_change_in_a_few_rows_are_left_out_of_the_model_too() -> None:
    shape = {"categorical": ["a", "b", "c"], "cardinalities": [9, 300, 5], "features": ["x", "y"], "classes": ["p"]}
    few = {"categorical": ["a", "c"], "cardinalities": [3, 2], "features": ["y"], "classes": ["p", "q"]}
    taken = GivenShapeSpec({"shape": as_spec(shape)}).with_shape(few).shape
    assert (taken.categorical, taken.cardinalities, taken.features) == (["a", "c"], [9, 5], ["y"])
    assert taken.classes == ["p"]


def test_made_up_rows_change_in_every_input(tmp_path: Path) -> None:
    kinds = (ColumnType.NUMERIC, ColumnType.DATE, ColumnType.TEXT, ColumnType.CATEGORY)
    columns = [column(kind.value, kind, missing=3) for kind in kinds]
    columns += [
        column(f"no {part}", ColumnType.DATE, same_parts=(part,)) for part in ("hour", "year", "month", "weekday")
    ]
    columns += [column(f"no {part}", ColumnType.TEXT, same_parts=(part,)) for part in ("characters", "words")]
    shape = table_shape(columns, 256) | {"target": "kind", "classes": ["a", "b"], "outputs": 2}
    split = {"validation": 0.1, "test": 0.1, "stratify": True}
    body = {"task": "tabular_classification", "data": {"split": split}, "training": {"seed": 0}, "shape": shape}
    dataset = module("data_tabular.py").load(as_spec(body), make_rows(as_spec(body), tmp_path / "made"))
    assert dataset.shape["features"] == shape["features"] and dataset.shape["categorical"] == ["category"]


KINDS = ("numeric", "categorical")


@pytest.mark.parametrize("several", [False, True])
def test_made_up_rows_of_a_forecast_are_series(several: bool, tmp_path: Path) -> None:
    table = shops(120) if several else rising(120)
    wish = {"target": "sold", **({"known": ["rain"]} if several else {})}
    folder = program(tmp_path / "program", profiled(tmp_path / "data", table), task="forecast", data=wish)
    spec = load_spec(folder / "spec.yaml")
    made = make_rows(spec, tmp_path / "made")
    assert set(pq.read_schema(made / "table.parquet").names) == set(table.column_names)
    names = []
    for rows in (tmp_path / "data", made):
        examples, parts, *_ = module("history.py").read(spec, pq.read_table(rows / "table.parquet"))
        assert all(len(places) for places in parts.values())
        fitted = module("data_tabular.py").fit(spec.shape, examples.inputs.take(parts["train"]))
        names.append([(column["column"], column.get("feature")) for kind in KINDS for column in fitted[kind]])
    assert set(names[0]) <= set(names[1]), "what never changes in the real rows does in these"


def test_the_slowest_rank_and_the_largest_memory_count() -> None:
    one = {"ok": True, "step_s": [1.0, 2.0], "peak_bytes": 5, "run_peak_bytes": 6, "power_w": 3.0, "device": "cuda:0"}
    two = {**one, "step_s": [1.5, 1.0], "peak_bytes": 4, "run_peak_bytes": 9}
    both = together([one, two])
    assert (both["step_s"], both["peak_bytes"], both["run_peak_bytes"], both["power_w"]) == ([1.5, 2.0], 5, 9, 6.0)
    assert together([{**one, "device": "cpu"}, two])["power_w"] == 3.0
    bad = {"ok": False, "problem": {"code": "x"}}
    assert together([one, bad]) == bad


@pytest.mark.ranks
def test_two_ranks_are_measured_together(tmp_path: Path) -> None:
    folder, data = make(tmp_path, "wine", model={"family": "mlp"})
    arguments = ("--program", str(folder), "--data", str(data), "--batch", "32", "--ranks", "2", "--repeats", "2")
    done = python(folder, "-m", "worker.runtime.inspection.measure", *arguments)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert (answer["ranks"], answer["batch_size"], len(answer["step_s"])) == (2, 32, 2)
    assert Workload.from_dict(answer["workload"]).batch_size == 16
    assert [line for line in done.stdout.splitlines() if "mark" in line] == ['{"mark": "begin"}', '{"mark": "end"}']


@pytest.mark.ranks
def test_a_rank_that_fails_is_told_and_nothing_hangs(tmp_path: Path) -> None:
    folder, data = make(tmp_path, "wine", model={"family": "mlp"})
    train = folder / "train.py"
    text = train.read_text()
    train.write_text(text.replace("loss = run.backward(", "raise RuntimeError(f'rank {run.rank} broke')\n        ("))
    arguments = ("--program", str(folder), "--data", str(data), "--ranks", "2")
    done = python(folder, "-m", "worker.runtime.inspection.measure", *arguments)
    assert done.returncode != 0
    answer = json.loads(done.stdout.splitlines()[-1])
    assert not answer["ok"]
    assert "broke" in answer["problem"]["message"] or "rank" in answer["problem"]["message"]


@pytest.mark.ranks
def test_a_link_is_timed_by_the_runtimes_own_collective(tmp_path: Path) -> None:
    done = python(tmp_path, "-m", "worker.runtime.inspection.link", "--ranks", "2")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["ok"] and answer["ranks"] == 2
    assert len(answer["sizes_bytes"]) == len(answer["seconds"])
    link = fit_link(answer["sizes_bytes"], answer["seconds"])
    assert link.latency_s > 0 and link.bytes_per_s > 1e6


def test_packages_count_joules_and_a_counter_that_wraps_is_no_gain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone = tmp_path / "intel-rapl:0"
    zone.mkdir()
    (zone / "name").write_text("package-0\n")
    (zone / "max_energy_range_uj").write_text("10000000\n")
    (tmp_path / "intel-rapl:0:0").mkdir()
    energy = zone / "energy_uj"
    energy.write_text("9000000")
    meter = EnergyMeter(folder=tmp_path)
    clock = iter((100.0, 102.0))
    monkeypatch.setattr(power, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    meter.start()
    energy.write_text("2000000")
    assert meter.stop() == pytest.approx((1.0 + 2.0) / 2.0)


def test_without_counters_there_is_no_power(tmp_path: Path) -> None:
    meter = EnergyMeter(folder=tmp_path)
    meter.start()
    assert meter.stop() is None


@pytest.mark.parametrize("mode", ["sync", "pipeline", "pipeline+sync", "async"])
def test_one_device_takes_the_steps_of_a_rank_of_a_gang_and_tells_what_ranks_add_up(mode: str, tmp_path: Path) -> None:
    folder, data = make(tmp_path, "digits", model={"family": "cnn", "size": "small"})
    staged(folder, mode)
    answer = measured(folder, data, batch=12)
    assert answer["ok"], answer["problem"]
    assert (answer["ranks"], answer["batch_size"], answer["workload"]["batch_size"]) == (1, 12, 12)
    sums = {name: answer["workload"][name] for name in ("gradient_bytes", "step_messages")}
    assert {name: answer[name] for name in sums} == sums and sums["gradient_bytes"] > 0
