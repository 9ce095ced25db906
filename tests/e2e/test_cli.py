"""The command line against a real stack."""

import json
import subprocess
import sys

import pytest

from harness.datasets.samples import sample_file
from tests.e2e.stack import REPOSITORY

pytestmark = pytest.mark.stack


@pytest.fixture
def dlh(stack):
    environment = {**stack.environment, "DLH_URL": stack.url, "DLH_TOKEN": stack.token, "DLH_PROJECT": stack.project}
    program = "import sys; from harness.client.cli import main; sys.exit(main())"

    def call(*arguments):
        done = subprocess.run(
            [sys.executable, "-c", program, *map(str, arguments)],
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
        )
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
    assert any(row["id"] == job["id"] for row in _rows(json.loads(dlh("jobs", "--json"))))


def _rows(body):
    return body["items"] if isinstance(body, dict) else body
