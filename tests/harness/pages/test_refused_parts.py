"""What is refused while a part of a page is asked for is said in that part: the browser drops other statuses."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from harness.estimates.models import Inspection, OfferRow
from harness.estimates.selectors import offer_of_job
from harness.jobs.models import Job
from harness.pages.web import SHOWN
from harness.pool.models import Device, Node, NodeState
from harness.pool.reservations import reservation_hold

ROOT = Path(__file__).resolve().parents[3]
NO_DEVICE = pytest.mark.parametrize(
    ("is_there", "words"),
    [(True, "No device is idle for a few steps right now."), (False, "No node that is up has a device.")],
)


def post(client: Client, name: str, *place: str, **given: str) -> Any:
    return client.post(reverse(name, args=place), given, headers={"HX-Request": "true"})


def test_the_browser_shows_the_statuses_that_the_views_count_on() -> None:
    source = (ROOT / "harness" / "frontend" / "src" / "app.js").read_text()
    (listed,) = re.findall(r"\[([\d, ]+)\]\.includes\(event\.detail\.xhr\.status\)", source)
    assert {int(status) for status in listed.split(",")} == SHOWN


@pytest.mark.parametrize("wish", [{"count": "many"}, {"count": "0"}, {"deadline": "soon"}])
def test_a_wish_that_is_none_is_said_above_the_offer_that_was_there(
    owner: Client, draft: Job, wish: dict[str, str]
) -> None:
    answer = post(owner, "job_offer_new", draft.pk, asked="1", **wish)
    text = answer.content.decode()
    assert answer.status_code == 422 and 'role="alert"' in text
    assert 'name="line"' in text and "Ask again" in text


def all_away_or_kept(is_there: bool) -> None:
    for device in Device.objects.all():
        if is_there:
            reservation_hold(target=device, ends_at=timezone.now() + timedelta(hours=1), purpose="Course")
        else:
            Device.objects.filter(pk=device.pk).update(away_since=timezone.now())


@NO_DEVICE
def test_where_no_device_can_try_the_offer_stays_in_sight(
    owner: Client, draft: Job, is_there: bool, words: str
) -> None:
    all_away_or_kept(is_there)
    offer = offer_of_job(draft)
    assert offer is not None
    answer = post(owner, "job_offer_probe", draft.pk, offer.pk)
    text = answer.content.decode()
    assert answer.status_code == 409 and words in text
    assert 'name="line"' in text and "Try a few real steps" in text


def test_without_an_offer_before_a_refusal_stands_alone(owner: Client, draft: Job) -> None:
    OfferRow.objects.all().delete()
    answer = post(owner, "job_offer_new", draft.pk, asked="1", count="many")
    assert answer.status_code == 422 and "is not a number of devices" in answer.content.decode()


def test_that_no_node_can_read_a_program_is_said_where_its_offer_would_stand(owner: Client, draft: Job) -> None:
    Inspection.objects.all().delete()
    OfferRow.objects.all().delete()
    Node.objects.update(state=NodeState.DOWN)
    answer = post(owner, "job_offer_new", draft.pk)
    assert answer.status_code == 409 and "No node is up that may read this program." in answer.content.decode()


@NO_DEVICE
def test_where_no_device_can_make_a_range_test_the_newest_stays_in_sight(
    owner: Client, draft: Job, is_there: bool, words: str
) -> None:
    all_away_or_kept(is_there)
    answer = post(owner, "job_rates_new", draft.pk)
    text = answer.content.decode()
    assert answer.status_code == 409 and words in text
    assert "are usable; take" in text and "Test again" in text
