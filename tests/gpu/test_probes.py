"""Steps of programs, measured on a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from codegen.profile.types import DatasetProfile
from scheduler.rates.interval import RangeRecord
from scheduler.workload import Workload
from tests.gpu.runs import DEVICE, NET, answer, make, own_code
from tests.worker.runtime import samples
from worker.plan import EXIT_REPORTED

pytestmark = pytest.mark.gpu
Pack = Callable[[Path], DatasetProfile]


def digits(folder: Path) -> DatasetProfile:
    """Few pictures."""
    return samples.digits(folder, 150)


def measured(program: Path, *arguments: str, code: int = 0) -> dict[str, Any]:
    """What `measure` says of it."""
    options = ("--device", DEVICE, "--steps", "2", "--repeats", "2", "--budget", "10", *arguments)
    done = samples.run(program, "-m", "worker.runtime.inspection.measure", "--program", str(program), *options)
    assert done.returncode == code, done.stdout[-500:] + done.stderr[-3000:]
    return answer(done.stdout)


@pytest.mark.parametrize("precision", ["auto", "float32"])
@pytest.mark.parametrize(
    ("family", "pack"), [("mlp", samples.wine), ("ft_transformer", samples.diabetes), ("cnn", digits)]
)
def test_steps_are_measured(family: str, pack: Pack, precision: str, device: torch.device, tmp_path: Path) -> None:
    training = {"precision": precision, "ema": 0.9}
    program = make(tmp_path / "program", pack, model={"family": family, "size": "small"}, training=training)
    told = measured(program, "--data", str(program / "data"), "--batch", "24")
    assert told["ok"], told["problem"]
    assert told["device"] == str(device) and told["ranks"] == 1
    assert len(told["step_s"]) == 2 and all(math.isfinite(one) and one > 0 for one in told["step_s"])
    assert told["run_peak_bytes"] >= told["peak_bytes"] > 0
    assert told["evaluation_row_s"] > 0 and told["data_s"] > 0
    if device.type == "cuda":
        assert told["peak_bytes"] < 8 << 30
        assert 20.0 < told["power_w"] < 800.0
    load = Workload.from_dict(told["workload"])
    assert (load.batch_size, load.parameters) == (24, told["parameters"])


def test_made_up_rows_are_measured_alike(tmp_path: Path) -> None:
    program = make(tmp_path / "program", digits, model={"family": "cnn", "size": "small"})
    assert measured(program)["ok"]


def test_a_step_takes_as_long_as_the_gpu_needs(gpu: dict[str, Any], tmp_path: Path) -> None:
    slow = own_code(NET, "        torch.cuda._sleep(1 << 27) if numeric.is_cuda else None")
    told = measured(make(tmp_path / "program", samples.wine, own=slow), "--data", str(tmp_path / "program" / "data"))
    assert told["ok"], told["problem"]
    assert min(told["step_s"]) > 0.02, "2^27 cycles at 2 to 3 GHz take 45 ms or more"


def test_a_program_that_takes_more_memory_than_there_is_is_told(gpu: dict[str, Any], tmp_path: Path) -> None:
    greedy = own_code(NET, "        torch.empty(1 << 50, dtype=torch.uint8, device=numeric.device)")
    program = make(tmp_path / "program", samples.wine, own=greedy)
    told = measured(program, "--data", str(program / "data"), code=EXIT_REPORTED)
    assert told["problem"]["code"] == "out_of_memory"


@pytest.mark.parametrize(("family", "pack"), [("mlp", samples.wine), ("cnn", digits)])
def test_a_range_of_learning_rates_is_tested(family: str, pack: Pack, device: torch.device, tmp_path: Path) -> None:
    program = make(tmp_path / "program", pack, model={"family": family, "size": "small"}, training={"ema": 0.9})
    options = ("--device", DEVICE, "--steps", "20", "--sweeps", "1", "--budget", "20")
    folders = ("--program", str(program), "--data", str(program / "data"))
    done = samples.run(program, "-m", "worker.runtime.rates.range_test", *folders, *options)
    assert done.returncode == 0, done.stderr[-3000:]
    told = answer(done.stdout)
    assert told["device"] == str(device)
    record = RangeRecord.from_dict(told["record"])
    assert len(record.rates) == 20 and len(record.sweeps) == 1
    assert told["run_s"] > 0


def test_a_link_to_a_gpu_that_is_not_there_is_told(gpu: dict[str, Any], tmp_path: Path) -> None:
    ranks = str(torch.cuda.device_count() + 1)
    options = ("--ranks", ranks, "--device", "cuda")
    done = samples.run(tmp_path, "-m", "worker.runtime.inspection.link", *options, DLH_BACKEND="torch")
    assert done.returncode == EXIT_REPORTED
    assert answer(done.stdout)["problem"]["code"] == "start_failed"
