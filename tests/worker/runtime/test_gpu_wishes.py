"""Programs that name a GPU where there is none: what to write, or that they could not be tried."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from tests.worker.runtime.spoiled import check_of, edit
from worker.runtime.inspection.check import NOT_TRIED
from worker.runtime.known_causes import asks_for_gpu

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="it would run")
NAMES_CUDA = "net = net.to(torch.device('cuda'))\nnet = run.place(net, dataset)"


@pytest.fixture
def program(wine_program: Path, tmp_path: Path) -> Path:
    """A program whose train.py names the device itself."""
    folder = Path(shutil.copytree(wine_program, tmp_path / "program"))
    edit(folder, "train.py", lambda text: text.replace("net = run.place(net, dataset)", NAMES_CUDA))
    return folder


def _line_of(program: Path) -> int:
    lines = (program / "train.py").read_text().splitlines()
    return lines.index(NAMES_CUDA.splitlines()[0]) + 1


def test_a_program_for_any_device_is_told_what_to_write_for_cuda(program: Path) -> None:
    answer = check_of(program)
    assert answer["ok"] is False
    place = f"train.py, line {_line_of(program)}: "
    assert answer["problem"]["message"] == f"{place}The program asks for a GPU (CUDA), but this device is not one."
    assert "`run.device` for 'cuda' in train.py" in answer["problem"]["hint"]


def test_a_program_for_gpus_alone_could_not_be_tried_and_does_not_fail(program: Path) -> None:
    edit(program, "spec.yaml", lambda text: text.replace("device: cpu", "device: cuda"))
    answer = check_of(program)
    assert answer["ok"] is None and answer["problem"]["code"] == NOT_TRIED
    told = f"could not be tried here: train.py, line {_line_of(program)} asks for a GPU"
    assert told in answer["problem"]["message"] and "run.device" in answer["problem"]["hint"]


def test_a_fault_of_a_program_for_gpus_is_still_one(program: Path) -> None:
    edit(program, "spec.yaml", lambda text: text.replace("device: cpu", "device: cuda"))
    edit(program, "train.py", lambda text: text.replace("torch.device('cuda')", "torch.device('cpu'), 1 / 0"))
    answer = check_of(program)
    assert answer["ok"] is False and "ZeroDivisionError" in answer["problem"]["message"]


@pytest.mark.parametrize("words", ["torch.cuda.set_device(0)", "torch.Generator('cuda')", "torch.cuda.Stream()"])
def test_what_torch_says_of_each_way_to_name_a_gpu_is_known(words: str) -> None:
    with pytest.raises(Exception) as caught:
        eval(words, {"torch": torch})
    assert asks_for_gpu(caught.value) and not asks_for_gpu(ValueError("cuda"))
