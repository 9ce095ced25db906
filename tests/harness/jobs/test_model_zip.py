"""The download of a trained model: what is unpacked predicts by itself, as the README in it says."""

from __future__ import annotations

import io
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from harness.jobs import selectors
from harness.jobs.results import JSON_BYTES_MAX
from harness.store import ByteRange, UnsafePath
from tests.worker.runtime import samples
from tests.worker.runtime.onnx_programs import answers, program, rows_written


def trained(job: Any, folder: Path) -> Path:
    """The job as a run of a program for a table leaves it; the folder of that program."""
    made, paths = program(folder, "mlp", "diabetes"), settings.STORE.job(job.pk)
    shutil.rmtree(paths.program)
    shutil.copytree(made, paths.program, ignore=lambda _, names: {"data", "work", "weights.py"} & set(names))
    shutil.copytree(made / "work", paths.work)
    return made


def unpacked(job: Any, folder: Path) -> Path:
    body = selectors.model_zip(job)
    archive = io.BytesIO(b"".join(body.read(ByteRange(start=0, stop=body.size_bytes))))
    assert len(archive.getvalue()) == body.size_bytes
    zipfile.ZipFile(archive).extractall(folder)
    return folder / f"model-{job.pk}"


def test_what_is_unpacked_predicts_as_its_readme_says(job: Any, tmp_path: Path) -> None:
    made = trained(job, tmp_path / "made")
    given = rows_written(made)
    folder = unpacked(job, tmp_path / "unpacked")
    assert "python predict.py --input rows.csv --output predictions.csv" in (folder / "README.md").read_text()
    shutil.copy(made / "rows.csv", folder)
    done = samples.python(folder, "predict.py", *given, "--output", "predictions.csv", PYTHONPATH="")
    assert done.returncode == 0, done.stderr
    assert len(answers(folder / "predictions.csv")) == 7


def test_the_results_come_with_it_unless_they_are_large(job: Any, tmp_path: Path) -> None:
    results = settings.STORE.job(job.pk).results
    results.mkdir(parents=True)
    (results / "model.safetensors").write_bytes(b"weights")
    (results / "results.json").write_text("{}")
    assert (unpacked(job, tmp_path / "a") / "work/results/results.json").read_text() == "{}"
    (results / "results.json").write_bytes(bytes(JSON_BYTES_MAX + 1))
    assert {path.name for path in (unpacked(job, tmp_path / "b") / "work/results").iterdir()} == {"model.safetensors"}


def test_a_link_that_weights_become_while_they_are_sent_is_not_followed(job: Any, tmp_path: Path) -> None:
    results = settings.STORE.job(job.pk).results
    results.mkdir(parents=True)
    (results / "model.safetensors").write_bytes(b"weights")
    body = selectors.model_zip(job)
    (tmp_path / "elsewhere").write_text("secret")
    (results / "model.safetensors").unlink()
    (results / "model.safetensors").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafePath):
        b"".join(body.read(ByteRange(start=0, stop=body.size_bytes)))
