"""A job that has run is priced by its own pace, and not as one that nobody has seen."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import pytest
from django.utils import timezone

from harness.calibration.known import device_model
from harness.estimates.own_pace import own_probe
from harness.estimates.selectors import offer_priced
from harness.estimates.tried import batch_size
from harness.jobs.control.usage import uses_write
from harness.jobs.models import Allocation, Checkpoint, Job, MetricPoint
from scheduler.estimation.link import allreduce_s
from tests.harness.estimates.factories import workload_make
from tests.harness.jobs.helpers import estimated, run_now

PACE = 0.125
"""Seconds of a step, some hundred times what is assumed of the program."""


@pytest.fixture
def paused(job: Job) -> Callable[..., Job]:
    """Of the job: it has run on so many cores with this pace, saved half of its steps, and is paused."""

    def make(*, count: int = 1, step_s: float = PACE, spans: int = 8) -> Job:
        attempt = run_now(estimated(job, counts=(count,)))
        rate, now_s = batch_size(job) / step_s / count, timezone.now().timestamp()
        MetricPoint.objects.bulk_create(
            MetricPoint(
                job=job, key=f"rank{rank}/samples_per_s", step=span, epoch=1.0, time_s=now_s + span,
                value=rate * (0.01 if span == 0 else 1.0),
            )
            for rank in range(count)
            for span in range(spans)
        )  # fmt: skip
        uses_write(attempt, timezone.now())
        Allocation.objects.filter(attempt=attempt).delete()
        Checkpoint.objects.create(job=job, name="step-00000050", step=50, epoch=1)
        Job.objects.filter(pk=job.pk).update(state="paused", step=60, steps_total=100)
        job.refresh_from_db()
        return job

    return make


def steps(offer: Any) -> dict[tuple[int, str], float]:
    return {
        (line.allocation.count, line.allocation.mode): line.estimate.step_s.mid for line in offer_priced(offer).lines
    }


@pytest.mark.parametrize(("count", "mode"), [(1, "single"), (2, "sync")])
def test_a_paused_run_is_priced_by_its_own_pace_and_other_ways_in_proportion(
    job: Job, paused: Any, node_make: Any, offered: Any, count: int, mode: str
) -> None:
    node_make("node-1", cpus=2)
    before = steps(offered(job))
    offer = offered(paused(count=count))
    after, way = steps(offer), (count, mode)
    assert after[way] == pytest.approx(PACE)
    # one rank tells nothing of messages, which stay as they were; two waited for theirs
    sent_s = allreduce_s(device_model("cpu", "core").link, workload_make().gradient_bytes, 2) if count == 1 else 0.0
    sent = {key: sent_s if key[1] == "sync" else 0.0 for key in before}
    slower = {key: (after[key] - sent[key]) / (before[key] - sent[key]) for key in before}
    assert slower == pytest.approx(dict.fromkeys(before, PACE / before[way]))
    (line,) = (one for one in offer_priced(offer).lines if (one.allocation.count, one.allocation.mode) == way)
    assert offer_priced(offer).left == pytest.approx(0.5)
    assert str(line.estimate.time_basis) == "measured" and "the steps of the run so far on this" in line.estimate.note
    assert line.estimate.step_s.high < 1.1 * PACE  # one stretch of eight was a hundred times as long
    assert any("by the run's own pace so far, 125 ms each on" in note for note in offer.notes)


def test_memory_that_a_probe_measured_before_the_run_counts_on(
    job: Job, paused: Any, node_make: Any, offered: Any
) -> None:
    node_make("node-1", cpus=2)
    inspection = offered(job).inspection
    rows = [batch_size(job)]
    way = {"kind": "cpu", "model_name": "core", "count": 1, "mode": "single", "batch_split": rows, "threads": 1}
    inspection.probes.create(
        kind="cpu", model_name="core", node_name="node-1", state="done", allocation=way, step_s=[9.0], peak_bytes=2e8
    )
    lines = {line.allocation.count: line for line in offer_priced(offered(paused(count=2))).lines}
    assert lines[1].estimate.peak_bytes.mid == pytest.approx(2e8) and lines[1].estimate.memory_basis == "measured"
    assert lines[1].estimate.step_s.mid < 9.0


def test_other_kinds_of_device_are_priced_as_before(job: Job, paused: Any, node_make: Any, offered: Any) -> None:
    node_make("node-1", cpus=1, gpus=1)
    before = {line.allocation.kind: line.estimate.step_s for line in offer_priced(offered(job)).lines}
    after = {line.allocation.kind: line.estimate.step_s for line in offer_priced(offered(paused())).lines}
    assert after["cuda"] == before["cuda"] and after["cpu"] != before["cpu"]


@pytest.mark.parametrize("wrong", [{"spans": 2}, {"step_s": 1e200}])
def test_a_run_that_says_little_or_nonsense_is_priced_as_before(
    job: Job, paused: Any, node_make: Any, offered: Any, wrong: dict[str, float]
) -> None:
    node_make("node-1", cpus=2)
    before = steps(offered(job))
    offer = offered(paused(**wrong))
    assert steps(offer) == before and not any("own pace" in note for note in offer.notes)


def test_the_pace_on_a_device_that_was_declared_slower_is_that_of_the_device_itself(
    job: Job, paused: Any, node_make: Any
) -> None:
    node_make("node-1", cpus=1)
    paused()
    attempt = job.attempts.get()
    attempt.plan["ranks"][0]["slowdown"] = 5.0
    attempt.save()
    found = own_probe(job)
    assert found is not None and median(found.step_s) == pytest.approx(PACE / 5)


def test_a_run_whose_number_of_ranks_changed_on_the_way_tells_no_pace(job: Job, paused: Any, node_make: Any) -> None:
    node_make("node-1", cpus=1)
    paused()
    job.attempts.update(width={"number": 1, "slots": [0], "asked_at": "2030-01-01T00:00:00+00:00"})
    assert own_probe(job) is None
