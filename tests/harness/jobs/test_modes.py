"""What a mode makes of the devices a job is given, and what its page says of it."""

from __future__ import annotations

import pytest

from harness.jobs.mode import job_mode
from harness.jobs.models import Job
from tests.harness.jobs.helpers import place_now
from worker.plan import RunPlan

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent")]


def placed(job_make, mode: str, count: int = 2) -> tuple[Job, RunPlan]:
    """A placed job and its plan."""
    job = job_make(mode=mode, resources={"device": "cpu", "count": count})
    attempt = place_now(job)
    return job, attempt.run_plan


@pytest.mark.parametrize(
    ("mode", "threads"), [("single", [2]), ("replicated", [2]), ("sync", [1, 1]), ("async", [1, 1])]
)
def test_one_process_has_all_cores_and_ranks_one_each(job_make, node_make, mode, threads):
    node_make(cpus=2)
    job, plan = placed(job_make, mode)
    assert plan.mode == mode
    assert [rank.threads for rank in plan.ranks] == threads
    assert job_mode(job) == (mode, "the spec names it")


def test_the_page_tells_why_a_mode_was_picked(job_make, node_make):
    node_make(cpus=2)
    job, plan = placed(job_make, "auto")
    assert plan.mode == "sync"
    assert job_mode(job)[0] == "sync"
    assert "gradients averaged" in job_mode(job)[1]


def test_a_plan_survives_json_with_the_gpus_of_a_process(job_make, node_make):
    node_make(cpus=2)
    _, plan = placed(job_make, "sync")
    with_gpus = RunPlan.from_dict(
        {**plan.to_dict(), "ranks": [{**plan.to_dict()["ranks"][0], "others": ["cuda:1", "cuda:2"]}]}
    )
    assert with_gpus.ranks[0].others == ("cuda:1", "cuda:2")
    assert RunPlan.from_dict(with_gpus.to_dict()) == with_gpus
