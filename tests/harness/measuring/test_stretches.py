"""Jobs whose devices changed: their steps are told apart by what they were made on, and each stretch teaches."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from harness.calibration import selectors
from harness.calibration.models import FinishedJobRow
from harness.estimates.models import JobEstimate
from harness.jobs.models import DeviceUse, Job, JobAttempt, MetricPoint
from harness.jobs.states import job_note
from harness.measuring.learning import job_learn
from harness.measuring.stretches import stretches_of
from harness.measuring.taught import finished_of
from harness.pages.told_view import told_context
from scheduler.estimation.values import Allocation
from tests.harness.measuring.jobs import KIND, NAME, foretell, tell
from worker.shares import even

BATCH = 32


def wide(count: int) -> Allocation:
    return Allocation(kind=KIND, model_name=NAME, count=count, mode="sync", batch_split=even(BATCH, count))


def rates(job: Job, ranks: int, step_s: float, steps: range, time_s: float = 1.0) -> None:
    """Each rank tells its share of the pace."""
    MetricPoint.objects.bulk_create(
        MetricPoint(
            job=job, key=f"rank{rank}/samples_per_s", step=step, epoch=0.1, value=BATCH / step_s / ranks, time_s=time_s
        )
        for rank in range(ranks)
        for step in steps
    )


def narrowed(job: Job, *changes: tuple[int, int | None]) -> None:
    """It began on four cores; after `step` it went on with so many: (ranks, step)."""
    attempt = job.attempts.get()
    ranks = [{**attempt.plan["ranks"][0], "rank": rank, "local_rank": rank} for rank in range(4)]
    plan = {**attempt.plan, "mode": "sync", "ranks": ranks, "least": 1, "most": 4}
    width = {"number": 1, "slots": [0], "asked_at": timezone.now().isoformat(), "done": True}
    JobAttempt.objects.filter(pk=attempt.pk).update(plan=plan, world_size=4, width=width)
    for count, step in changes:
        job_note(job, "note", "Continues", data={"step": step, "width": {"ranks": count, "most": 4, "changes": 1}})


@pytest.fixture
def elastic(ended: Callable[..., Job]) -> Job:
    """Four cores for 100 steps of 10 ms, then two for 100 of 20 ms, then one for a moment."""

    def changes(job: Job) -> None:
        MetricPoint.objects.filter(job=job).delete()
        narrowed(job, (2, 100), (1, 200))
        foretell(job, wide(4), wide(2))
        rates(job, 4, 0.010, range(10, 101, 10))
        rates(job, 2, 0.020, range(110, 201, 10))
        rates(job, 1, 0.5, range(201, 203))
        tell(job, peak_bytes=1 << 28, samples_per_s=BATCH / 0.5)

    return ended(0.02, estimated=False, before_end=changes)


def test_each_width_is_a_reading_of_its_own_and_too_few_steps_are_none(elastic: Job) -> None:
    assert [(part.ranks, part.told) for part in stretches_of(elastic)] == [(4, 10), (2, 10)]
    assert job_learn(elastic.pk)
    taught = {job.allocation.count: job for job in finished_of(KIND, NAME)}
    assert {count: job.step_s for count, job in taught.items()} == pytest.approx({4: 0.010, 2: 0.020})
    assert taught[4].allocation.batch_split == (8, 8, 8, 8) and taught[2].allocation.batch_split == (16, 16)
    assert all(job.run_s is None and job.peak_bytes is None for job in taught.values())


def test_each_width_is_held_against_what_was_foretold_of_it(elastic: Job) -> None:
    job_learn(elastic.pk)
    rows = selectors.finished_rows()
    assert [(row.part, row.count) for row in rows] == [(0, 2), (1, 4)]
    step, run = (selectors.accuracy(rows)[place] for place in (0, 1))
    assert (step.jobs, run.jobs) == (1, 0) and step.mape is not None
    assert {row.count: row.predicted["allocation"]["count"] for row in rows} == {2: 2, 4: 4}


def test_a_width_that_nobody_foretold_teaches_all_the_same(elastic: Job) -> None:
    JobEstimate.objects.update(ways=[])
    job_learn(elastic.pk)
    assert {row.count: bool(row.predicted) for row in FinishedJobRow.objects.all()} == {4: True, 2: False}
    assert sorted(job.allocation.count for job in finished_of(KIND, NAME)) == [2, 4]


def test_a_width_to_which_it_came_back_counts_once_by_its_longest_stretch(ended: Callable[..., Job]) -> None:
    def changes(job: Job) -> None:
        MetricPoint.objects.filter(job=job).delete()
        narrowed(job, (2, 100), (4, 200), (2, 300))
        foretell(job, wide(4), wide(2))
        rates(job, 4, 0.010, range(10, 101, 10))
        rates(job, 4, 0.010, range(101, 103))  # which two of them made again
        rates(job, 2, 0.020, range(110, 201, 10))
        rates(job, 4, 0.015, range(210, 251, 10))
        rates(job, 2, 0.022, range(310, 351, 10))

    job_learn(ended(0.02, estimated=False, before_end=changes).pk)
    taught = [(job.allocation.count, job.step_s) for job in finished_of(KIND, NAME)]
    assert sorted(taught) == [(2, pytest.approx(0.022)), (4, pytest.approx(0.010))]


def test_where_nobody_knows_from_which_step_it_went_on_nothing_is_learnt(ended: Callable[..., Job]) -> None:
    def changes(job: Job) -> None:
        narrowed(job, (2, None))
        foretell(job, wide(4), wide(2))

    job = ended(0.02, estimated=False, before_end=changes)
    rates(job, 2, 0.020, range(110, 201, 10))
    assert job_learn(job.pk)
    assert not finished_of(KIND, NAME)
    assert FinishedJobRow.objects.get().predicted == {}  # of how many ranks its steps are nobody knows
    assert str(told_context(job)["said"]).startswith("Nothing is held against the estimate")


def went_on_elsewhere(job: Job, first_s: float, then_s: float) -> None:
    """Its first attempt was made an hour ago on two cores of another node."""
    MetricPoint.objects.filter(job=job).delete()
    last, use = job.attempts.get(), job.uses.get()
    began, hour = timezone.now() - timedelta(hours=2), timedelta(hours=1)
    JobAttempt.objects.filter(pk=last.pk).update(number=2)
    use.token = 2
    use.save()
    ranks = [{**last.plan["ranks"][0], "node": "node-2", "rank": rank, "local_rank": rank} for rank in range(2)]
    plan = {**last.plan, "mode": "sync", "ranks": ranks}
    first = JobAttempt.objects.create(job=job, number=1, plan=plan, world_size=2, ended_at=began + hour)
    JobAttempt.objects.filter(pk=first.pk).update(created_at=began)
    for index in range(2):
        use.pk, use.token, use.node_name, use.device_index = None, 1, "node-2", index
        use.save(force_insert=True)
    rates(job, 2, first_s, range(10, 101, 10), time_s=began.timestamp() + 60)
    rates(job, 1, then_s, range(110, 201, 10), time_s=last.created_at.timestamp() + 1)


def test_what_a_job_did_elsewhere_before_it_was_started_again_teaches_of_there(ended: Callable[..., Job]) -> None:
    job = ended(0.02)
    went_on_elsewhere(job, 0.011, 0.020)
    assert job_learn(job.pk)
    taught = [(job.node, job.allocation.count, job.step_s) for job in finished_of(KIND, NAME)]
    assert sorted(taught) == [("node-1", 1, pytest.approx(0.020)), ("node-2", 2, pytest.approx(0.011))]
    assert DeviceUse.objects.count() == 3


def test_steps_are_not_held_against_a_forecast_that_was_measured_after_they_began(ended: Callable[..., Job]) -> None:
    job = ended(0.02)
    went_on_elsewhere(job, 0.011, 0.020)
    kept = job.estimate
    kept.ways = [{**kept.estimate, "allocation": {**kept.estimate["allocation"], "count": 2, "mode": "sync"}}]
    kept.save()
    between = timezone.now() - timedelta(minutes=30)
    for basis, known in (("measured", {1: True, 2: False}), ("modelled", {1: True, 2: True})):
        FinishedJobRow.objects.all().delete()
        told = [{**way, "time_basis": basis} for way in (kept.estimate, *kept.ways)]
        JobEstimate.objects.filter(pk=kept.pk).update(estimate=told[0], ways=told[1:], made_at=between)
        assert job_learn(job.pk)
        assert {row.count: bool(row.predicted) for row in FinishedJobRow.objects.all()} == known


def test_the_page_of_such_a_job_tells_the_steps_of_its_other_devices(
    elastic: Job, client: Client, people: SimpleNamespace
) -> None:
    job_learn(elastic.pk)
    client.force_login(people.owner)
    page = " ".join(client.get(reverse("job_tab", args=[elastic.pk, "cost"])).content.decode().split())
    assert "Before, a step took 10 ms on 4 CPU cores (" in page
