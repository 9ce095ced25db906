"""The command line against a real stack."""

import json
import subprocess
import sys
import zipfile

import pytest

from harness.datasets.samples import sample_file
from tests.e2e.people import client_environment
from tests.e2e.people import dlh as run

pytestmark = pytest.mark.stack


@pytest.fixture
def dlh(stack):
    def call(*arguments):
        done = run(client_environment(stack), *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return call


def test_a_table_is_submitted_and_waited_for_in_one_command(dlh, tmp_path):
    spec = tmp_path / "spec.yaml"
    spec.write_text("name: wine from a shell\ntraining:\n  epochs: 3\n")
    table = sample_file("wine", tmp_path)
    job = json.loads(dlh("submit", spec, "--data", table, "--wait", "--json"))
    assert job["state"] == "succeeded"
    results = json.loads(dlh("results", job["id"], "--json"))
    assert results["task"] == "tabular_classification"
    assert {"error_by_feature", "importance"} <= {chart["id"] for chart in results["charts"]}
    told = dlh("results", job["id"])
    assert "Accuracy by group" in told and "Importance of inputs" in told
    assert any(row["id"] == job["id"] for row in _rows(json.loads(dlh("jobs", "--json"))))
    _predicts_as_onnx(dlh, job["id"], table, tmp_path / "onnx")


def _predicts_as_onnx(dlh, job_id, table, folder):
    """The node exports the model in its sandbox, and the zip's own script predicts for the table it was trained on."""
    (archive,) = json.loads(dlh("download", job_id, "--onnx", "--out", folder, "--json"))["files"]
    with zipfile.ZipFile(archive) as members:
        members.extractall(folder)
    script, out = folder / f"onnx-{job_id}" / "predict_onnx.py", folder / "out.csv"
    command = [sys.executable, str(script), "--input", str(table), "--output", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(out.read_text().splitlines()) == len(table.read_text().splitlines())


def _rows(body):
    return body["items"] if isinstance(body, dict) else body
