"""What an offer says a rank may take is what the run is limited to, on each node that it lies on."""

from __future__ import annotations

import pytest
from django.utils import timezone

from harness.estimates.selectors import offer_priced
from harness.estimates.services import inspection_answer
from harness.pool.idle import IDLE_CPU_BYTES
from harness.pool.models import Device
from harness.pool.services import device_slow, pool_setting_update
from tests.harness.estimates.factories import answer
from tests.harness.jobs.helpers import place_now
from tests.scheduler.made_workloads import workload
from worker.plan import RunPlan

GIB = 1 << 30
WORK = workload(layers=4, filters=48, batch=32)


@pytest.fixture
def nodes(node_make, people):
    """Nodes of four cores, over which a job may span: (cores that are there, memory in GiB) of each."""

    def make(*sizes):
        for number, (cpus, gib) in enumerate(sizes, 1):
            name = f"node-{number}"
            node_make(name, cpus=4, address=f"10.0.0.{number}", memory_bytes=gib * GIB)
            Device.objects.filter(node__name=name, index__gte=cpus).update(away_since=timezone.now())
        pool_setting_update(user=people.admin, span_nodes=True)

    return make


def told_bytes(offer, count):
    """Of a rank of so many, by the offer once the program is read."""
    inspection_answer(answer(offer.inspection, workload=WORK.to_dict()))
    offer.refresh_from_db()
    lines = [line for line in offer_priced(offer).lines if line.allocation.mode == "sync"]
    (line,) = (line for line in lines if line.allocation.count == count)
    return line.memory_limit_bytes


def allowed_bytes(job):
    """The least that a rank of the run gets on any of its nodes, above an idle process."""
    plan = RunPlan.from_dict(place_now(job).plan)
    ranks = [rank.node for rank in plan.ranks]
    return min(plan.memory_bytes(node) // ranks.count(node) for node in plan.nodes) - IDLE_CPU_BYTES


@pytest.mark.parametrize(
    "sizes", [((1, 4), (1, 4)), ((2, 4), (1, 4)), ((2, 64), (2, 8)), ((3, 64), (2, 64)), ((4, 4),)]
)
def test_a_gang_is_offered_the_memory_that_it_gets(sizes, nodes, job_make, ask):
    nodes(*sizes)
    count = sum(cpus for cpus, _ in sizes)
    job = job_make(resources={"device": "cpu", "count": count}, mode="sync")
    assert told_bytes(ask(job, count=count), count) == pytest.approx(allowed_bytes(job), abs=count)


@pytest.mark.parametrize("sizes", [((1, 64), (1, 32)), ((1, 4), (1, 4))])
def test_so_is_a_gang_of_unlike_cores(sizes, nodes, job_make, ask, people):
    nodes(*sizes)
    device_slow(user=people.admin, node="node-1", kind="cpu", index=0, factor=1.5)
    job = job_make(resources={"device": "cpu", "count": 2}, mode="sync")
    assert told_bytes(ask(job, count=2), 2) == pytest.approx(allowed_bytes(job), abs=2)
