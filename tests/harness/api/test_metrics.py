"""Gauges for Prometheus, read by its own parser: they tell the state of the pool and name nobody."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from harness.errors import Unavailable
from harness.jobs.models import Job
from harness.jobs.readers import Reading, StreamState
from harness.pool.models import Device, Node, Reservation
from harness.pool.selectors import pool_overview
from harness.store import StorePaths
from tests.harness.api.conftest import API
from tests.harness.held_store import store_held
from tests.harness.jobs.helpers import place_now
from worker.states import JobState

pytestmark = pytest.mark.django_db
Read = Callable[[], dict[tuple[str, str], float]]
BEHIND = Reading(
    streams=(StreamState(number=0, waiting=7, behind_s=2.5, reader="a/1", read_at_s=1.0),), readers=("a/1",)
)


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What the broker tells of events."""
    told = SimpleNamespace(reading=BEHIND)

    def state() -> Reading:
        if told.reading is None:
            raise Unavailable("The portal's broker does not answer.")
        return told.reading

    monkeypatch.setattr("harness.api.exposition.reading_state", state)
    return told


@pytest.fixture
def gauges(people: SimpleNamespace, bearer: Callable[..., Client], reading: SimpleNamespace) -> Read:
    """Every value by name and labels, as a viewer's read token sees them."""

    def read() -> dict[tuple[str, str], float]:
        answer = bearer(people.viewer, "read").get(f"{API}/metrics")
        assert answer.status_code == 200 and answer["Content-Type"].startswith("text/plain; version=0.0.4")
        families = text_string_to_metric_families(answer.content.decode())
        return {
            (sample.name, " ".join(sample.labels.values())): sample.value
            for family in families
            for sample in family.samples
        }

    return read


def test_jobs_are_counted_by_state_and_the_trash_is_not(gauges: Read, job_make: Callable[..., Any]) -> None:
    jobs = [job_make(name=f"job {number}") for number in range(4)]
    long_ago = timezone.now() - timedelta(hours=1)
    Job.objects.filter(pk=jobs[0].pk).update(state=JobState.QUEUED, queued_at=long_ago, warning="its slack shrinks")
    Job.objects.filter(pk=jobs[1].pk).update(state=JobState.FAILED, warning="its slack shrank")
    Job.objects.filter(pk=jobs[2].pk).update(deleted_at=long_ago)
    found = gauges()
    assert {state: found["dlh_jobs", state] for state in JobState if found["dlh_jobs", state]} == {
        "queued": 1, "failed": 1, "draft": 1,
    }  # fmt: skip
    assert 3600 <= found["dlh_queue_oldest_seconds", ""] < 3700
    assert found["dlh_promises_at_risk", ""] == 1


def test_devices_are_counted_by_what_they_do(
    gauges: Read, job_make: Callable[..., Any], node_make: Callable[..., Any]
) -> None:
    node_make(cpus=4)
    place_now(job_make())
    Device.objects.filter(allocation=None, index=3).update(away_since=timezone.now())
    by_state = {labels.rpartition(" ")[2]: value for (name, labels), value in gauges().items() if name == "dlh_devices"}
    held = Device.objects.exclude(allocation=None).count()
    assert held and by_state == {"busy": held, "away": 1, "idle": 3 - held}
    idle = [value for (name, _), value in gauges().items() if name == "dlh_idle_power_watts"]
    assert len(idle) == 1 and idle[0] > 0


def test_a_reserved_device_is_counted_once_and_all_add_up(gauges: Read, node_make: Callable[..., Any]) -> None:
    node = node_make(cpus=3)
    now = timezone.now()
    Reservation.objects.create(
        device=node.devices.order_by("index")[0], starts_at=now, ends_at=now + timedelta(hours=1), purpose="tests"
    )
    by_state = {labels.rpartition(" ")[2]: value for (name, labels), value in gauges().items() if name == "dlh_devices"}
    assert by_state == {"reserved": 1, "idle": 2}
    overview = pool_overview()
    assert (overview.devices, overview.free, overview.reserved, overview.busy, overview.away) == (3, 2, 1, 0, 0)


def test_a_silent_node_and_its_devices_are_told_as_such(gauges: Read, node_make: Callable[..., Any]) -> None:
    node_make(cpus=2)
    Node.objects.update(state="down", heartbeat_at=timezone.now() - timedelta(minutes=10))
    found = gauges()
    assert found["dlh_node_state", "node-1 down"] == 1 and found["dlh_node_state", "node-1 up"] == 0
    assert 600 <= found["dlh_node_heartbeat_age_seconds", "node-1"] < 700
    assert [value for (name, labels), value in found.items() if name == "dlh_devices" and "away" in labels] == [2]


def test_the_reading_of_events_is_told_and_left_out_while_the_broker_is_away(
    gauges: Read, reading: SimpleNamespace
) -> None:
    found = gauges()
    assert (found["dlh_events_waiting", ""], found["dlh_events_behind_seconds", ""]) == (7, 2.5)
    assert (found["dlh_event_readers", ""], found["dlh_broker_up", ""]) == (1, 1)
    reading.reading = None
    found = gauges()
    assert found["dlh_broker_up", ""] == 0 and ("dlh_events_waiting", "") not in found


def test_a_store_that_does_not_answer_is_told_and_hides_no_other_gauge(
    gauges: Read, node_make: Callable[..., Any], settings: Any, tmp_path: Path
) -> None:
    node_make(cpus=2)
    found = gauges()
    assert found["dlh_store_up", ""] == 1 and found["dlh_store_free_bytes", ""] > 0
    (tmp_path / "file").touch()
    settings.STORE = StorePaths(tmp_path / "file" / "store")
    without = gauges()
    assert without["dlh_store_up", ""] == 0
    assert found.keys() - without.keys() == {("dlh_store_free_bytes", "")}


def test_a_store_that_holds_whoever_asks_it_holds_no_reading_of_the_gauges(
    gauges: Read, node_make: Callable[..., Any], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    node_make(cpus=2)
    found = gauges()
    with store_held(settings, monkeypatch) as asked:
        held = [gauges(), gauges()]
    assert [read["dlh_store_up", ""] for read in held] == [0, 0]
    assert all(found.keys() - read.keys() == {("dlh_store_free_bytes", "")} for read in held)
    assert len(asked) == 1, "each reading leaves a thread behind"
    assert gauges()["dlh_store_up", ""] == 1, "a store that is back stays away"


def test_nothing_names_a_job_a_person_or_a_project(
    people: SimpleNamespace,
    reading: SimpleNamespace,
    bearer: Callable[..., Client],
    job_make: Callable[..., Any],
    node_make: Callable[..., Any],
) -> None:
    node_make(cpus=2)
    place_now(job_make(name="unmistakable"))
    text = bearer(people.outsider, "read").get(f"{API}/metrics").content.decode()
    assert "dlh_devices" in text
    assert not [word for word in ("unmistakable", people.owner.username, people.project.slug) if word in text]


def test_it_asks_the_database_as_often_for_many_devices_as_for_few(gauges: Read, node_make: Callable[..., Any]) -> None:
    node_make(cpus=1)
    gauges()
    with CaptureQueriesContext(connection) as few:
        gauges()
    node_make(cpus=16)
    node_make(name="node-2", cpus=16)
    with CaptureQueriesContext(connection) as many:
        gauges()
    assert len(many) == len(few)
