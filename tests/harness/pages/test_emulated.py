"""Figures of devices that were declared slower than they are say so on every page that shows them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from harness.jobs.models import Job, JobAttempt
from harness.pages.speed import speedup_rows
from tests.harness.pages.test_speed import results_write

RANKS = [{"rank": 0, "node": "n1", "device": "cpu:0"}, {"rank": 1, "node": "n1", "device": "cpu:1", "slowdown": 3}]
SLOW = {"mode": "sync", "ranks": RANKS}


@pytest.fixture
def slowed(world: SimpleNamespace) -> Job:
    """A finished job, of whose two devices one was slowed down."""
    job: Job = world.jobs["succeeded"]
    job.attempts.all().delete()
    JobAttempt.objects.create(job=job, number=1, world_size=2, plan=SLOW)
    return job


@pytest.mark.parametrize("tab", ["live", "results", "cost", "events"])
def test_each_tab_of_a_job_names_its_emulated_devices(slowed: Job, owner: Client, tab: str) -> None:
    page = owner.get(reverse("job_tab", args=[slowed.pk, tab])).content.decode()
    assert "emulated devices" in page and "n1 cpu:1 3 times" in page


def test_a_job_of_one_rank_is_named_emulated_too(slowed: Job, owner: Client) -> None:
    slowed.attempts.update(world_size=1, plan={"ranks": RANKS[1:]})
    assert "n1 cpu:1 3 times" in owner.get(reverse("job_header", args=[slowed.pk])).content.decode()
    slowed.attempts.update(plan={"ranks": RANKS[:1]})
    assert "emulated" not in owner.get(reverse("job_header", args=[slowed.pk])).content.decode()


def test_lists_and_comparisons_mark_such_jobs(slowed: Job, world: SimpleNamespace, owner: Client) -> None:
    listed = owner.get(reverse("job_list")).content.decode()
    assert listed.count("n1 cpu:1 3 times") == 1
    other = world.jobs["running"]
    compared = owner.get(f"{reverse('job_compare')}?job={slowed.pk}&job={other.pk}").content.decode()
    assert compared.count("n1 cpu:1 3 times") == 1


def test_speed_up_leaves_out_emulated_devices_and_other_modes(slowed: Job) -> None:
    slowed.uses.all().delete()
    results_write(slowed, 1000.0)
    for name, size, mode in (
        ("oneranks0001", 1, "single"),
        ("fourstages01", 4, "pipeline"),
        ("fourranks001", 4, "sync"),
    ):
        other = Job.objects.get(pk=slowed.pk)
        other.pk = name
        Job.objects.bulk_create([other])
        JobAttempt.objects.create(job=other, number=1, world_size=size, plan={"mode": mode})
        results_write(other, 500.0 * size)
    found = [(row["ranks"], row["job"]) for row in speedup_rows(slowed)]
    assert found == [(1, "oneranks0001"), (4, "fourranks001")]
    staged = speedup_rows(Job.objects.get(pk="fourstages01"))
    assert [(row["ranks"], row["job"]) for row in staged] == [(1, "oneranks0001"), (4, "fourstages01")]


def test_the_name_of_a_gpu_is_not_cut_in_its_tile(owner: Client, node_make: Any) -> None:
    node_make("gpus", gpus=1)
    assert '<span class="model text-secondary">gpu</span>' in owner.get("/pool/").content.decode()


def test_a_declaration_that_is_taken_back_is_told_as_full_speed(world: SimpleNamespace, client: Client) -> None:
    client.force_login(world.admin)
    for factor, told in (("3", "now on run 3 times slower (emulated)."), ("1", "cpu:0 of node-1 runs at full speed.")):
        given = {"device": "node-1 cpu:0", "factor": factor}
        assert told in client.post(reverse("device_slow"), given, follow=True).content.decode()
