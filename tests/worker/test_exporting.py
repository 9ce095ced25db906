"""The export of a trained model on a node: in the sandbox, and what is told where it did not come to an end."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from tests.worker.conftest import JobFixture
from tests.worker.runtime.onnx_programs import program
from worker import exporting
from worker.programs import ProgramProblem
from worker.runtime.checkpoint import CheckpointStore
from worker.sandbox import Completed


def request(job: JobFixture) -> dict[str, Any]:
    """As control sends it; the folders are there."""
    job.paths.export("e1").mkdir(parents=True, exist_ok=True)
    job.paths.results.mkdir(parents=True, exist_ok=True)
    weights = job.paths.results / "model.safetensors"
    weights.exists() or weights.write_bytes(b"")
    return {"export_id": "e1", "job_dir": str(job.paths.root), "dataset_dir": str(job.dataset)}


def test_a_node_exports_in_its_sandbox(job: JobFixture, tmp_path: Path) -> None:
    folder = program(tmp_path / "program", "mlp", "wine")
    job.paths.root.mkdir(parents=True, exist_ok=True)
    shutil.copytree(folder, job.paths.program, ignore=shutil.ignore_patterns("data", "work", "weights.py"))
    shutil.copytree(folder / "work", job.paths.work)
    shutil.copyfile(folder / "data" / "table.parquet", job.dataset / "table.parquet")
    answer = exporting.export(request(job))
    assert answer.get("problem") is None and answer["export_id"] == "e1"
    assert answer["report"]["check"]["rows"] == 64
    weights = (job.paths.results / "model.safetensors").read_bytes()
    assert answer["weights_sha256"] == answer["report"]["weights_sha256"] == hashlib.sha256(weights).hexdigest()
    assert answer["weights_sha256"] in (job.paths.export("e1") / "README.md").read_text()
    names = {path.name for path in job.paths.export("e1").iterdir()}
    scripts = {"predict_onnx.py", "answers.py", "table_rows.py", "row_text.py", "unseen.py"}
    assert names == {"model.onnx", "onnx.json", "preprocess.json", "README.md"} | scripts


def test_a_node_exports_a_checkpoint_unless_a_bit_of_it_has_flipped(job: JobFixture, tmp_path: Path) -> None:
    folder = program(tmp_path / "program", "mlp", "wine")
    job.paths.root.mkdir(parents=True, exist_ok=True)
    shutil.copytree(folder, job.paths.program, ignore=shutil.ignore_patterns("data", "work", "weights.py"))
    shutil.copytree(folder / "work", job.paths.work)
    shutil.copyfile(folder / "data" / "table.parquet", job.dataset / "table.parquet")
    final = job.paths.results / "model.safetensors"
    store = CheckpointStore(job.paths.checkpoints, keep=2, larger_is_better=True)
    name = store.save({"parts": {"net": load_file(final)}}, step=40, epoch=1.0, metric=0.5).name
    final.unlink()
    asked, state = request(job) | {"checkpoint": name}, job.paths.checkpoint_state(name)
    answer = exporting.export(asked)
    assert answer.get("problem") is None and answer["report"]["checkpoint"] == name
    assert answer["weights_sha256"] == hashlib.sha256(state.read_bytes()).hexdigest()
    assert f"the weights of the checkpoint {name} (state.pt with" in (job.paths.export("e1") / "README.md").read_text()
    body = bytearray(state.read_bytes())
    body[len(body) // 2] ^= 1
    state.write_bytes(body)
    assert f"{name} is damaged" in exporting.export(asked)["problem"]["message"]
    state.unlink()
    assert "gone" in exporting.export(asked)["problem"]["message"]


def test_what_the_program_says_of_itself_is_handed_on(job: JobFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = {"message": "It decides.", "hint": "Do not."}
    said = f"a word\n{json.dumps({'ok': False, 'report': None, 'problem': problem})}\n"
    monkeypatch.setattr(exporting, "program_run", lambda _: Completed(returncode=65, stdout=said, stderr="", level=0))
    assert exporting.export(request(job)) == {"export_id": "e1", "problem": problem}


def test_weights_that_change_while_they_are_exported_name_no_model(
    job: JobFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = job.paths.results / "model.safetensors"

    def exported(_: Any) -> Completed:
        weights.write_bytes(b"of the next attempt")
        return Completed(returncode=0, stdout=json.dumps({"ok": True, "report": {}}), stderr="", level=0)

    monkeypatch.setattr(exporting, "program_run", exported)
    answer = exporting.export(request(job))
    assert "changed while" in answer["problem"]["message"] and "weights_sha256" not in answer


def test_weights_that_are_a_link_are_not_read(job: JobFixture, tmp_path: Path) -> None:
    asked = request(job)
    weights = job.paths.results / "model.safetensors"
    weights.unlink()
    weights.symlink_to("/etc/passwd")
    assert "gone" in exporting.export(asked)["problem"]["message"]


@pytest.mark.parametrize("code", ["time_limit", "out_of_memory"])
def test_an_export_that_takes_too_long_or_too_much_harms_nothing(
    job: JobFixture, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    def refuse(_: Any) -> Completed:
        raise ProgramProblem("The program took longer than 4 min.", "Have it do less at once.", code)

    monkeypatch.setattr(exporting, "program_run", refuse)
    problem = exporting.export(request(job))["problem"]
    assert problem["hint"] == "The weights and the program can be downloaded as before."
