"""`dlh weights`, and a job that starts from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.factory_weights import safetensors
from tests.harness.client.conftest import Dlh

pytestmark = pytest.mark.usefixtures("portal")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.safetensors"
    path.write_bytes(safetensors())
    return path


def test_a_file_is_uploaded_once_and_listed(dlh: Dlh, file: Path) -> None:
    added = dlh("--project", "birds", "weights", "add", file)
    assert added.code == 0 and "mine  2 tensors, 9 numbers (F32)" in added.out
    again = dlh("--project", "birds", "weights", "add", file, "--json").json
    (listed,) = dlh("weights", "list", "--json").json
    assert listed["id"] == again["id"] and "mine" in dlh("weights", "list").out


def test_a_job_starts_from_a_file_or_from_what_is_there(dlh: Dlh, file: Path, dataset: Any) -> None:
    made = dlh("submit", "--data", dataset.pk, "--weights", file, "--draft", "--json").json
    assert made["weights"]["name"] == "mine"
    by_name = dlh("submit", "--data", dataset.pk, "--weights", "mine", "--draft", "--json").json
    assert by_name["weights"] == made["weights"]
    gone = dlh("weights", "rm", made["weights"]["id"])
    assert gone.code == 2 and "2 jobs started from this weights file" in gone.err


def test_a_name_with_a_dot_is_no_file_nor_is_a_folder(
    dlh: Dlh, file: Path, dataset: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "resnet50.a1_in1k").mkdir()
    dlh("--project", "birds", "weights", "add", file, "--name", "resnet50.a1_in1k")
    made = dlh("submit", "--data", dataset.pk, "--weights", "resnet50.a1_in1k", "--draft", "--json").json
    assert made["weights"]["name"] == "resnet50.a1_in1k"


def test_what_no_job_starts_from_is_deleted(dlh: Dlh, file: Path) -> None:
    made = dlh("--project", "birds", "weights", "add", file, "--json").json
    assert dlh("weights", "rm", made["id"]).code == 0
    assert dlh("weights", "list", "--json").json == []


def test_a_pickle_is_refused_with_what_to_write(dlh: Dlh, tmp_path: Path, dataset: Any) -> None:
    (tmp_path / "model.pt").write_bytes(b"PK\x03\x04")
    for arguments in (("weights", "add"), ("submit", "--data", dataset.pk, "--weights")):
        ended = dlh(*arguments, tmp_path / "model.pt")
        assert ended.code == 2 and "save_file(model.state_dict()" in ended.err


def test_a_file_that_is_not_there_is_told_as_such(dlh: Dlh, dataset: Any) -> None:
    ended = dlh("submit", "--data", dataset.pk, "--weights", "none.safetensors")
    assert ended.code == 2 and "There is no file none.safetensors" in ended.err


def test_weights_are_no_data(dlh: Dlh, file: Path) -> None:
    for arguments in (("data", "add", file), ("submit", "--data", file), ("data", "profile", file)):
        ended = dlh(*arguments)
        assert ended.code == 2 and "holds weights, no data" in ended.err and "dlh weights add" in ended.err
