"""Two machines on a slow line: a model that nobody asked to cut is offered in stages, and runs so on both."""

from __future__ import annotations

import pytest

from harness.datasets.samples import sample_file
from tests.e2e.far_node import NO_NAMESPACES, FarNode
from tests.e2e.stack import START_TIMEOUT_S, RunningStack, items, wait_for
from tests.untested import untested

pytestmark = pytest.mark.stack
MBIT = 8
SPEC = {
    "name": "wide",
    "model": {"family": "mlp", "params": {"layers": 4, "width": 512}},
    "training": {"epochs": 2, "batch_size": 64, "patience": 0, "seed": 5},
}
"""Its gradients are 3 MiB, so that adding them up takes seconds a step; what its layers hand on is 128 KiB."""


@pytest.fixture
def slow_pool(tmp_path, settled):
    """A stack with a node of one core here, and one behind a slow line; the dataset's id."""
    try:
        far = FarNode(tmp_path)
    except OSError:
        pytest.skip(NO_NAMESPACES)
    stack = None
    try:
        if not far.slow_down(MBIT):
            pytest.skip(untested("stages over a slow line", "needs root and `tc` with tbf"))
        stack = RunningStack(settled(tmp_path / "near"), **far.near_environment()).wait_running()
        far.join(stack)
        stack.request("PATCH", "/pool/settings", json={"span_nodes": True})
        wait_for(lambda: any(link["current"] for link in stack.get("/pool")["links"]), timeout_s=START_TIMEOUT_S,
                 what="the line is timed")  # fmt: skip
        yield stack, stack.upload(sample_file("wine", tmp_path), "wine")
        stack.stop()
    finally:
        far.close()
        if stack is not None:
            stack.kill()


def test_a_model_that_nobody_asked_to_cut_is_offered_in_stages_over_a_slow_line_and_runs_so(slow_pool):
    stack, wine = slow_pool
    job = stack.post("/jobs", {"project": stack.project, "dataset": wine, "spec": SPEC})["id"]
    offer = stack.post(f"/jobs/{job}/offers", {"count": 2})["id"]

    def priced():
        found = stack.get(f"/offers/{offer}")
        return found if found["state"] != "waiting" else None

    found = wait_for(priced, timeout_s=START_TIMEOUT_S, what="the offer is priced")
    assert found["state"] == "ready", found
    way = found["lines"][found["recommended"]]
    assert (way["mode"], way["stages"], way["count"]) == ("pipeline", 2, 2), found["lines"]
    assert any("The model is cut into 2 stages: so the run takes about" in note for note in found["notes"])

    stack.post(f"/offers/{offer}/accept", {"submit": True})
    stack.job_wait(job, "succeeded")
    (attempt,) = items(stack.get(f"/jobs/{job}/attempts"))
    assert set(attempt["nodes"]) == {"near", "far"}
    assert stack.job(job)["mode"] == "pipeline"
    assert stack.request("GET", f"/jobs/{job}/weights").content
