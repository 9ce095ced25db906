"""A second machine joins a running portal by one command, and a job spans both. Both "machines" are this one."""

from __future__ import annotations

import json
import re
import subprocess
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from safetensors.numpy import load

from tests.e2e.people import DLH, dlh
from tests.e2e.stack import END_TIMEOUT_S, JOB_TIMEOUT_S, START_TIMEOUT_S, clean_environment, processes_of, wait_for

pytestmark = pytest.mark.stack
SPEC = {
    "resources": {"device": "cpu", "count": 2},
    "mode": "sync",
    "model": {"family": "cnn", "size": "small"},
    "training": {"epochs": 2, "batch_size": 64, "seed": 7, "patience": 0},
    "checkpoints": {"every_epochs": 1},
}


@pytest.fixture
def first(make_stack):
    """A stack of the test's own, whose node has another loopback address than the second will."""
    return make_stack(DLH_NODE_NAME="first", DLH_NODE_ADDRESS="127.0.0.2").wait_running()


@pytest.fixture
def second(first, tmp_path):
    """The home of the second node, and its agent as `dlh node join` leaves it running."""
    agents = []

    def join(home=tmp_path / "second"):
        made = first.post("/pool/nodes", {"name": "second"})
        assert made["state"] == "down"
        token = first.post("/pool/nodes/second/token", {})["token"]
        env = clean_environment(home, DLH_NODE_CORES="1")
        command = [*DLH, "node", "join", first.url, token, "--home", str(home), "--address", "127.0.0.3", "--json"]
        output = (tmp_path / "second.txt").open("wb")
        agents.append(
            subprocess.Popen(command, env=env, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        )
        wait_for(lambda: _state(first, "second") == "up", timeout_s=START_TIMEOUT_S, what="the second node is up")
        return home, token, agents[-1]

    yield join
    for agent in agents:
        agent.kill()
        agent.wait()
    for process in processes_of(tmp_path / "second"):
        process.kill()


def _node(stack, name):
    return next((node for node in stack.get("/pool")["nodes"] if node["name"] == name), None)


def _state(stack, name):
    return (_node(stack, name) or {}).get("state")


def _dlh(home, *arguments):
    done = dlh(clean_environment(home), *arguments)
    return done.returncode, done.stdout + done.stderr


def _weights(stack, job):
    return load(stack.request("GET", f"/jobs/{job}/weights").content)


def test_a_machine_joins_is_looked_over_and_shares_a_job_with_the_first(first, second, digits_of):
    digits = digits_of(first)
    alone = first.job_submit(digits, SPEC)
    first.job_wait(alone, "succeeded")

    home, token, agent = second()
    node = _node(first, "second")
    assert node["address"] == "127.0.0.3" and len(node["devices"]) == 1
    states = {line["name"]: line["state"] for line in node["check"]["findings"]}
    assert states["clock"] == states["broker"] == states["node first"] == "ok"
    code, said = _dlh(home, "node", "join", first.url, token, "--home", str(home / "other"))
    assert code == 2 and "has been used" in said
    code, said = _dlh(home, "node", "join", first.url, token, "--home", str(home))
    assert code == 2 and "already joined" in said
    code, said = _dlh(home, "doctor", "--json", "--home", str(home))
    assert "bandwidth" in {line["name"] for line in json.loads(said)["findings"]}, said

    first.request("PATCH", "/pool/settings", json={"span_nodes": True})
    until = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    for core in _node(first, "first")["devices"][1:]:
        kept = {"node": "first", "device": f"cpu:{core['index']}", "ends_at": until, "purpose": "test"}
        first.post("/pool/reservations", kept)
    together = first.job_submit(digits, SPEC)
    first.job_wait(together, "succeeded")
    words = " ".join(row["message"] for row in first.get(f"/jobs/{together}/events")["items"])
    assert re.search("Placed on (first, second|second, first)", words) and "share the network" in words, words
    ours, theirs = _weights(first, together), _weights(first, alone)
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-5, atol=1e-6)

    long = first.job_submit(digits, {**SPEC, "training": {**SPEC["training"], "epochs": 500}})
    first.job_wait_step(long, 3)
    first.job_wait_checkpoint(long)
    for process in processes_of(home):
        process.kill()  # the machine is gone, its supervisor and its ranks with it
    agent.wait()

    wait_for(
        lambda: first.job(long)["restarts"], timeout_s=JOB_TIMEOUT_S, what="the job is queued again without the node"
    )
    first.post(f"/jobs/{long}/cancel")
    wait_for(lambda: first.job(long)["state"] == "cancelled", timeout_s=END_TIMEOUT_S, what="it is cancelled")


@pytest.fixture
def digits_of(tmp_path):
    """Upload the digits to a stack; the dataset's id."""
    from harness.datasets.samples import sample_file

    return lambda stack: stack.upload(sample_file("digits", tmp_path), "digits")


def test_a_wrong_address_and_a_wrong_token_are_told(stack, tmp_path):
    code, said = _dlh(tmp_path, "node", "join", "http://127.0.0.1:9", "dlhj_x", "--home", str(tmp_path / "node"))
    assert code == 4 and "does not answer" in said
    code, said = _dlh(tmp_path, "node", "join", stack.url, "dlhj_x", "--home", str(tmp_path / "node"))
    assert code == 3 and "unknown" in said
