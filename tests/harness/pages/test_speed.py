"""The speed-up of a job by its ranks: which other runs it is set against."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from harness.jobs.models import DeviceUse, Job, JobAttempt
from harness.pages import speed
from harness.pages.speed import speedup_rows


def results_write(job: Job, rate: float) -> None:
    path = settings.STORE.job(job.pk).root / "work" / "results" / "results.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"charts": [], "metrics": {}, "timing": {"samples_per_s": rate}}))


def test_speed_up_compares_the_same_work_on_other_numbers_of_ranks(world: SimpleNamespace, owner: Client) -> None:
    one = world.jobs["succeeded"]
    one.attempts.all().delete()
    one.uses.all().delete()
    JobAttempt.objects.create(job=one, number=1, world_size=1, plan={})
    results_write(one, 1000.0)
    assert speedup_rows(one) == []
    two = Job.objects.get(pk=one.pk)
    two.pk = "tworanks0001"
    Job.objects.bulk_create([two])
    JobAttempt.objects.create(job=two, number=1, world_size=2, plan={})
    results_write(two, 1800.0)
    assert [(row["ranks"], row["speedup"]) for row in speedup_rows(one)] == [(1, 1.0), (2, 1.8)]
    lines = b"".join(owner.get(reverse("job_speedup", args=[one.pk]))).decode().splitlines()
    assert lines[0] == "ranks,job,name,samples_per_s,speedup,ideal" and len(lines) == 3
    text = owner.get(reverse("job_tab", args=[one.pk, "results"])).content.decode()
    assert "Speed-up by ranks" in text and "samples per second" in text and "rows per second" not in text


def run_like(job: Job, name: str, plan: dict[str, Any], rate: float, **training: Any) -> Job:
    """A copy of a finished job that ran by another plan, on cores of the model EPYC."""
    other = Job.objects.get(pk=job.pk)
    other.pk = name
    other.resolved["spec"]["training"] |= training
    Job.objects.bulk_create([other])
    JobAttempt.objects.create(job=other, number=1, world_size=len(plan["ranks"]), plan=plan)
    use_of(other, "EPYC")
    results_write(other, rate)
    return other


def use_of(job: Job, model: str) -> None:
    now = timezone.now()
    DeviceUse.objects.create(
        job=job, node_name="n1", device_kind="cpu", device_index=0, device_model=model, token=1, started_at=now,
        ended_at=now, energy_j=1.0, energy_basis="estimated",
    )  # fmt: skip


def cores(mode: str, ranks: int, threads: int = 1) -> dict[str, Any]:
    """A plan on CPU cores."""
    return {"mode": mode, "ranks": [{"rank": at, "device": "cpu", "threads": threads} for at in range(ranks)]}


def test_speed_up_is_over_one_device_of_the_same_model_at_the_same_work(world: SimpleNamespace) -> None:
    job = world.jobs["succeeded"]
    job.attempts.all().delete()
    job.uses.all().delete()
    four = run_like(job, "fourranks001", cores("sync", 4), 3600.0)
    run_like(job, "fourthreads1", cores("single", 1, threads=4), 3500.0)
    assert speedup_rows(four) == [], "four cores of one process are no base"
    for name, training in (("inbf16000001", {"precision": "bf16"}), ("inparts00001", {"accumulate": 4})):
        run_like(job, name, cores("single", 1), 1800.0, **training)
    slower = run_like(job, "olddevice001", cores("single", 1), 500.0)
    slower.uses.update(device_model="Pentium")
    assert speedup_rows(four) == []
    run_like(job, "onecore00001", cores("single", 1), 1000.0, compression="fp16")
    run_like(job, "tworanks0001", cores("sync", 2), 1900.0, compression="fp16")
    assert [(row["ranks"], row["speedup"]) for row in speedup_rows(four)] == [(1, 1.0), (4, 3.6)]


def test_a_process_that_drives_several_gpus_is_no_base(world: SimpleNamespace) -> None:
    job = world.jobs["succeeded"]
    job.attempts.all().delete()
    two = run_like(
        job, "twogpus00001", {"mode": "sync", "ranks": [{"rank": 0, "device": "cuda:0", "threads": 8}] * 2}, 1900
    )
    replicas = {"rank": 0, "device": "cuda:0", "threads": 8, "others": ["cuda:1"]}
    run_like(job, "replicated01", {"mode": "replicated", "ranks": [replicas]}, 1800)
    assert speedup_rows(two) == []
    run_like(job, "onegpu000001", {"mode": "single", "ranks": [{"rank": 0, "device": "cuda:0", "threads": 8}]}, 1000)
    assert [row["speedup"] for row in speedup_rows(two)] == [1.0, 1.9]


def test_a_job_older_than_many_of_its_like_is_still_the_one_that_its_speed_up_tells(
    world: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "RELATIVES_MAX", 2)
    job = world.jobs["succeeded"]
    job.attempts.all().delete()
    job.uses.all().delete()
    four = run_like(job, "fourranks001", cores("sync", 4), 3600.0)
    run_like(job, "fouragain001", cores("sync", 4), 3900.0)
    run_like(job, "onerank00001", cores("single", 1), 1000.0)
    assert [(row["ranks"], row["speedup"]) for row in speedup_rows(four)] == [(1, 1.0), (4, 3.6)]


def test_the_jobs_that_it_is_set_against_are_read_in_the_order_of_an_index(world: SimpleNamespace) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL chooses by what is in its tables")
    with CaptureQueriesContext(connection) as asked:
        speedup_rows(world.jobs["succeeded"])
    (newest,) = [each["sql"] for each in asked if "ORDER BY" in each["sql"] and 'FROM "jobs_job"' in each["sql"]]
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {newest}")
        plan = " ".join(str(step) for step in cursor.fetchall())
    assert "USING INDEX" in plan and "TEMP B-TREE" not in plan, plan
