"""The page of the queue: long queues come in parts, and everybody finds their own jobs."""

from __future__ import annotations

import copy
import re
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from harness.jobs import outlook
from harness.jobs.models import Job, new_id
from harness.jobs.readers import Standstill
from harness.pages import job_view
from harness.pages.views import home, queue
from harness.pages.views.queue import PAGE_SIZE


def many(like: Job, count: int) -> None:
    """So many more jobs in the same state."""
    made = []
    for number in range(count):
        job = copy.copy(like)
        job.pk, job.name, job._state.adding = new_id(), f"copy {number}", True
        made.append(job)
    Job.objects.bulk_create(made)


def shown(client: Client, address: str) -> str:
    return re.sub(r"\s+", " ", client.get(address).content.decode())


def test_a_long_queue_comes_in_pages_that_keep_the_places(world: SimpleNamespace, owner: Client) -> None:
    many(world.jobs["queued"], PAGE_SIZE + 20)
    total = Job.objects.filter(state="queued").count()
    first, second = shown(owner, "/queue/"), shown(owner, "/queue/?page=2")
    assert f"{total} in all · page 1 of 2" in first and "page 2 of 2" in second
    assert first.count('data-label="Place"') == PAGE_SIZE and second.count('data-label="Place"') == total - PAGE_SIZE
    assert f'data-label="Place">{PAGE_SIZE + 1}<' in second
    assert "page 2 of 2" in shown(owner, "/queue/?page=99")


def test_many_runs_come_in_pages_of_their_own(world: SimpleNamespace, owner: Client) -> None:
    many(world.jobs["running"], PAGE_SIZE)
    many(world.jobs["queued"], PAGE_SIZE)
    first, second = shown(owner, "/queue/"), shown(owner, "/queue/?held=2")
    assert first.count('data-label="Holds"') == PAGE_SIZE and 0 < second.count('data-label="Holds"') < PAGE_SIZE
    assert 'href="/queue/?held=2"' in first and 'href="/queue/?held=2&amp;page=2"' in second


def test_a_job_far_behind_goes_to_the_front_at_once(world: SimpleNamespace, owner: Client) -> None:
    Job.objects.filter(state="queued").update(deadline_at=None, promised_at=None)
    many(world.jobs["queued"], PAGE_SIZE + 1)
    Job.objects.filter(state="queued").update(deadline_at=None, promised_at=None)
    owner.force_login(world.admin)
    page = shown(owner, "/queue/?page=2")
    job_id, name = re.findall(r'data-job="(\w+)".*?>([^<]+)</a>', page)[-1]
    assert f"Move {name} to the front" in page
    owner.post(f"/queue/{job_id}/", {"to": "first"})
    assert job_id in re.findall(r'data-job="(\w+)"', shown(owner, "/queue/"))


def test_pages_go_on_from_a_move_that_was_only_looked_at(world: SimpleNamespace, owner: Client) -> None:
    many(world.jobs["queued"], PAGE_SIZE + 1)
    Job.objects.filter(state="queued").update(deadline_at=None, promised_at=None)
    owner.force_login(world.admin)
    job_id = re.findall(r'data-job="(\w+)"', shown(owner, "/queue/"))[0]
    looked = owner.post(f"/queue/{job_id}/?of=mine", {"priority": "9", "look": "1"}).content.decode()
    assert "Nothing is saved yet" in looked
    looked = owner.post(f"/queue/{job_id}/", {"priority": "9", "look": "1"}).content.decode()
    (there,) = re.findall(r'rel="next" href="([^"]+)"', looked)
    assert "page 2 of 2" in shown(owner, there)


def test_mine_are_ones_own_jobs_with_their_places_among_all(world: SimpleNamespace, owner: Client) -> None:
    many(world.jobs["queued"], 3)
    Job.objects.filter(name__startswith="copy").update(owner=world.admin)
    waiting = Job.objects.filter(state="queued", owner=world.owner)
    page = shown(owner, "/queue/?of=mine")
    assert page.count('data-label="Place"') == waiting.count() and "copy 0" not in page
    Job.objects.update(owner=world.admin)
    page = shown(owner, "/queue/?of=mine")
    assert "None of your jobs is waiting." in page and "None of your jobs is running." in page


def test_the_api_tells_ones_own_jobs_alone_where_it_is_asked_to(world: SimpleNamespace, owner: Client) -> None:
    many(world.jobs["queued"], 3)
    Job.objects.filter(name__startswith="copy").update(owner=world.admin)
    everybody, mine = (owner.get(f"/api/v1/queue{query}").json()["waiting"] for query in ("", "?mine=true"))
    assert len(everybody) - len(mine) == 3
    assert {row["job"]["owner"] for row in mine} == {"owner"}
    assert {row["position"] for row in mine} <= {row["position"] for row in everybody}


def test_who_orders_the_queue_comes_back_to_the_part_that_was_shown(world: SimpleNamespace, owner: Client) -> None:
    many(world.jobs["queued"], PAGE_SIZE + 1)
    owner.force_login(world.admin)
    page = shown(owner, "/queue/?page=2")
    action = re.search(r'action="(/queue/[^"]*)"', page)
    assert action and action[1].endswith("/?page=2")
    answer = owner.post(action[1], {"priority": "7"})
    assert answer.status_code == 302 and answer["Location"] == "/queue/?page=2"


def test_of_a_run_without_progress_the_queue_says_that_and_no_finish(world: SimpleNamespace, owner: Client) -> None:
    quiet = {"phase": "training", "moved_at": timezone.now() - timedelta(minutes=5)}
    Job.objects.filter(pk=world.jobs["running"].pk).update(**quiet)
    assert "no progress for 5 min" in shown(owner, "/queue/")


def test_the_queue_says_that_nothing_starts_where_no_control_process_works(
    world: SimpleNamespace, owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "The scheduler does not work" not in shown(owner, "/queue/")
    monkeypatch.setattr(queue, "standstill", lambda: Standstill(full=""))
    assert "The scheduler does not work" in shown(owner, "/queue/") and "Tell an admin" in shown(owner, "/queue/")
    owner.force_login(world.admin)
    assert "control.log" in shown(owner, "/queue/")


def stand_still(job: Job) -> None:
    """As a run looks of which nothing was taken in for five minutes: its expected finish has passed."""
    then = timezone.now() - timedelta(minutes=5)
    times = dict.fromkeys(
        ("expected_finish_at", "expected_low_at", "expected_high_at", "promised_at", "moved_at"), then
    )
    Job.objects.filter(pk=job.pk).update(phase="training", **times)


@pytest.mark.parametrize(
    ("full", "step"), [("database", "where the database keeps its data"), ("installation", "DLH_HOME")]
)
def test_whose_disk_is_full_is_told_where_jobs_would_seem_to_stand_still(
    world: SimpleNamespace, owner: Client, monkeypatch: pytest.MonkeyPatch, full: str, step: str
) -> None:
    stand_still(world.jobs["running"])
    for module in (queue, job_view, home, outlook):
        monkeypatch.setattr(module, "standstill", lambda: Standstill(full=full))
    owner.force_login(world.admin)
    for address in ("/", "/queue/", reverse("job_tab", args=[world.jobs["running"].pk, "live"])):
        page = " ".join(shown(owner, address).split())
        assert f"The disk of {'the database' if full == 'database' else 'this installation'} is full" in page
        assert step in page and "no job starts" in page
        assert "no progress for" not in page and "measuring…" not in page
        assert "not known now" in page
    assert "<dt>Promised by</dt>" in page, "of a run"
    assert not any(told in page for told in ("<dt>Expected finish</dt>", "to spare", "late by"))
    assert "is full" not in shown(owner, reverse("job_tab", args=[world.jobs["succeeded"].pk, "live"]))


def test_while_control_stands_still_the_api_tells_of_a_run_neither_a_finish_nor_that_it_makes_no_progress(
    world: SimpleNamespace, owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = world.jobs["running"]
    stand_still(job)

    def told() -> list[dict[str, Any]]:
        rows = owner.get("/api/v1/queue").json()["running"]
        return [owner.get(f"/api/v1/jobs/{job.pk}").json(), next(row for row in rows if row["job"]["id"] == job.pk)]

    assert all(row["idle_s"] > 200 and row["expected_finish_at"] and row["slack_s"] is not None for row in told())
    monkeypatch.setattr(outlook, "standstill", lambda: Standstill(full=""))
    for row in told():
        names = ("expected_finish_at", "expected_low_at", "expected_high_at", "idle_s", "slack_s")
        assert {row[name] for name in names} == {None} and row["promised_at"]
        assert row.get("eta_s") is None
    Job.objects.filter(pk=job.pk).update(state="queued")
    assert owner.get(f"/api/v1/jobs/{job.pk}").json()["expected_finish_at"], "it keeps what was last told of it"
