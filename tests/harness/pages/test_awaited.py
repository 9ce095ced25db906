"""A run that is trained, and whose results are on a node that stays away: what the page, `dlh show` and the API say."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from harness.jobs.control.effects import events_apply
from harness.jobs.models import Job
from harness.pool.models import Node
from harness.pool.services import nodes_mark_down
from tests.harness.jobs.helpers import event, run_now


@pytest.fixture
def awaited(people: SimpleNamespace, job_make: Any, node_make: Any, tasks_sent: list[Any]) -> Job:
    node_make()
    job: Job = run_now(job_make()).job
    told = {"node": "node-1", "outcome": "succeeded", "failure": None}
    events_apply(job.pk, [event(job, "returning", 5, rank=-1, **told)])
    Node.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=20))
    nodes_mark_down(timezone.now())
    return job


def shown(client: Client, job: Job, user: Any) -> str:
    client.force_login(user)
    return " ".join(client.get(f"/jobs/{job.pk}/").content.decode().split())


def test_the_page_says_where_they_are_and_what_can_be_done(
    awaited: Job, people: SimpleNamespace, client: Client
) -> None:
    page = shown(client, awaited, people.owner)
    assert "its results are on node-1 alone, which does not answer" in page and "Train again now" in page
    assert "then the job trains again from its newest checkpoint" in page and "is on its way" not in page
    assert "Train again now" not in shown(client, awaited, people.viewer)
    client.force_login(people.owner)
    client.post(reverse("job_act", args=[awaited.pk, "resume"]))
    awaited.refresh_from_db()
    assert awaited.state == "queued" and "its results are on" not in shown(client, awaited, people.owner)


def test_the_page_says_what_holds_up_results_whose_node_answers(
    awaited: Job, people: SimpleNamespace, client: Client
) -> None:
    Node.objects.update(state="up")
    why = "What the run makes stays on its node: something cuts off requests of 8 MiB."
    events_apply(awaited.pk, [event(awaited, "note", 6, rank=-1, message=why)])
    page = shown(client, awaited, people.owner)
    assert page.count(why) == 1 and "is on its way from node-1" in page


def test_of_a_run_whose_node_does_not_say_how_it_ended_nothing_is_guessed(
    people: SimpleNamespace, job_make: Any, node_make: Any, tasks_sent: list[Any], client: Client
) -> None:
    node_make()
    job: Job = run_now(job_make()).job
    events_apply(job.pk, [event(job, "returning", 5, rank=-1, node="node-1")])
    assert "The job is over once all has arrived." in shown(client, job, people.owner)


def test_the_api_names_the_node_and_until_when(awaited: Job, people: SimpleNamespace, client: Client) -> None:
    client.force_login(people.owner)
    told = client.get(f"/api/v1/jobs/{awaited.pk}").json()["awaited"]
    assert told["node"] == "node-1" and told["until"] > timezone.now().isoformat()
    Node.objects.update(state="up")
    assert client.get(f"/api/v1/jobs/{awaited.pk}").json()["awaited"] is None
