"""The learning rate on a real stack: tested on a node before the job runs, and asked for by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.samples import sample_file
from tests.e2e.people import client_environment, dlh
from tests.e2e.stack import JOB_TIMEOUT_S, items, wait_for

pytestmark = pytest.mark.stack


def test_a_rate_is_found_before_a_job_runs_and_again_on_demand(stack: Any, tmp_path: Path) -> None:
    dataset = stack.upload(sample_file("wine", tmp_path), "wine for rates")
    training = {"epochs": 2, "batch_size": 16, "rate_rule": "range"}
    job = stack.job_submit(dataset, {"name": "rate first", "model": {"family": "mlp"}, "training": training})
    wait_for(lambda: stack.job(job)["state"] != "draft", timeout_s=JOB_TIMEOUT_S, what="the test ends")
    stack.job_wait(job, "succeeded")
    (test,) = stack.get(f"/jobs/{job}/rates")["items"]
    assert test["state"] == "done", test["problem"]
    assert test["low"] < test["centre"] < test["high"]
    assert test["trials"]["state"] == "done", test["trials"]
    assert len(test["trials"]["done"]) >= 6
    spec = stack.get(f"/jobs/{job}")["spec"]["training"]
    assert spec["learning_rate"] == test["used_rate"] == pytest.approx(test["trials"]["rate"], rel=0.01)

    done = dlh(client_environment(stack), "lr-find", job, "--trials", "never", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["low"] < found["centre"] < found["high"] and found["batch_size"] == 16
    assert found["trials"]["state"] == "none"
    assert stack.job(job)["state"] == "succeeded"


def test_a_long_job_of_two_ranks_has_the_rate_of_its_batch_tested_by_itself(stack: Any, tmp_path: Path) -> None:
    dataset = stack.upload(sample_file("wine", tmp_path), "wine for two ranks")
    spec = {
        "name": "rate by itself", "model": {"family": "mlp"}, "mode": "sync",
        "resources": {"device": "cpu", "count": 2},
        "training": {"epochs": 100_000, "batch_size": 16, "patience": 0},
    }  # fmt: skip
    job = stack.job_submit(dataset, spec)
    wait_for(lambda: stack.job(job)["state"] != "draft", timeout_s=JOB_TIMEOUT_S, what="the test ends")
    body = stack.job_wait_step(job, 1)
    (test,) = stack.get(f"/jobs/{job}/rates")["items"]
    assert test["state"] == "done", test["problem"]
    assert (test["batch_size"], test["trials"]["state"]) == (16, "none")
    assert body["learning_rate"] == body["spec"]["training"]["learning_rate"] == test["used_rate"]
    assert "range test" in body["learning_rate_why"] and "are usable" in body["learning_rate_why"]
    log = stack.request("GET", f"/jobs/{job}/logs.txt").text
    assert "2 ranks on cpu" in log
    assert f"peak learning rate {test['used_rate']:g}, steps of 16 rows over all ranks" in log
    history = " | ".join(event["message"] for event in items(stack.get(f"/jobs/{job}/events")))
    assert "A range test may find the learning rate first, since a step has 16 rows" in history
    stack.post(f"/jobs/{job}/cancel")
    stack.job_wait(job, "cancelled")
