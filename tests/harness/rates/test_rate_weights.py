"""Range tests of jobs that start from a weights file, in a pool with agents of an earlier release."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import Conflict
from harness.jobs.models import Job
from harness.rates.models import RateTest
from harness.rates.services import rate_test_start
from harness.rates.submitting import job_submit
from harness.rates.tasks import rate_first
from tests.factory_weights import weights_make

pytestmark = pytest.mark.django_db
TAKES = {"description": {"start_weights": True}}


@pytest.fixture
def started(job_make: Any, people: SimpleNamespace) -> Job:
    """A draft that starts from weights, and whose rate is to be found before it is submitted."""
    job: Job = job_make(training={"batch_size": 8, "rate_rule": "range"})
    Job.objects.filter(pk=job.pk).update(weights=weights_make(people.owner, people.project))
    job.refresh_from_db()
    return job


def test_a_test_is_made_where_the_agent_knows_of_weights(
    started: Job, people: SimpleNamespace, node_make: Any, commit: Any, tasks_sent: list[Any]
) -> None:
    node_make("older", cpus=8)
    with pytest.raises(Conflict, match="they would try it with fresh weights"):
        rate_test_start(user=people.owner, job=started)
    assert not RateTest.objects.exists()
    node_make("younger", cpus=1, **TAKES)
    commit(rate_test_start, user=people.owner, job=started)
    ((request, queue),) = [(sent[0], queue) for name, sent, queue in tasks_sent if name == "node.rate_range"]
    assert queue == "node.younger" and request["weights_dir"]


def test_without_one_a_job_is_submitted_by_the_rule_at_once_and_says_why(
    started: Job, people: SimpleNamespace, node_make: Any, commit: Any
) -> None:
    node_make("older")
    commit(job_submit, user=people.mate, job=started)
    rate_first(started.pk, people.mate.pk)
    started.refresh_from_db()
    assert started.state == "queued"
    (told,) = [event.message for event in started.events.all() if "found no learning rate" in event.message]
    assert "of an earlier release: they would try it with fresh weights" in told


def test_a_job_with_fresh_weights_is_tested_anywhere(
    job_make: Any, people: SimpleNamespace, node_make: Any, commit: Any, tasks_sent: list[Any]
) -> None:
    node_make("older")
    commit(rate_test_start, user=people.owner, job=job_make(training={"batch_size": 8}))
    assert [queue for name, _, queue in tasks_sent if name == "node.rate_range"] == ["node.older"]
