"""An urgent job takes a core from an elastic one, which goes on with the others and takes it back: one attempt."""

import pytest

from tests.e2e.faults import cores_of, history
from tests.e2e.held import LONG, NAPPING
from tests.e2e.stack import JOB_TIMEOUT_S, items, wait_for

pytestmark = pytest.mark.stack


def test_an_urgent_job_takes_a_core_of_an_elastic_one_which_takes_it_back(stack, wine):
    cores = cores_of(stack)
    if cores < 2:
        pytest.skip("one core cannot be shared")
    spec = {
        **LONG,
        "name": "elastic",
        "mode": "sync",
        "resources": {"device": "cpu", "count": cores, "least": 1},
        "checkpoints": {"commit_steps": 5},
    }
    elastic = stack.job_submit(wine, spec, NAPPING)
    stack.job_wait_step(elastic, 1)
    urgent = stack.job_submit(
        wine, {"name": "urgent", "resources": {"device": "cpu", "count": 1}, "training": {"epochs": 1, "seed": 1}}
    )
    stack.request("PATCH", f"/queue/{urgent}", json={"priority": 90})
    stack.job_wait(urgent, "succeeded")
    wait_for(
        lambda: f"{cores} ranks again." in history(stack, elastic),
        timeout_s=JOB_TIMEOUT_S,
        what="the elastic job has its core back",
    )
    told = history(stack, elastic)
    assert f"Continues with {cores - 1} of {cores} ranks: a core was needed by “urgent”." in told
    job = stack.job(elastic)
    assert (job["state"], job["restarts"]) == ("running", 0)
    (attempt,) = items(stack.get(f"/jobs/{elastic}/attempts"))
    assert (attempt["number"], attempt["world_size"], attempt["ranks"]) == (1, cores, cores)
    assert attempt["width_changes"] >= 2
    assert len(stack.ranks(elastic)) == cores
    stack.post(f"/jobs/{elastic}/cancel")
    stack.job_wait(elastic, "cancelled")
