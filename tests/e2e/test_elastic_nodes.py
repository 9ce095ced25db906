"""A job over two nodes that can do without one loses it: it goes on in the same attempt, and never starts again."""

from __future__ import annotations

import re

import pytest

from harness.datasets.samples import sample_file
from tests.e2e.cache_node import lose, node_of, second_node, words_of
from tests.e2e.faults import succeeded_after
from tests.e2e.held import HELD_AT, job_hold, job_let_go
from tests.e2e.stack import JOB_TIMEOUT_S, items, wait_for

pytestmark = pytest.mark.stack
COMMIT_STEPS = 5
SPEC = {
    "mode": "sync",
    "resources": {"device": "cpu", "count": 2, "least": 1},
    "checkpoints": {"every_epochs": 1, "commit_steps": COMMIT_STEPS},
}


@pytest.fixture
def first(make_stack):
    """A stack of the test's own, whose node has one core, and another loopback address than the second will."""
    return make_stack(DLH_NODE_NAME="first", DLH_NODE_ADDRESS="127.0.0.2", DLH_NODE_CORES="1").wait_running()


def test_the_loss_of_a_node_restarts_nothing_and_its_core_is_free(first, tmp_path):
    wine = first.upload(sample_file("wine", tmp_path), "wine")
    first.request("PATCH", "/pool/settings", json={"span_nodes": True})
    with second_node(first, tmp_path, beside=True) as home:
        job = job_hold(first, wine, **SPEC)
        assert sorted(items(first.get(f"/jobs/{job}/attempts"))[0]["nodes"]) == ["first", "second"]
        assert "Placed on first, second" in words_of(first, job), "the node that writes is the one that stays"
        lose(home)
        job_let_go(first, job)
        wait_for(
            lambda: "Continues with 1 of 2 ranks: the node second was lost." in words_of(first, job),
            timeout_s=JOB_TIMEOUT_S,
            what="control gives the lost node's core back",
        )
        assert not node_of(first, "second")["devices"][0]["busy"]
        (step,) = map(int, re.findall(r"continuing with 1 of 2 ranks from step (\d+)", words_of(first, job)))
        assert HELD_AT - COMMIT_STEPS <= step <= HELD_AT
        first.job_wait(job, "succeeded")
    (attempt,) = succeeded_after(first, job)
    assert (attempt["world_size"], attempt["ranks"], attempt["width_changes"]) == (2, 1, 1)
