"""Bad input through the real product: a clear error that names row, file or field, and nothing is lost."""

import html
import json
import re
import uuid
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from harness.client.transport import Transport
from harness.client.upload import Upload, UploadMemory
from tests.e2e.bad_files import REFUSED, WARNED, table
from tests.e2e.people import client_environment, signed_in
from tests.e2e.people import dlh as run
from tests.e2e.stack import ENDED, items, wait_for

pytestmark = pytest.mark.stack
TRACES = ("Traceback", 'File "/')
INGEST_TIMEOUT_S = 300.0
SMALL = {"training": {"epochs": 3, "batch_size": 16, "patience": 0}, "checkpoints": {"every_epochs": 1}}

HEAD = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.layer, self.steps = nn.Linear(features, outputs), 0
"""
BUILD = """
def build(spec):
    return Net(len(spec.shape.features), spec.shape.outputs)
"""
FORWARD = "    def forward(self, numeric, categorical):\n"
MODELS = {
    "good": HEAD + FORWARD + "        return self.layer(numeric)\n" + BUILD,
    "wrong shape": HEAD + FORWARD + "        return self.layer(numeric)[:, :1]\n" + BUILD,
    "raises": HEAD + FORWARD + "        return self.layer(numeric)\n\ndef build(spec):\n    return {}['nope']\n",
    "leaves": "import sys\nsys.exit(0)\n" + BUILD,
    "nan": HEAD
    + FORWARD
    + "        self.steps += self.training\n"
    + "        return self.layer(numeric) * (float('nan') if self.steps > 12 else 1.0)\n"
    + BUILD,
    "hungry": HEAD
    + FORWARD
    + "        wide = torch.relu(numeric[:, :1].expand(-1, 3_000_000) * self.layer.weight[0, 0])\n"
    + "        return self.layer(numeric) + torch.relu(wide + 1).mean(1, keepdim=True)\n"
    + BUILD,
}
FAILURES = {
    "wrong shape": ("model_wrong_shape", "[2, 2] is needed"),
    "raises": ("program_error", "model.py, line 13: KeyError: 'nope'"),
    "leaves": ("program_error", "before run.finish"),
    "nan": ("nan_loss", "at step 13"),
    "hungry": ("out_of_memory", "A batch size of about"),
}
SPECS = {
    "trainning: {epochs: 2}": ("trainning", "did you mean `training`"),
    "training: {epochs: many}": ("training.epochs", "a whole number, not 'many'"),
    "training: {learning_rate: .inf}": ("training.learning_rate", "a finite number"),
    "training: {epochs: 99999999999999999999}": ("training.epochs", "less than or equal"),
    "data: {split: {validation: 0.6, test: 0.5}}": ("data.split", "impossible split"),
    "data: {split: {validation: 0.98, test: 0.01}}": ("data.split", "leaves 1 to train on"),
    "data: {target: lable}": ("data.target", "Did you mean 'label'"),
    "resources: {count: 99}": ("resources.count", "CPU core"),
    "a: [": ("", "line 1: not YAML"),
}
INPUTS = {
    "missing from the input: x, z": ("rows.csv", b"a,b\n1,2\n"),
    "Row 4": ("rows.csv", table((5, "about six,1,a"))),
    "Row 1": ("rows.csv", b"x,z\n1,\xff\n"),
    "rows.parquet": ("rows.parquet", b"PAR1 half"),
}
"""Of predictions: words of the problem -> name and bytes."""


@pytest.fixture(scope="module")
def datasets(stack, tmp_path_factory):
    """Every file uploaded by the public API and read; file -> dataset as the API shows it."""
    folder = tmp_path_factory.mktemp("bad")

    def add(name):
        (folder / name).write_bytes({**REFUSED, **WARNED}[name][0]())
        transport = Transport(stack.url, stack.token)
        memory = UploadMemory(folder / f"{name}.json")
        found = Upload(transport, folder / name, {"project": stack.project, "name": name}, memory=memory).run()
        transport.close()
        return found

    with ThreadPoolExecutor(4) as pool:
        ids = dict(zip([*REFUSED, *WARNED], pool.map(add, [*REFUSED, *WARNED]), strict=True))

    def read():
        found = {name: stack.get(f"/datasets/{dataset}") for name, dataset in ids.items()}
        return found if all(body["state"] != "profiling" for body in found.values()) else None

    return wait_for(read, timeout_s=INGEST_TIMEOUT_S, what="every file is read or refused")


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_cannot_be_used_is_refused_and_kept(stack, datasets, name):
    _, code, words = REFUSED[name]
    body = datasets[name]
    assert body["state"] == "failed"
    problem = body["problem"]
    assert code in ("", problem["code"])
    assert words in problem["message"]
    assert problem["hint"]
    assert not any(trace in problem["message"] + problem["hint"] for trace in TRACES)
    assert body["source_bytes"] > 0  # the upload is still there


@pytest.mark.parametrize("name", WARNED)
def test_a_file_with_faults_is_used_and_each_fault_told(stack, datasets, name):
    _, code, words = WARNED[name]
    assert datasets[name]["state"] == "ready", datasets[name]["problem"]
    profile = stack.get(f"/datasets/{datasets[name]['id']}/profile")
    if code:
        found = [item for item in profile["warnings"] if item["code"] == code]
        assert any(words in item["message"] for item in found), profile["warnings"]
        assert all(item["meaning"] for item in found)


def refused(stack, method, path, body):
    """The error of a request that must be refused."""
    headers = {"Authorization": f"Bearer {stack.token}"}
    answer = httpx.request(method, f"{stack.url}/api/v1{path}", headers=headers, json=body, timeout=60)
    assert 400 <= answer.status_code < 500, answer.text
    return answer.json()["error"]


@pytest.mark.parametrize(
    ("name", "target", "field", "words"),
    [
        ("nothing_to_learn.csv", "auto", "data.features", "no column is left"),
        ("one_class.csv", "label", "data.target", "only one value"),
        ("good.csv", "nope", "data.target", "no column 'nope'"),
    ],
)
def test_what_cannot_be_trained_on_makes_no_job(stack, datasets, name, target, field, words):
    spec = {"data": {"target": target}}
    body = {"project": stack.project, "dataset": datasets[name]["id"], "spec": spec}
    error = refused(stack, "POST", "/jobs", body)
    assert error["field"] == field
    assert words in error["message"]


@pytest.mark.parametrize("text", SPECS)
def test_a_wrong_spec_is_refused_by_field(stack, datasets, text):
    field, words = SPECS[text]
    found = stack.post("/spec/check", {"dataset": datasets["good.csv"]["id"], "yaml": text})
    assert not found["ok"]
    assert any((problem["field"] or "") == field and words in problem["message"] for problem in found["problems"])


def test_a_model_that_does_not_compile_makes_no_job(stack, datasets):
    body = {"project": stack.project, "dataset": datasets["good.csv"]["id"], "spec": SMALL, "submit": True}
    before = stack.get("/jobs")["total"]
    error = refused(stack, "POST", "/jobs", {**body, "model": "def build(spec):\n    return (\n"})
    assert error["code"] == "program_syntax"
    assert "model.py, line 2" in error["message"]
    assert error["details"] == {"file": "model.py", "line": 2}
    error = refused(stack, "POST", "/jobs", {**body, "model": "a,b\n1,2\n"})
    assert (error["code"], error["message"]) == ("model_no_build", "model.py has no function build(spec).")
    assert stack.get("/jobs")["total"] == before


@pytest.fixture(scope="module")
def jobs(stack, datasets):
    """Each own model run to its end; name -> job."""
    made = {}
    for name, model in MODELS.items():
        spec = {**SMALL, "resources": {"device": "cpu", "count": 1}}
        if name == "hungry":
            spec = {**spec, "training": {**SMALL["training"], "batch_size": 80}}
            spec["resources"] = {"device": "cpu", "count": 1, "memory_gib": 1.2}
        if name == "nan":
            spec = {**spec, "training": {**SMALL["training"], "epochs": 6}}
        body = {"project": stack.project, "dataset": datasets["good.csv"]["id"], "spec": spec, "model": model}
        made[name] = stack.post("/jobs", {**body, "name": name, "submit": True})["id"]

    def ended():
        found = {name: stack.job(job) for name, job in made.items()}
        return found if all(body["state"] in ENDED for body in found.values()) else None

    return wait_for(ended, timeout_s=INGEST_TIMEOUT_S, what="every job has ended")


@pytest.mark.parametrize("name", FAILURES)
def test_a_model_that_fails_is_told_with_cause_and_next_step(jobs, name):
    code, words = FAILURES[name]
    assert jobs[name]["state"] == "failed"
    failure = jobs[name]["failure"]
    assert failure["code"] == code, failure
    assert words in failure["message"]
    assert failure["hint"]
    assert not any(trace in failure["message"] + failure["hint"] for trace in TRACES)


def test_other_jobs_are_not_touched_by_those_that_fail(stack, jobs):
    assert jobs["good"]["state"] == "succeeded"
    wait_for(lambda: stack.get("/pool")["busy"] == 0, timeout_s=90, what="the devices are free")


def test_a_loss_that_is_no_number_keeps_the_checkpoints_before_it(stack, jobs):
    assert jobs["nan"]["failure"]["step"] == 13
    kept = [row["step"] for row in items(stack.get(f"/jobs/{jobs['nan']['id']}/checkpoints"))]
    assert kept and max(kept) <= 12


def test_out_of_memory_names_a_batch_size_below_the_one_that_failed(jobs):
    batch = re.search(r"batch_size to (\d+)", jobs["hungry"]["failure"]["hint"])
    assert batch and 1 <= int(batch[1]) < 80


@pytest.fixture(scope="module")
def answers(stack, jobs):
    """Each input of a prediction as it was answered; all are asked for at once."""
    path = f"/jobs/{jobs['good']['id']}/predictions"
    asked = {
        words: stack.request("POST", path, files={"input": (name, body)}).json()["id"]
        for words, (name, body) in INPUTS.items()
    }

    def answered():
        found = {words: stack.get(f"{path}/{number}") for words, number in asked.items()}
        return found if all(body["state"] in {"done", "failed"} for body in found.values()) else None

    return wait_for(answered, timeout_s=INGEST_TIMEOUT_S, what="every prediction is answered")


@pytest.mark.parametrize("words", INPUTS)
def test_a_bad_input_of_a_prediction_is_told(stack, answers, words):
    found = answers[words]
    assert found["state"] == "failed"
    assert words in found["problem"]["message"]
    assert found["problem"]["hint"]
    assert str(stack.home) not in found["problem"]["message"]


@pytest.fixture
def browser(stack):
    """A signed-in person's browser, without the browser."""
    with signed_in(stack) as browser:
        yield browser


def test_the_pages_show_problem_and_next_step(browser, datasets, jobs):
    page = browser.get(f"/datasets/{datasets['nul.csv']['id']}/")
    assert page.status_code == 200
    assert "Line 41 holds a NUL byte" in page.text
    assert "Read it again" in page.text
    for name in FAILURES:
        page = browser.get(f"/jobs/{jobs[name]['id']}/")
        assert page.status_code == 200
        failure = jobs[name]["failure"]
        assert html.escape(failure["message"]) in page.text, name
        assert html.escape(failure["hint"]) in page.text, name
    for name in WARNED:
        assert browser.get(f"/datasets/{datasets[name]['id']}/").status_code == 200, name


def dlh(stack, *arguments):
    """One command line; (exit code, all it printed)."""
    done = run(client_environment(stack), *arguments)
    return done.returncode, done.stdout + done.stderr


def test_the_command_line_says_what_is_wrong_and_ends_with_its_code(stack, datasets, tmp_path):
    bad, spec = tmp_path / "nul.csv", tmp_path / "spec.yaml"
    bad.write_bytes(table((41, f"1,\0{uuid.uuid4()},a")))
    spec.write_text("training:\n  epochs: many\n  batch_size: -3\n")
    code, text = dlh(stack, "data", "add", bad)
    assert (code, "Line 41" in text, "Hint:" in text) == (1, True, True), text
    code, text = dlh(stack, "submit", spec, "--data", datasets["good.csv"]["id"])
    assert (code, "training.epochs: line 2" in text, "training.batch_size: line 3" in text) == (2, True, True), text
    code, text = dlh(stack, "submit", spec, "--data", datasets["good.csv"]["id"], "--json")
    assert (code, json.loads(text)["error"]["field"]) == (2, "training.epochs")
    (tmp_path / "empty.csv").write_bytes(b"")
    code, text = dlh(stack, "data", "add", tmp_path / "empty.csv")
    words = " ".join(text.split())  # the lines are broken where the path of the file is long
    assert (code, "is empty" in words, "Traceback" in words) == (2, True, False), text
