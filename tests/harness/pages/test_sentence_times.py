"""Moments within sentences of the portal are told in the reader's zone, like all others, wherever a page shows them."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import AnonymousUser
from django.template.loader import render_to_string
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone

from harness.errors import Conflict
from harness.jobs.models import Job
from harness.jobs.states import job_note
from harness.moments import moment_words
from harness.pool.models import Node
from harness.pool.reservations import reservation_hold
from tests.harness.pages.offer_page import cost, current

MOMENT = "2030-01-31 18:00 UTC"
TOLD = '<time datetime="2030-01-31T18:00:00+00:00"'


def test_what_endangers_a_promise_is_told_so_on_the_job_in_its_history_and_in_the_queue(
    owner: Client, world: SimpleNamespace
) -> None:
    job = world.jobs["queued"]
    warning = f"Its promise breaks unless it can start by {MOMENT}."
    Job.objects.filter(pk=job.pk).update(warning=warning, promised_at=timezone.now() + timedelta(days=1))
    job_note(job, "note", warning)
    for address, times in ((reverse("job_tab", args=[job.pk, "events"]), 2), (reverse("queue"), 1)):
        page = owner.get(address).content.decode()
        assert page.count(f"unless it can start by {TOLD}") == times and f"start by {MOMENT}" not in page


def test_when_a_reservation_ends_that_a_job_waits_for_is_told_so(owner: Client, world: SimpleNamespace) -> None:
    job = world.jobs["queued"]
    Job.objects.filter(pk=job.pk).update(waiting_text=f"The reservation ends {MOMENT}.")
    for address in (reverse("job_page", args=[job.pk]), reverse("queue"), reverse("home")):
        page = owner.get(address).content.decode()
        assert f"The reservation ends {TOLD}" in page and f"ends {MOMENT}" not in page, address


def test_the_end_of_a_range_says_of_which_moment_it_is_the_end(owner: Client, world: SimpleNamespace) -> None:
    low = timezone.now().replace(microsecond=0)
    times = {f"expected_{name}_at": low + timedelta(hours=at) for at, name in enumerate(("low", "finish", "high"))}
    Job.objects.filter(pk=world.jobs["running"].pk).update(expected_start_at=low, **times)
    told = f'<span data-since="{low.isoformat()}"><time datetime="{times["expected_high_at"].isoformat()}"'
    for address in (reverse("job_page", args=[world.jobs["running"].pk]), reverse("queue")):
        assert told in owner.get(address, follow=True).content.decode(), address


@pytest.mark.parametrize(
    ("after_s", "promised", "told"),
    [
        (12.0, True, "late by 12 s"), (-240.0, True, "4 min to spare"),
        (12.0, False, "missed by 12 s"), (-240.0, False, "kept with 4 min to spare"),
    ],
)  # fmt: skip
def test_how_a_deadline_was_kept_is_told_by_the_difference(
    owner: Client, world: SimpleNamespace, after_s: float, promised: bool, told: str
) -> None:
    job, by = world.jobs["succeeded"], timezone.now()
    ended = {"finished_at": by + timedelta(seconds=after_s), "deadline_at": by, "promised_at": by if promised else None}
    Job.objects.filter(pk=job.pk).update(**ended)
    assert told in " ".join(owner.get(reverse("job_page", args=[job.pk])).content.decode().split())


def test_what_an_offer_says_of_reserved_devices_is_told_so(owner: Client, draft: Job) -> None:
    offer = current(draft)
    offer.body = {**offer.body, "text": f"Others are reserved until {MOMENT}.", "changes": [f"Wait until {MOMENT}."]}
    offer.save()
    page = cost(owner, draft)
    assert f"Others are reserved until {TOLD}" in page and f"Wait until {TOLD}" in page
    assert f"until {MOMENT}" not in page


@pytest.mark.parametrize("template", ["parts/error.html", "error.html", "403.html"])
def test_a_refusal_is_told_so(template: str, rf: RequestFactory) -> None:
    error, request = Conflict(f"It is reserved until {MOMENT}.", hint=f"Come after {MOMENT}."), rf.get("/")
    request.user = AnonymousUser()
    page = render_to_string(template, {"error": error}, request)
    assert f"It is reserved until {TOLD}" in page and f"Come after {TOLD}" in page


def test_a_message_above_a_page_is_told_so(world: SimpleNamespace) -> None:
    node, ends_at = Node.objects.order_by("name").first(), timezone.now() + timedelta(hours=1)
    assert node is not None
    reservation_hold(target=node, ends_at=ends_at, purpose="course")
    admin = Client()
    admin.force_login(world.admin)
    wanted = {"target": node.name, "purpose": "other", "ends_at": (ends_at + timedelta(hours=1)).isoformat()}
    page = admin.post(reverse("reservation_new"), wanted, follow=True).content.decode()
    assert "is reserved already for course, until <time" in page
    assert f"until {moment_words(ends_at)}" not in page
