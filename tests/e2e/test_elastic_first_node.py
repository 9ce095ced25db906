"""A job over two nodes loses the first, whose ranks write for all: the other saves its copy, and little is lost."""

from __future__ import annotations

import json
import re

import pytest

from harness.datasets.samples import sample_file
from tests.e2e.cache_node import node_lose, second_node, words_of
from tests.e2e.faults import job_folder, succeeded_after
from tests.e2e.held import HELD_ONCE, job_hold, job_let_go
from tests.e2e.stack import JOB_TIMEOUT_S, RunningStack, items, wait_for

pytestmark = pytest.mark.stack
COMMIT_STEPS = 5
SPEC = {
    "mode": "sync",
    "resources": {"device": "cpu", "count": 2, "least": 1},
    "checkpoints": {"every_epochs": 1000, "commit_steps": COMMIT_STEPS},
}
SAVED = re.compile(r"The node first was lost; second has saved the run as it was after step (\d+)\.")


@pytest.fixture
def first(make_stack):
    """As in `test_elastic_nodes`: a stack whose node has one core."""
    return make_stack(DLH_NODE_NAME="first", DLH_NODE_ADDRESS="127.0.0.2", DLH_NODE_CORES="1").wait_running()


def steps_told(stack: RunningStack, job: str) -> int:
    """The last step of the first attempt that the first rank had told when it ended."""
    events = job_folder(stack, job) / "work" / "events" / "attempt-1" / "rank-0.jsonl"
    lines = [json.loads(line) for line in events.read_text().splitlines() if line.endswith("}")]
    return max(line["data"]["step"] for line in lines if line["kind"] == "metric")


def test_the_next_attempt_goes_on_from_the_last_copy_of_the_other_node(first, tmp_path):
    wine = first.upload(sample_file("wine", tmp_path), "wine")
    first.request("PATCH", "/pool/settings", json={"span_nodes": True})
    with second_node(first, tmp_path, beside=True) as second:
        job = job_hold(first, wine, HELD_ONCE, **SPEC)  # the next begins with the node that was not lost
        assert "Placed on first, second" in words_of(first, job), "the node that writes is the one that is lost"
        node_lose(first, job)
        job_let_go(first, job)
        made = steps_told(first, job)
        saved = wait_for(
            lambda: SAVED.search(words_of(first, job)), timeout_s=JOB_TIMEOUT_S, what="what the other saved is taken"
        )
        step, name = int(saved[1]), f"step-{int(saved[1]):08d}"
        assert step >= made - COMMIT_STEPS
        wait_for(
            lambda: f"Continuing from checkpoint {name}: step {step}," in words_of(first, job),
            timeout_s=JOB_TIMEOUT_S, what="the next attempt goes on from what was saved",
        )  # fmt: skip
        assert max(row["step"] for row in items(first.get(f"/jobs/{job}/checkpoints"))) >= step
        first.job_wait(job, "succeeded")
        succeeded_after(first, job, "lost", homes=[second])
