"""The table of ranks on the live tab has what ranks of the job's mode tell, and no column without a figure."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from django.test import Client
from django.urls import reverse

from harness.jobs.control.width_request import WidthRequest
from harness.jobs.models import Allocation, Job, JobAttempt
from harness.pages.ranks_view import ranks_of
from harness.pool.models import Device, DeviceKind, Node


def ran(job: Job, mode: str, ranks: int, *, stages: int | str = "auto", **plan: object) -> Job:
    """The job with one attempt of so many ranks."""
    job.attempts.all().delete()
    rows = [{"rank": rank, "node": "n1", "device": "cpu"} for rank in range(ranks)]
    JobAttempt.objects.create(job=job, number=1, world_size=ranks, plan={"mode": mode, "ranks": rows, **plan})
    job.resolved = {**job.resolved, "spec": {**job.resolved.get("spec", {}), "pipeline": {"stages": stages}}}
    job.save(update_fields=["resolved"])
    return job


def live(job: Job, owner: Client) -> str:
    return owner.get(reverse("job_tab", args=[job.pk, "live"])).content.decode()


def test_ranks_of_pipelines_are_shown_with_their_stages(world: SimpleNamespace, owner: Client) -> None:
    page = live(ran(world.jobs["succeeded"], "pipeline+sync", 4, stages=2), owner)
    assert 'data-label="Stage">2 of 2, pipeline 2<' in page and 'data-label="Stage">1 of 2, pipeline 1<' in page
    assert "Idle</th>" not in page and "Rows of a step" not in page
    for wish in (3, "auto"):
        assert 'data-label="Stage">3 of 3<' in live(ran(world.jobs["succeeded"], "pipeline", 3, stages=wish), owner)
    assert "2 of 2, pipeline 3<" in live(ran(world.jobs["succeeded"], "pipeline+sync", 6), owner)


def test_the_stages_that_a_run_was_priced_with_win(world: SimpleNamespace, owner: Client) -> None:
    priced = {"environment": {"DLH_STAGES": "4"}}
    assert "of 4<" in live(ran(world.jobs["succeeded"], "pipeline+sync", 4, stages=2, **priced), owner)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_only_ranks_that_share_rows_out_have_rows_and_idle_shares(
    world: SimpleNamespace, owner: Client, mode: str
) -> None:
    page = live(ran(world.jobs["succeeded"], mode, 2), owner)
    assert "Stage</th>" not in page and "Samples per second" in page
    assert ("Idle</th>" in page) == ("Rows of a step" in page) == (mode == "sync")


def test_ranks_on_cores_of_one_node_are_told_apart_while_they_have_them(world: SimpleNamespace, owner: Client) -> None:
    job = ran(world.jobs["succeeded"], "sync", 3, most=3)
    attempt, node = job.attempts.get(), Node.objects.create(name="n1")
    for rank, index in ((0, 4), (2, 1), (1, 0)):
        device = Device.objects.create(node=node, kind=DeviceKind.CPU, index=index, model_name="A core")
        Allocation.objects.create(device=device, job=job, attempt=attempt, rank=rank)
    names = re.findall(r'data-label="Device">\s*<div>\s*(.*?)\s*<', live(job, owner))
    assert names == ["n1 CPU 4", "n1 CPU 0", "n1 CPU 1"]
    JobAttempt.objects.update(width=WidthRequest(number=1, slots=(0, 2), asked_at="2026-01-01T00:00+00:00").to_dict())
    assert [(row.rank, row.device) for row in ranks_of(job).rows] == [(0, "n1 CPU 4"), (1, "n1 CPU 1")]
    Allocation.objects.all().delete()
    assert [row.device for row in ranks_of(job).rows] == ["n1 CPU", "n1 CPU"], "nobody knows any more"
