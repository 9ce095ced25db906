"""A node that is shut down in order, as in a rolling update, has its runs save first: nothing is done twice."""

from __future__ import annotations

import signal
from contextlib import contextmanager

import psutil
import pytest

from harness.datasets.samples import sample_file
from tests.e2e.cache_node import SPEC, second_node, words_of
from tests.e2e.stack import END_TIMEOUT_S, JOB_TIMEOUT_S, command_of, items, processes_of, wait_for

pytestmark = pytest.mark.stack
LONG = {**SPEC, "training": {**SPEC["training"], "epochs": 2000}, "checkpoints": {"every_epochs": 1000}}
"""No checkpoint is due for a long time."""
WHOLE = {"DLH_RUNS_END_WITH_NODE": "1", "DLH_STOP_SAVE_S": "90"}


@pytest.fixture
def first(make_stack):
    """A stack whose own node can be told from the second."""
    return make_stack(DLH_NODE_NAME="first", DLH_NODE_ADDRESS="127.0.0.2", DLH_NODE_CORES="2").wait_running()


def agent_of(home):
    """The process that `dlh node join` has become."""
    return next(process for process in processes_of(home) if command_of(process).endswith(" -m worker.agent"))


@contextmanager
def shut_down(home):
    """Have the node end in order; what happens meanwhile is the caller's."""
    agent = agent_of(home)
    agent.send_signal(signal.SIGTERM)
    yield
    psutil.wait_procs([agent], timeout=END_TIMEOUT_S)
    wait_for(lambda: not processes_of(home), timeout_s=END_TIMEOUT_S, what="nothing of the node is left")


def has_saved(first, job, step):
    """That the job has a checkpoint of this step or a later one, and the shutdown cost it no restart."""
    assert first.job(job)["restarts"] == 0
    steps = [row["step"] for row in items(first.get(f"/jobs/{job}/checkpoints"))]
    assert steps and max(steps) >= step, words_of(first, job)


def goes_on_where_it_stood(first, job, step):
    """That its second attempt makes the steps after this one, since the first had saved for the shutdown."""
    attempts = f"/jobs/{job}/attempts"
    wait_for(lambda: len(items(first.get(attempts))) == 2, timeout_s=JOB_TIMEOUT_S, what="it is placed again")
    first.job_wait_step(job, step + 1)
    before = min(items(first.get(attempts)), key=lambda row: row["number"])
    assert before["failure"]["code"] == "node_stopped" and "saved first" in before["failure"]["message"]
    has_saved(first, job, step)


def test_its_run_goes_on_elsewhere_where_it_stood_even_if_no_checkpoint_was_due(first, tmp_path):
    digits = first.upload(sample_file("digits", tmp_path), "digits")
    with second_node(first, tmp_path, name="second", settings=WHOLE) as home:
        job = first.job_submit(digits, LONG)
        step = first.job_wait_step(job, 20)["step"]
        assert not items(first.get(f"/jobs/{job}/checkpoints"))
        with shut_down(home):
            first.post("/pool/nodes/first/undrain")
        goes_on_where_it_stood(first, job, step)
        first.post(f"/jobs/{job}/cancel")


@pytest.mark.parametrize("more", [1, 2], ids=["as many ranks as there are", "elastic, and too few remain"])
def test_ranks_on_another_node_save_and_leave_with_it(first, tmp_path, more):
    digits = first.upload(sample_file("digits", tmp_path), "digits")
    with second_node(
        first, tmp_path, name="second", beside=True, settings=WHOLE | {"DLH_NODE_CORES": str(more)}
    ) as home:
        first.request("PATCH", "/pool/settings", json={"span_nodes": True})
        cores = len(next(node for node in first.get("/pool")["nodes"] if node["name"] == "first")["devices"])
        least = {"least": cores + 1} if more > 1 else {}
        both = {"mode": "sync", "resources": {"device": "cpu", "count": cores + more, **least}}
        job = first.job_submit(digits, {**LONG, **both})
        step = first.job_wait_step(job, 10)["step"]
        with shut_down(home):
            pass
        wait_for(
            lambda: first.job(job)["state"] == "queued", timeout_s=END_TIMEOUT_S, what="it waits for the node again"
        )
        has_saved(first, job, step)


def test_an_elastic_run_whose_first_node_is_shut_down_goes_on_from_where_it_stood(make_stack, tmp_path):
    names = {"DLH_NODE_NAME": "first", "DLH_NODE_ADDRESS": "127.0.0.2", "DLH_NODE_CORES": "1"}
    first = make_stack(**names, **WHOLE).wait_running()
    digits = first.upload(sample_file("digits", tmp_path), "digits")
    with second_node(first, tmp_path, name="second", beside=True):
        first.request("PATCH", "/pool/settings", json={"span_nodes": True})
        elastic = {"mode": "sync", "resources": {"device": "cpu", "count": 2, "least": 1}}
        job = first.job_submit(digits, {**LONG, **elastic})
        step = first.job_wait_step(job, 10)["step"]
        assert "Placed on first, second" in words_of(first, job), "the node that writes is the one that is shut down"
        psutil.Process(first.child("node")).terminate()  # the stack starts it again
        goes_on_where_it_stood(first, job, step)
        first.post(f"/jobs/{job}/cancel")
