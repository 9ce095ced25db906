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

from harness.datasets.samples import sample_file
from tests.e2e.cache_node import SPEC, lose, node_of, second_node, words_of
from tests.e2e.stack import (
    END_TIMEOUT_S,
    JOB_TIMEOUT_S,
    REPOSITORY,
    START_TIMEOUT_S,
    RunningStack,
    clean_environment,
    command_of,
    processes_of,
    wait_for,
)
from tests.worker.transfer.test_scrub import flip
from worker.transfer.cache import Cache

pytestmark = pytest.mark.stack
NAMES = iter(("second", "third", "fourth", "fifth"))
SECRETS = REPOSITORY / "deploy" / "compose" / "secrets.sh"


def _hidden(store):
    """What to put before a command so that it sees an empty folder in the store's place."""
    hide = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(store)]
    if os.getuid() != 0 or not shutil.which("unshare") or subprocess.run([*hide, "true"], check=False).returncode:
        print("NO MOUNT NAMESPACES: the second node could see the store")
        return []
    return hide


@pytest.fixture(scope="module")
def first(tmp_path_factory, settled):
    """The stack of all tests here."""
    folder = tmp_path_factory.mktemp("first")
    stack = RunningStack(settled(folder / "home"), DLH_NODE_NAME="first", DLH_NODE_ADDRESS="127.0.0.2")
    try:
        yield stack.wait_running()
        stack.stop()
    finally:
        stack.kill()


@pytest.fixture(scope="module")
def digits(first, tmp_path_factory):
    """Id of the digits in that stack."""
    return first.upload(sample_file("digits", tmp_path_factory.mktemp("digits")), "digits")


@pytest.fixture
def name(first):
    """Of the test's own node; those of the tests before it are lost. The first one takes no more jobs."""
    name = next(NAMES)
    first.post("/pool/nodes/first/drain")
    yield name
    first.post(f"/pool/nodes/{name}/drain")  # nothing is placed there while it is not yet known that it is lost


@pytest.fixture
def second(first, name, tmp_path):
    """The home of a node that has joined with a cache."""
    with second_node(first, tmp_path, _hidden(first.home / "store"), name=name) as home:
        yield home


def test_a_node_fetches_by_hash_returns_all_and_a_run_goes_on_elsewhere(first, second, name, digits):
    assert node_of(first, name)["description"]["cache"]["limit_bytes"] == 50 << 30
    job = first.job_submit(digits, SPEC)
    first.job_wait(job, "succeeded")
    words = words_of(first, job)
    assert f"Placed on {name}" in words and f"Data and program on {name}: " in words, words
    packed = {path.name: path.read_bytes() for path in first.home.glob("store/datasets/*/packed/*.*")}
    fetched = {path.name: path.read_bytes() for path in second.glob("cache/contents/*/*.*")}
    assert "images.parquet" in packed and packed.items() <= fetched.items()
    assert load(first.request("GET", f"/jobs/{job}/weights").content)
    assert 0 < first.get(f"/jobs/{job}/results")["metric"]["value_val"] <= 1
    assert first.request("GET", f"/jobs/{job}/logs.txt").text.count("\n") > 1
    store = first.home / "store" / "jobs" / job
    names = {row["name"] for row in first.get(f"/jobs/{job}/checkpoints")["items"]}
    assert names and names == {path.name for path in (store / "work" / "checkpoints").glob("step-*")}
    assert not (store / "parts").exists() and (second / "cache" / "jobs" / job / "work").is_dir()

    again = first.job_submit(digits, SPEC)
    first.job_wait(again, "succeeded")
    assert f"Data and program on {name}: nothing to fetch" in words_of(first, again), words_of(first, again)

    first.post("/pool/nodes/first/undrain")
    first.request("PATCH", "/pool/settings", json={"span_nodes": True})
    until = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    for core in node_of(first, "first")["devices"][1:]:
        kept = {"node": "first", "device": f"cpu:{core['index']}", "ends_at": until, "purpose": "test"}
        first.post("/pool/reservations", kept)
    together = first.job_submit(digits, {**SPEC, "mode": "sync", "resources": {"device": "cpu", "count": 2}})
    first.job_wait(together, "succeeded")
    assert re.search(f"Placed on (first, {name}|{name}, first)", words_of(first, together))
    assert f"Data and program on {name}" in words_of(first, together)
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


def test_a_bit_that_flips_in_its_cache_is_found_before_a_run_and_during_one(first, second, name, digits):
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
    assert f"The data in the cache of {name} had become damaged" in words_of(first, long), words_of(first, long)
    assert images.read_bytes() == good
    told = wait_for(lambda: node_of(first, name)["description"]["cache"].get("damages"), what="the pool is told")
    assert told == 2
    first.post(f"/jobs/{long}/cancel")
    wait_for(lambda: first.job(long)["state"] == "cancelled", timeout_s=END_TIMEOUT_S, what="it is cancelled")


def test_a_run_leaves_its_device_to_others_while_its_results_cannot_return_and_loses_none(first, second, name, digits):
    job = first.job_submit(digits, SPEC)

    def returns():
        """Processes of the node that return what this run made."""
        started = ((process, command_of(process)) for process in processes_of(second))
        return [process for process, words in started if "worker.transfer." in words and job in words]

    shut = first.home / "store" / "jobs" / job / "incoming"
    shut.touch()  # a file where the portal needs a folder: it answers 500, whatever is returned
    first.job_wait(job, "returning")
    other = first.job_submit(digits, SPEC)
    first.job_wait(other, "succeeded")
    (before,) = returns()
    before.kill()
    wait_for(lambda: [one for one in returns() if one.pid != before.pid], timeout_s=END_TIMEOUT_S, what="it goes on")
    assert first.job(job)["state"] == "returning"
    shut.unlink()
    first.job_wait(job, "succeeded")
    assert load(first.request("GET", f"/jobs/{job}/weights").content)
    names = {row["name"] for row in first.get(f"/jobs/{job}/checkpoints")["items"]}
    assert names == {path.name for path in (shut.parent / "work" / "checkpoints").glob("step-*")} != set()
    assert first.job(job)["restarts"] == 0


def test_a_node_that_was_given_its_secret_beforehand_needs_nobody_and_runs_a_job(first, name, digits, tmp_path):
    """As a container does it: `prepare` is told the secret, the node reads it from a file, nobody types anything."""
    secrets, home = tmp_path / "secrets", tmp_path / name
    subprocess.run([SECRETS, secrets, name], check=True, capture_output=True)
    (secrets / "nodes" / "cache-1").unlink()
    state = json.loads((first.home / "run" / "stack.json").read_text())
    near = {**first.environment, "DLH_URL": first.url, "DLH_REDIS_URL": state["redis_url"]}
    prepare = [sys.executable, "-m", "harness.stack.bootstrap", "--words", "--node-secrets", str(secrets / "nodes")]
    done = subprocess.run(prepare, cwd=REPOSITORY, env=near, check=True, capture_output=True, text=True)
    assert f"Nodes let in: {name}." in done.stdout
    broker = urlsplit(state["redis_url"])
    far = clean_environment(
        home, DLH_NODE_CORES="1", DLH_NODE_NAME=name, DLH_NODE_ADDRESS="127.0.0.3", DLH_URL=first.url,
        DLH_REDIS_URL=f"redis://{broker.hostname}:{broker.port}{broker.path}", DLH_CACHE=str(home / "cache"),
        DLH_NODE_SECRET_FILE=str(secrets / "nodes" / name), DLH_STORE="/nowhere",
    )  # fmt: skip
    with (tmp_path / "node.txt").open("wb") as output:
        agent = subprocess.Popen(
            [*_hidden(first.home / "store"), sys.executable, "-m", "harness.stack.part", "node"],
            cwd=REPOSITORY, env=far, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        wait_for(lambda: node_of(first, name)["state"] == "up", timeout_s=START_TIMEOUT_S, what="the node is up")
        job = first.job_submit(digits, SPEC)
        first.job_wait(job, "succeeded")
        assert f"Data and program on {name}: " in words_of(first, job), words_of(first, job)
        assert load(first.request("GET", f"/jobs/{job}/weights").content)
    finally:
        lose(home)
        agent.kill()
        agent.wait()
