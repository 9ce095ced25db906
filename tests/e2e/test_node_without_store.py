"""A machine that does not see the store joins with a cache of its own; its runs are as good as any.

Where this machine allows it (root, `unshare`) the second node's processes see an empty folder in the store's place.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from safetensors.numpy import load

from tests.e2e.stack import END_TIMEOUT_S, JOB_TIMEOUT_S, START_TIMEOUT_S, clean_environment, processes_of, wait_for

pytestmark = pytest.mark.stack
DLH = [sys.executable, "-c", "from harness.client.cli import main; main()"]
SPEC = {
    "resources": {"device": "cpu", "count": 1},
    "model": {"family": "cnn", "size": "small"},
    "training": {"epochs": 1, "batch_size": 64, "seed": 7, "patience": 0},
    "checkpoints": {"every_epochs": 1},
}


def _hidden(store):
    """What to put before a command so that it sees an empty folder in the store's place."""
    hide = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(store)]
    if os.getuid() != 0 or not shutil.which("unshare") or subprocess.run([*hide, "true"], check=False).returncode:
        print("NO MOUNT NAMESPACES: the second node could see the store")
        return []
    return hide


@pytest.fixture
def first(make_stack):
    """A stack of the test's own."""
    return make_stack(DLH_NODE_NAME="first", DLH_NODE_ADDRESS="127.0.0.2").wait_running()


@pytest.fixture
def second(first, tmp_path):
    """The home of a node that has joined with a cache; the first one takes no more jobs."""
    home = tmp_path / "second"
    first.post("/pool/nodes", {"name": "second"})
    token = first.post("/pool/nodes/second/token", {})["token"]
    command = [*DLH, "node", "join", first.url, token, "--home", str(home), "--cache", str(home / "cache")]
    command += ["--address", "127.0.0.3", "--json"]
    with (tmp_path / "second.txt").open("wb") as output:
        agent = subprocess.Popen(
            [*_hidden(first.home / "store"), *command], env=clean_environment(home, DLH_NODE_CORES="1"),
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    wait_for(lambda: _node(first, "second")["state"] == "up", timeout_s=START_TIMEOUT_S, what="the second node is up")
    first.post("/pool/nodes/first/drain")
    yield home
    for process in processes_of(home):
        process.kill()
    agent.kill()
    agent.wait()


def _node(stack, name):
    return next(node for node in stack.get("/pool")["nodes"] if node["name"] == name)


def _words(stack, job):
    return " ".join(row["message"] for row in stack.get(f"/jobs/{job}/events")["items"])


def test_a_node_fetches_by_hash_returns_all_and_a_run_goes_on_elsewhere(first, second, tmp_path):
    from harness.datasets.samples import sample_file

    assert _node(first, "second")["description"]["cache"]["limit_bytes"] == 50 << 30
    digits = first.upload(sample_file("digits", tmp_path), "digits")
    job = first.job_submit(digits, SPEC)
    first.job_wait(job, "succeeded")
    words = _words(first, job)
    assert "Placed on second" in words and "Data and program on second: " in words, words
    packed = {path.name: path.read_bytes() for path in first.home.glob("store/datasets/*/packed/*.*")}
    fetched = {path.name: path.read_bytes() for path in second.glob("cache/contents/*/*.*")}
    assert "images.parquet" in packed and packed.items() <= fetched.items()
    assert load(first.request("GET", f"/jobs/{job}/weights").content)
    assert 0 < first.get(f"/jobs/{job}/results")["metric"]["value_val"] <= 1
    assert first.request("GET", f"/jobs/{job}/logs.txt").text.count("\n") > 1
    store = first.home / "store" / "jobs" / job
    names = {row["name"] for row in first.get(f"/jobs/{job}/checkpoints")["items"]}
    assert names and names == {path.name for path in (store / "work" / "checkpoints").iterdir()}
    assert not (store / "parts").exists() and (second / "cache" / "jobs" / job / "work").is_dir()

    again = first.job_submit(digits, SPEC)
    first.job_wait(again, "succeeded")
    assert "Data and program on second: nothing to fetch" in _words(first, again), _words(first, again)

    first.post("/pool/nodes/first/undrain")
    first.request("PATCH", "/pool/settings", json={"span_nodes": True})
    until = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    for core in _node(first, "first")["devices"][1:]:
        kept = {"node": "first", "device": f"cpu:{core['index']}", "ends_at": until, "purpose": "test"}
        first.post("/pool/reservations", kept)
    together = first.job_submit(digits, {**SPEC, "mode": "sync", "resources": {"device": "cpu", "count": 2}})
    first.job_wait(together, "succeeded")
    assert re.search("Placed on (first, second|second, first)", _words(first, together))
    assert "Data and program on second" in _words(first, together)
    assert load(first.request("GET", f"/jobs/{together}/weights").content)
    first.post("/pool/nodes/first/drain")

    long = first.job_submit(digits, {**SPEC, "training": {**SPEC["training"], "epochs": 500}})
    first.job_wait_checkpoint(long)
    for process in processes_of(second):
        process.kill()  # the machine is gone, and its cache with it
    first.post("/pool/nodes/first/undrain")
    wait_for(lambda: first.job(long)["restarts"], timeout_s=JOB_TIMEOUT_S, what="the job is queued again")
    first.job_wait(long, "running")
    wait_for(
        lambda: "Going on from checkpoint step-" in _words(first, long), timeout_s=JOB_TIMEOUT_S,
        what="the first node goes on where the second was",
    )  # fmt: skip
    first.post(f"/jobs/{long}/cancel")
    wait_for(lambda: first.job(long)["state"] == "cancelled", timeout_s=END_TIMEOUT_S, what="it is cancelled")
