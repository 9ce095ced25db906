"""A GPU in the pool: offered, measured, run on, paused and metered, through a real stack, where a machine has one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.stack import JOB_TIMEOUT_S, items, wait_for
from tests.untested import untested
from worker import devices

GPUS = [device for device in devices.devices() if device["kind"] == "cuda"]
pytestmark = [
    pytest.mark.stack,
    pytest.mark.skipif(not GPUS, reason=untested("jobs on GPUs", "this machine has none of NVIDIA")),
]
ON_GPU = {"device": "cuda", "count": 1}
BUDGET_S = 20.0


def test_a_node_brings_its_gpus_into_the_pool(stack: Any) -> None:
    (node,) = stack.get("/pool")["nodes"]
    found = [device for device in node["devices"] if device["kind"] == "cuda"]
    assert [(device["model_name"], device["memory_bytes"]) for device in found] == [
        (gpu["model_name"], gpu["memory_bytes"]) for gpu in GPUS
    ]


def test_a_job_runs_on_a_gpu_and_tells_its_use_and_the_energy_that_its_meter_counted(stack: Any, digits: str) -> None:
    spec = {"name": "on a GPU", "resources": ON_GPU, "training": {"epochs": 30, "patience": 0, "seed": 1}}
    job = stack.job_submit(digits, spec)
    stack.job_wait(job, "succeeded")
    results = stack.get(f"/jobs/{job}/results")
    assert 0.5 < results["metric"]["value_test"] <= 1
    used = [gpu for sample in items(stack.get(f"/jobs/{job}/samples")) for gpu in sample["gpus"]]
    assert max(gpu["memory_bytes"] for gpu in used) > 0 and max(gpu["power_w"] for gpu in used) > 0
    cost = stack.get(f"/jobs/{job}/estimate")
    assert cost["actual"]["energy_j"] > 0 and cost["actual"]["peak_bytes"] > 0
    assert cost["actual_energy_basis"] == "measured"


def test_a_job_on_a_gpu_is_paused_and_goes_on(stack: Any, digits: str) -> None:
    spec = {"name": "paused", "resources": ON_GPU, "training": {"epochs": 4000, "patience": 0}}
    job = stack.job_submit(digits, spec)
    stack.job_wait_step(job, 20)
    stack.post(f"/jobs/{job}/pause", {})
    seen = stack.job_wait(job, "paused")["step"]
    stack.post(f"/jobs/{job}/resume", {})
    assert stack.job_wait_step(job, seen + 20)["step"] > seen
    stack.post(f"/jobs/{job}/cancel", {})
    stack.job_wait(job, "cancelled")


def test_an_offer_names_the_gpu_and_a_probe_runs_on_it(stack: Any, digits: str) -> None:
    job = stack.post("/jobs", {"dataset": digits, "spec": {"training": {"epochs": 3}}})
    offer = stack.post(f"/jobs/{job['id']}/offers", {})
    place = f"/offers/{offer['id']}"

    def until(what: str, done: Any) -> Any:
        return wait_for(lambda: (body := stack.get(place)) and done(body) and body, timeout_s=JOB_TIMEOUT_S, what=what)

    found = until("the program is read", lambda body: body["state"] != "waiting")
    assert found["state"] == "ready", found["problem"]
    assert any(line["device"] == "cuda" and line["offered"] for line in found["lines"])
    stack.post(f"{place}/probe", {"device": "cuda"})
    probed = until("the probe ends", lambda body: body["probe"]["state"] != "waiting")["probe"]
    assert probed["state"] == "done", probed["problem"]
    assert probed["device_model"] == GPUS[0]["model_name"]
    assert min(probed["step_s"]) > 0 and probed["power_w"] > 0


def test_a_small_sweep_of_a_gpu_leaves_points_and_a_model(stack: Any) -> None:
    run = stack.post("/pool/calibration", {"kind": "cuda", "budget_s": BUDGET_S})
    ended = wait_for(
        lambda: (body := stack.get(f"/pool/calibration/{run['id']}"))["state"] not in {"waiting", "running"} and body,
        timeout_s=JOB_TIMEOUT_S,
        what="the sweep ends",
    )
    assert ended["state"] == "finished", ended
    assert ended["measured"] and not ended["refused"], ended
    points = stack.request("GET", "/pool/calibration/points.json").json()["points"]
    own = [point for point in points if point["kind"] == "cuda"]
    assert len(own) == ended["measured"]
    assert all(min(point["step_s"]) > 0 and point["peak_bytes"] > 0 and point["power_w"] > 0 for point in own)


def test_a_rank_that_is_killed_on_a_gpu_goes_on_from_its_checkpoint(stack: Any, digits: str) -> None:
    spec = {"name": "killed", "resources": ON_GPU, "training": {"epochs": 4000, "patience": 0}}
    job = stack.job_submit(digits, spec)
    stack.job_wait_step(job, 20)
    stack.job_wait_checkpoint(job)
    (rank,) = stack.ranks(job)
    rank.kill()
    attempts = wait_for(
        lambda: len(rows := items(stack.get(f"/jobs/{job}/attempts"))) > 1 and rows,
        timeout_s=JOB_TIMEOUT_S,
        what="a second attempt begins",
    )
    assert len(attempts) == 2
    assert stack.job_wait_step(job, 21)["step"] >= 21
    stack.post(f"/jobs/{job}/cancel", {})
    stack.job_wait(job, "cancelled")
