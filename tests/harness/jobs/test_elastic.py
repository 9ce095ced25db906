"""When a placed job may go on without a lost rank."""

from __future__ import annotations

import pytest

from harness.errors import Invalid
from harness.jobs.control.disk import disk_read
from harness.jobs.control.plans import plan_make
from harness.pool.models import Device
from harness.pool.services import pool_setting_update
from harness.rates.submitting import job_submit
from scheduler.types import Option
from tests.harness.jobs.helpers import place_now
from worker.plan import RunPlan
from worker.states import JobState

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent")]


def planned(job_make, **resources) -> RunPlan:
    """The plan of a job on so many cores."""
    job = job_make(mode="sync", resources={"device": "cpu", "count": 2, **resources})
    return RunPlan.from_dict(place_now(job).plan)


def test_a_job_that_says_how_few_ranks_will_do_may_lose_one(job_make, node_make):
    node_make(cpus=2)
    plan = planned(job_make, least=1)
    assert plan.least == 1
    assert RunPlan.from_dict(plan.to_dict()) == plan


def test_all_ranks_of_any_other_job_live_and_die_together(job_make, node_make):
    node_make(cpus=2)
    assert planned(job_make).least == 0


def test_by_the_twin_of_horovod_all_ranks_start_again(job_make, node_make):
    node_make(cpus=2)
    job = job_make(mode="sync", resources={"device": "cpu", "count": 2, "least": 1})
    devices = list(Device.objects.all())
    plans = {
        backend: plan_make(job, token=1, devices=devices, backend=backend, disk=disk_read(job))
        for backend in ("horovod", "torch")
    }
    assert (plans["horovod"].least, plans["horovod"].note) == (1, "")
    assert plans["torch"].least == 0 and "whatever resources.least says" in plans["torch"].note


@pytest.mark.parametrize(("mode", "cores"), [("single", 1), ("async", 2), ("pipeline", 2)])
def test_in_a_mode_that_was_chosen_since_then_all_ranks_start_again(job_make, node_make, mode, cores):
    node_make(cpus=2)
    job = job_make(mode="sync", resources={"device": "cpu", "count": 2, "least": 1})
    devices = list(Device.objects.all())[:cores]
    option = Option(kind="cpu", count=cores, mode=mode)
    plan = plan_make(job, token=1, devices=devices, backend="horovod", disk=disk_read(job), option=option)
    assert (plan.mode, plan.least, plan.most) == (mode, 0, 0)
    assert "in this mode all start again if a rank is lost, whatever resources.least says" in plan.note


def test_a_pool_that_would_have_all_ranks_start_again_refuses_such_a_job(job_make, node_make, people):
    node_make(cpus=2)
    pool_setting_update(user=people.admin, backend="torch")
    wish = {"device": "cpu", "count": 2}
    with pytest.raises(Invalid, match="would do nothing") as refused:
        job_submit(user=people.owner, job=job_make(mode="sync", resources={**wish, "least": 1}))
    assert refused.value.field == "resources.least" and "backend=horovod" in refused.value.hint
    assert job_submit(user=people.owner, job=job_make(mode="sync", resources=wish)).state == JobState.QUEUED
