"""Jobs in stages: how they are placed, told to nodes, offered, and what they teach."""

from __future__ import annotations

from typing import Any

import pytest

from harness.jobs.models import MetricPoint
from harness.measuring.learning import step_s_of
from harness.pages.spec_fields import spec_groups
from tests.codegen.model_profiles import table
from tests.harness.jobs.helpers import place_now

pytestmark = pytest.mark.django_db
TWO = {"device": "cpu", "count": 2}


@pytest.mark.parametrize(("mode", "count"), [("pipeline", 2), ("pipeline+sync", 4)])
def test_every_device_gets_a_rank_that_talks_by_torch(mode: str, count: int, job_make: Any, node_make: Any) -> None:
    node_make("node-1", cpus=4)
    job = job_make(mode=mode, resources={"device": "cpu", "count": count})
    attempt = place_now(job)
    assert (attempt.plan["mode"], attempt.plan["backend"]) == (mode, "torch")
    assert [(rank["device"], rank["threads"]) for rank in attempt.plan["ranks"]] == [("cpu", 1)] * count
    assert job.resolved["spec"]["pipeline"]["stages"] == 2


def test_the_pace_of_stages_is_told_once_not_added_up(job_make: Any) -> None:
    job = job_make(mode="pipeline", resources=TWO, training={"batch_size": 32})
    for rank in (0, 1):
        for step in range(4):
            MetricPoint.objects.create(
                job=job, key=f"rank{rank}/samples_per_s", step=step, epoch=0.1, value=320.0, time_s=1.0
            )
    assert step_s_of(job, {"samples_per_s": 320.0}, shared=False) == pytest.approx(0.1)
    assert step_s_of(job, {"samples_per_s": 320.0}) == pytest.approx(0.05)


def test_stages_are_in_the_form_with_their_limits() -> None:
    fields = {field.path: field for group in spec_groups(table()) for field in group.fields}
    assert dict(fields["pipeline.recompute"].choices) == {"true": "yes", "false": "no"}
    assert ("ge", 1) in fields["pipeline.micro_batches"].bounds
    assert {"pipeline", "pipeline+sync"} <= {value for value, _ in fields["mode"].choices}
