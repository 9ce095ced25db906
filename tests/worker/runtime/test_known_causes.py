"""Exceptions that are known are told in plain words, at a length that can be read."""

from __future__ import annotations

import errno
import os
import shutil
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.worker.runtime.spoiled import edit, error_of
from worker.runtime.failures import describe
from worker.runtime.known_causes import MESSAGE_CHARS, not_finite_hint


@pytest.fixture
def program(wine_program: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return Path(shutil.copytree(wine_program, tmp_path / "program"))


def test_a_name_that_cannot_be_resolved_is_told_as_no_network(tmp_path: Path) -> None:
    with pytest.raises(urllib.error.URLError) as caught:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open("http://weights.invalid/net.pt", timeout=5)
    told = describe(caught.value, tmp_path, lambda: None)
    assert "programs have no network" in told["message"] and "pretrained" in told["hint"]


@pytest.mark.parametrize(
    "error",
    [
        urllib.error.URLError(ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")),
        urllib.error.URLError(PermissionError(errno.EPERM, "Operation not permitted")),
        OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH)),
        OSError("HTTPSConnectionPool: Max retries exceeded (Temporary failure in name resolution)"),
    ],
    ids=["refused", "filtered", "unreachable", "wrapped"],
)
def test_a_connection_that_nobody_takes_is_told_as_no_network(error: OSError) -> None:
    assert "programs have no network" in describe(error, Path(), lambda: None)["message"]


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "No such file", "weights.pt"),
        urllib.error.URLError("unknown url type: ftpx"),
        urllib.error.URLError(FileNotFoundError(errno.ENOENT, "No such file")),
    ],
    ids=["file", "url", "file url"],
)
def test_a_file_that_is_missing_is_not_told_as_no_network(error: OSError) -> None:
    assert "network" not in describe(error, Path(), lambda: None)["message"]


@pytest.mark.parametrize("kind", ["clip", "optimizer"])
def test_sparse_gradients_are_told_with_what_to_write_instead(kind: str) -> None:
    layer = nn.Embedding(4, 2, sparse=True)
    layer(torch.tensor([1])).sum().backward()
    with pytest.raises((RuntimeError, NotImplementedError)) as caught:
        if kind == "clip":
            nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        else:
            torch.optim.AdamW(layer.parameters()).step()
    told = describe(caught.value, Path(), lambda: None)
    assert told["message"] == "Sparse gradients are not supported." and "sparse=False" in told["hint"]


def test_a_run_with_a_sparse_layer_is_told_so(program: Path) -> None:
    source = (
        "from torch import nn\nclass Net(nn.Module):\n    def __init__(self, outputs):\n        super().__init__()\n"
        "        self.layer = nn.Embedding(8, outputs, sparse=True)\n"
        "    def forward(self, numeric, categorical):\n        return self.layer(numeric[:, 0].long().clamp(0, 7))\n"
        "def build(spec):\n    return Net(spec.shape.outputs)\n"
    )
    (program / "model.py").write_text(source)
    assert "Sparse gradients are not supported." in error_of(program)["message"]


def test_a_headline_is_the_first_line_at_a_length_that_can_be_read(tmp_path: Path) -> None:
    long = RuntimeError("\nCould not run 'aten::norm'. " + "x" * 8000 + "\nCPU: registered at /build")
    told = describe(long, tmp_path, lambda: None)
    assert told["message"].startswith("RuntimeError: Could not run 'aten::norm'.")
    assert len(told["message"]) <= MESSAGE_CHARS + 4 and "registered" not in told["message"]
    assert "registered at /build" in told["traceback"]


def test_what_helps_against_no_numbers_follows_the_run() -> None:
    assert "set training.clip_norm to 1" in not_finite_hint(0, "float32", is_saved=True)
    assert "set training.clip_norm to 1" in not_finite_hint(None, "float32", is_saved=True)
    assert "clip_norm" not in not_finite_hint(1.0, "float32", is_saved=True)
    assert "are kept" in not_finite_hint(0, "float32", is_saved=True)
    assert "There is no checkpoint" in not_finite_hint(0, "float32", is_saved=False)
    assert "training.precision to float32" in not_finite_hint(0, "float16", is_saved=True)
    assert "precision" not in not_finite_hint(0, "bfloat16", is_saved=True)


def test_a_loss_that_is_no_number_in_the_first_step_is_told_without_checkpoints(program: Path) -> None:
    ruin = "lambda outputs, targets: criterion(outputs, targets) * float('nan')"
    edit(program, "train.py", lambda text: text.replace("targets, criterion)", f"targets, {ruin})"))
    hint = error_of(program)["hint"]
    assert "There is no checkpoint yet." in hint and "are kept" not in hint


def test_an_exception_after_the_end_of_the_run_names_file_and_line(program: Path) -> None:
    edit(program, "train.py", lambda text: text.replace("run.finish(dataset)", "run.finish(dataset); 1 / 0"))
    told = error_of(program)
    assert told["file"] == "train.py" and "ZeroDivisionError" in told["message"]


def test_a_file_that_may_not_be_written_is_told_with_where_it_may() -> None:
    told = describe(OSError(errno.EROFS, os.strerror(errno.EROFS), "big.bin"), Path(), lambda: None)
    assert "big.bin" in told["message"] and "run.settings.work" in told["hint"]
