"""Weights trained elsewhere, brought along by the command line: runs in the sandbox start from them."""

import json

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from harness.datasets.samples import sample_file
from tests.e2e.people import client_environment
from tests.e2e.people import dlh as run

pytestmark = pytest.mark.stack
OWN = """
from torch import nn


class Own(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.body = nn.Linear(len(shape.features), 8)
        self.head = nn.Linear(8, shape.outputs)

    def forward(self, numeric, categorical):
        return self.head(self.body(numeric).relu())


def build(spec):
    return Own(spec.shape)
"""
STILL = """
training: {epochs: 2, optimizer: sgd, learning_rate: 1.0e-12, weight_decay: 0, rate_rule: none, ema: 0}
checkpoints: {every_epochs: 1}
"""
"""A training that leaves the weights where they were."""


@pytest.fixture
def dlh(stack):
    def call(*arguments):
        done = run(client_environment(stack), *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return call


def weights_of(dlh, job, folder):
    (file,) = json.loads(dlh("download", job, "--weights", "--out", folder, "--json"))["files"]
    return load_file(file)


def said(stack, job):
    events = stack.get(f"/jobs/{job}/events?page_size=100")["items"]
    return [event["message"] for event in events if "weights file" in event["message"]]


def test_own_and_generated_programs_start_from_a_file_in_one_process_and_in_several(dlh, stack, tmp_path):
    table = sample_file("wine", tmp_path)
    (tmp_path / "model.py").write_text(OWN)
    (tmp_path / "still.yaml").write_text(STILL)
    (tmp_path / "ranks.yaml").write_text(f"{STILL}mode: sync\nresources: {{device: cpu, count: 2, least: 1}}\n")
    own = ("--data", table, "--model", tmp_path / "model.py", "--wait", "--json")
    first = json.loads(dlh("submit", *own))
    trained = weights_of(dlh, first["id"], tmp_path / "first")
    save_file({**trained, "head.bias": trained["head.bias"][:1]}, tmp_path / "trained.safetensors")
    for spec in ("still.yaml", "ranks.yaml"):
        job = json.loads(dlh("submit", tmp_path / spec, *own, "--weights", tmp_path / "trained.safetensors"))
        assert (job["state"], job["weights"]["name"]) == ("succeeded", "trained")
        ended = weights_of(dlh, job["id"], tmp_path / spec.removesuffix(".yaml"))
        for name in ("body.weight", "body.bias", "head.weight"):
            assert ended[name] == pytest.approx(trained[name], abs=1e-5)
        (told,) = said(stack, job["id"])
        assert told.startswith("Starts from the weights file: 3 of 4 tensors taken")
        assert "head.bias ([3], in the file [1])" in told
    generated = json.loads(dlh("submit", "--data", table, "--wait", "--json"))
    dlh("download", generated["id"], "--weights", "--out", tmp_path / "family")
    (file,) = (tmp_path / "family").glob("*.safetensors")
    spec = tmp_path / "family.yaml"
    spec.write_text(f"model: {{family: {generated['family']}, weights_match: all, weights: {file.stem}}}\n{STILL}")
    dlh("--project", generated["project"], "weights", "add", file)
    job = json.loads(dlh("submit", spec, "--data", table, "--wait", "--json"))
    assert job["metric_test"] == pytest.approx(generated["metric_test"])


def test_a_file_that_does_not_fit_is_told_by_the_check_and_by_the_run(dlh, stack, tmp_path):
    table = sample_file("wine", tmp_path)
    (tmp_path / "model.py").write_text(OWN)
    save_file({"stem.weight": numpy.ones((2, 2), dtype=numpy.float32)}, tmp_path / "other.safetensors")
    given = ("--data", table, "--model", tmp_path / "model.py", "--weights", tmp_path / "other.safetensors")
    job = json.loads(dlh("submit", *given, "--draft", "--json"))
    checked = run(client_environment(stack), "jobs", "check", job["id"])
    assert checked.returncode == 1 and "Nothing of the weights file fits the model" in checked.stdout
    ended = run(client_environment(stack), "submit", *given, "--wait", "--json")
    assert (
        ended.returncode == 1 and "Nothing of the weights file fits" in json.loads(ended.stdout)["failure"]["message"]
    )
