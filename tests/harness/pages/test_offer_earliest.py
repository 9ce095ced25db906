"""The cost tab: one click asks for the earliest finish that can be promised."""

from __future__ import annotations

import re
from datetime import timedelta
from types import SimpleNamespace

from django.test import Client
from django.utils import timezone

from harness.estimates.earliest import earliest_deadline
from harness.estimates.selectors import offer_priced
from harness.jobs.models import Job
from scheduler.offers.values import Offer
from tests.factory_offers import offer_make
from tests.harness.pages.offer_page import ask, cost, current


def earliest_of(text: str) -> str:
    """What the button would ask for; empty where there is none."""
    found = re.findall(r'name="earliest"\s+value="([^"]+)"', text)
    assert len(found) < 2
    return str(found[0]) if found else ""


def priced_of(job: Job) -> Offer:
    priced = offer_priced(current(job))
    assert priced is not None
    return priced


def test_where_a_deadline_cannot_be_kept_one_click_asks_for_the_earliest_that_can(owner: Client, draft: Job) -> None:
    soon = (timezone.now() + timedelta(seconds=60)).isoformat()
    refused = ask(owner, draft, deadline_utc=soon).content.decode()
    assert "Ask for the earliest finish" in refused and priced_of(draft).chosen is None
    text = ask(owner, draft, deadline_utc=soon, earliest=earliest_of(refused)).content.decode()
    offer, priced = current(draft), priced_of(draft)
    assert priced.chosen is not None and offer.deadline_at is not None
    assert offer.deadline_at.second == 0 and offer.deadline_at.timestamp() >= priced.chosen.latest_s
    assert f'data-local="{offer.deadline_at.isoformat()}"' in text, "the field holds it"
    draft.refresh_from_db()
    assert (draft.state, draft.deadline_at) == ("draft", None), "nothing is submitted or written into the spec"


def test_an_offer_without_a_deadline_is_asked_for_the_earliest_finish_and_then_has_it(
    owner: Client, draft: Job
) -> None:
    earliest = earliest_of(cost(owner, draft))
    text = ask(owner, draft, count="1", earliest=earliest).content.decode()
    offer, priced = current(draft), priced_of(draft)
    assert priced.chosen is not None and offer.deadline_at is not None
    assert offer.wish["count"] == 1, "the rest of the form counts as it stands"
    assert offer.deadline_at - timezone.now() < timedelta(seconds=priced.chosen.latest_s - priced.now_s + 180)
    assert earliest_of(text) == "", "it is as early as it can be"


def test_a_page_that_was_left_open_asks_for_the_finish_that_is_the_earliest_by_now(owner: Client, draft: Job) -> None:
    for told in ("2020-01-01T10:00:00+00:00", (timezone.now() + timedelta(days=300)).isoformat()):
        ask(owner, draft, earliest=told)
        offer, priced = current(draft), priced_of(draft)
        assert priced.chosen is not None
        assert offer.deadline_at == earliest_deadline(priced)


def test_the_earliest_finish_is_told_to_the_minute_and_never_earlier_than_it_is(owner: Client, draft: Job) -> None:
    told_s = priced_of(draft).earliest_told_s
    at = earliest_deadline(priced_of(draft))
    assert told_s is not None and at is not None
    assert at.second == 0 and 0 <= at.timestamp() - told_s < 60


def test_a_job_that_was_submitted_keeps_its_deadline(owner: Client, world: SimpleNamespace) -> None:
    job = world.jobs["queued"]
    offer_make(job.owner, job)
    text = cost(owner, job)
    assert "Ask again" in text and earliest_of(text) == ""


def test_nonsense_instead_of_a_moment_is_refused(owner: Client, draft: Job) -> None:
    assert ask(owner, draft, earliest="soon").status_code == 422
