"""A machine that does not see the store joins with a cache of its own; its runs are as good as any.

Where this machine allows it (root, `unshare`) the second node's processes see an empty folder in the store's place.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest
from safetensors.numpy import load

from tests.e2e.cache_node import SPEC, lose, node_of, second_node, words_of
from tests.e2e.stack import (
    END_TIMEOUT_S,
    JOB_TIMEOUT_S,
    REPOSITORY,
    START_TIMEOUT_S,
    clean_environment,
    wait_for,
)
from tests.worker.transfer.test_scrub import flip
from worker.transfer.cache import Cache

pytestmark = pytest.mark.stack
SECRETS = REPOSITORY / "deploy" / "compose" / "secrets.sh"


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
    with second_node(first, tmp_path, _hidden(first.home / "store")) as home:
        yield home


def test_a_node_fetches_by_hash_returns_all_and_a_run_goes_on_elsewhere(first, second, tmp_path):
    from harness.datasets.samples import sample_file

    assert node_of(first, "second")["description"]["cache"]["limit_bytes"] == 50 << 30
    digits = first.upload(sample_file("digits", tmp_path), "digits")
    job = first.job_submit(digits, SPEC)
    first.job_wait(job, "succeeded")
    words = words_of(first, job)
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
    assert "Data and program on second: nothing to fetch" in words_of(first, again), words_of(first, again)

    first.post("/pool/nodes/first/undrain")
    first.request("PATCH", "/pool/settings", json={"span_nodes": True})
    until = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    for core in node_of(first, "first")["devices"][1:]:
        kept = {"node": "first", "device": f"cpu:{core['index']}", "ends_at": until, "purpose": "test"}
        first.post("/pool/reservations", kept)
    together = first.job_submit(digits, {**SPEC, "mode": "sync", "resources": {"device": "cpu", "count": 2}})
    first.job_wait(together, "succeeded")
    assert re.search("Placed on (first, second|second, first)", words_of(first, together))
    assert "Data and program on second" in words_of(first, together)
    assert load(first.request("GET", f"/jobs/{together}/weights").content)
    first.post("/pool/nodes/first/drain")

    long = first.job_submit(digits, {**SPEC, "training": {**SPEC["training"], "epochs": 500}})
    first.job_wait_checkpoint(long)
    lose(second)  # and its cache with it
    first.post("/pool/nodes/first/undrain")
    wait_for(lambda: first.job(long)["restarts"], timeout_s=JOB_TIMEOUT_S, what="the job is queued again")
    first.job_wait(long, "running")
    wait_for(
        lambda: "Continuing from checkpoint step-" in words_of(first, long), timeout_s=JOB_TIMEOUT_S,
        what="the first node goes on where the second was",
    )  # fmt: skip
    first.post(f"/jobs/{long}/cancel")
    wait_for(lambda: first.job(long)["state"] == "cancelled", timeout_s=END_TIMEOUT_S, what="it is cancelled")


def test_a_bit_that_flips_in_its_cache_is_found_before_a_run_and_during_one(first, second, tmp_path):
    from harness.datasets.samples import sample_file

    digits = first.upload(sample_file("digits", tmp_path), "digits")
    job = first.job_submit(digits, SPEC)
    first.job_wait(job, "succeeded")
    (images,) = second.glob("cache/contents/*/images.parquet")
    good = images.read_bytes()
    flip(images)
    long = first.job_submit(digits, {**SPEC, "training": {**SPEC["training"], "epochs": 500}})
    first.job_wait_checkpoint(long)
    assert images.read_bytes() == good, "found by the run, or by the reading of its program before it"
    flip(images)
    Cache(second / "cache", 0).want(images.parent.name)  # as a run does whose data are large
    wait_for(lambda: first.job(long)["restarts"], timeout_s=JOB_TIMEOUT_S, what="the run ends and is queued again")
    first.job_wait(long, "running")
    assert "The data in the cache of second had become damaged" in words_of(first, long), words_of(first, long)
    assert images.read_bytes() == good
    told = wait_for(lambda: node_of(first, "second")["description"]["cache"].get("damages"), what="the pool is told")
    assert told == 2
    first.post(f"/jobs/{long}/cancel")
    wait_for(lambda: first.job(long)["state"] == "cancelled", timeout_s=END_TIMEOUT_S, what="it is cancelled")


def test_a_node_that_was_given_its_secret_beforehand_needs_nobody_and_runs_a_job(first, tmp_path):
    """As a container does it: `prepare` is told the secret, the node reads it from a file, nobody types anything."""
    from harness.datasets.samples import sample_file

    secrets, home = tmp_path / "secrets", tmp_path / "second"
    subprocess.run([SECRETS, secrets, "second"], check=True, capture_output=True)
    (secrets / "nodes" / "cache-1").unlink()
    state = json.loads((first.home / "run" / "stack.json").read_text())
    near = {**first.environment, "DLH_URL": first.url, "DLH_REDIS_URL": state["redis_url"]}
    prepare = [sys.executable, "-m", "harness.stack.bootstrap", "--words", "--node-secrets", str(secrets / "nodes")]
    done = subprocess.run(prepare, cwd=REPOSITORY, env=near, check=True, capture_output=True, text=True)
    assert "Nodes let in: second." in done.stdout
    broker = urlsplit(state["redis_url"])
    far = clean_environment(
        home, DLH_NODE_CORES="1", DLH_NODE_NAME="second", DLH_NODE_ADDRESS="127.0.0.3", DLH_URL=first.url,
        DLH_REDIS_URL=f"redis://{broker.hostname}:{broker.port}{broker.path}", DLH_CACHE=str(home / "cache"),
        DLH_NODE_SECRET_FILE=str(secrets / "nodes" / "second"), DLH_STORE="/nowhere",
    )  # fmt: skip
    with (tmp_path / "second.txt").open("wb") as output:
        agent = subprocess.Popen(
            [*_hidden(first.home / "store"), sys.executable, "-m", "harness.stack.part", "node"],
            cwd=REPOSITORY, env=far, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        wait_for(lambda: node_of(first, "second")["state"] == "up", timeout_s=START_TIMEOUT_S, what="the node is up")
        first.post("/pool/nodes/first/drain")
        digits = first.upload(sample_file("digits", tmp_path), "digits")
        job = first.job_submit(digits, SPEC)
        first.job_wait(job, "succeeded")
        assert "Data and program on second: " in words_of(first, job), words_of(first, job)
        assert load(first.request("GET", f"/jobs/{job}/weights").content)
    finally:
        lose(home)
        agent.kill()
        agent.wait()
