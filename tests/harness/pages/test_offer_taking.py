"""The cost tab: a line of an offer is taken, with and without a promise."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from harness.estimates.models import OfferRow
from harness.estimates.selectors import offer_priced
from harness.estimates.settling import offer_settle
from harness.jobs.models import Allocation, Job
from harness.pages.offer_view import shown_lines
from scheduler.offers.values import Hindrance
from tests.harness.jobs.helpers import estimated
from tests.harness.pages.offer_page import ask, cost, current


def seen_at(text: str) -> str:
    """Of which pricing the table of a page is."""
    (found,) = re.findall(r'name="made_at"\s+value="([^"]+)"', text)
    return str(found)


def test_taking_a_line_puts_its_devices_into_the_spec_and_submits(owner: Client, draft: Job) -> None:
    offer = current(draft)
    priced = offer_priced(offer)
    assert priced is not None
    place = next(index for index, line in enumerate(priced.lines) if line.allocation.count == 2 and line.feasible)
    choice = {"line": str(place), "made_at": seen_at(cost(owner, draft))}
    owner.post(reverse("job_offer_take", args=[draft.pk, offer.pk]), choice)
    draft.refresh_from_db()
    assert (draft.state, draft.spec["resources"]["count"]) == ("draft", 2)
    assert "taken" in cost(owner, draft)
    choice |= {"submit": "1", "elastic": "1"}
    told = owner.post(reverse("job_offer_take", args=[draft.pk, offer.pk]), choice, follow=True).content.decode()
    assert "Submitted to run on 2 to 4 CPU cores." in told
    draft.refresh_from_db()
    assert draft.state == "queued"
    assert len(draft.options) > 1


@pytest.mark.parametrize(("submit", "where"), [("", "on the tab Program"), ("1", "in a clone")])
def test_an_edit_that_gives_way_to_the_devices_of_a_line_is_told(
    owner: Client, draft: Job, submit: str, where: str
) -> None:
    text = settings.STORE.job(draft.pk).program.joinpath("spec.yaml").read_text()
    edited = re.sub(r"(  count: \d+)", r"\1  # mine", text)
    owner.post(reverse("program_save", args=[draft.pk]), {"name": "spec.yaml", "text": edited})
    offer = current(draft)
    priced = offer_priced(offer)
    assert priced is not None
    place = next(index for index, line in enumerate(priced.lines) if line.allocation.count == 2 and line.feasible)
    choice = {"line": str(place), "made_at": seen_at(cost(owner, draft)), "submit": submit}
    told = owner.post(reverse("job_offer_take", args=[draft.pk, offer.pk]), choice, follow=True).content.decode()
    assert "1 edit of spec.yaml gave way to its spec." in told and where in told


def test_an_offer_whose_deadline_has_passed_says_so_and_is_not_taken(
    owner: Client, draft: Job, world: SimpleNamespace
) -> None:
    ask(owner, draft, deadline="2030-01-31")
    offer = current(draft)
    assert "which has passed" not in cost(owner, draft)
    OfferRow.objects.filter(pk=offer.pk).update(deadline_at=timezone.now() - timedelta(minutes=5))
    assert "which has passed:" in cost(owner, draft)
    viewer = Client()
    viewer.force_login(world.viewer)
    assert "which has passed" in cost(viewer, draft) and "ask again with a later one" not in cost(viewer, draft)
    before = Job.objects.get(pk=draft.pk).spec
    told = owner.post(reverse("job_offer_take", args=[draft.pk, offer.pk]), {"elastic": "1"}, follow=True)
    text = told.content.decode()
    assert "The deadline of this offer" in text and "has passed" in text and "Offer accepted" not in text
    assert "Ask again with a later deadline, or none." in text and "Here is a new offer" not in text
    draft.refresh_from_db()
    assert (draft.state, draft.spec) == ("draft", before)
    assert current(draft).pk != offer.pk and "The deadline has already passed." in text


def test_an_offer_whose_times_have_passed_says_that_it_is_old_and_can_be_reckoned_anew(
    owner: Client, draft: Job, world: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer = current(draft)
    assert "This offer is old" not in cost(owner, draft)
    later, now = timezone.now() + timedelta(days=3), timezone.now
    monkeypatch.setattr("harness.pages.offer_view.timezone.now", lambda: later)
    old = cost(owner, draft)
    assert "This offer is old: it was reckoned" in old
    assert re.search(r'<button[^>]* form="offer-ask"[^>]*>Reckon it anew', old)
    viewer = Client()
    viewer.force_login(world.viewer)
    assert "This offer is old" in (seen := cost(viewer, draft)) and "Reckon it anew" not in seen
    OfferRow.objects.filter(pk=offer.pk).update(deadline_at=later - timedelta(hours=1))
    late = cost(owner, draft)
    assert "This offer is old" in late and "which has passed:" in late
    assert "Reckon it anew" not in late, "it would ask for the same deadline"
    Job.objects.filter(pk=draft.pk).update(state="running")
    assert "This offer is old" not in owner.get(reverse("job_offer_show", args=[draft.pk, offer.pk])).content.decode()
    Job.objects.filter(pk=draft.pk).update(state="draft")
    OfferRow.objects.filter(pk=offer.pk).update(deadline_at=None)
    monkeypatch.setattr("harness.pages.offer_view.timezone.now", now)
    assert "This offer is old" not in cost(owner, draft) and current(draft).pk == offer.pk


def test_an_offer_is_not_old_while_what_it_recommends_can_still_be_had(
    owner: Client, draft: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    priced = offer_priced(current(draft))
    assert priced is not None
    finishes = [(shown.selected, shown.view.line.finish_s) for shown in shown_lines(priced) if shown.takeable]
    (recommended_s,) = (finish.high for selected, finish in finishes if selected and finish)
    first_s = min(finish.high for _, finish in finishes if finish)
    assert first_s < recommended_s
    between = datetime.fromtimestamp((first_s + recommended_s) / 2, UTC)
    monkeypatch.setattr("harness.pages.offer_view.timezone.now", lambda: between)
    assert "This offer is old" not in cost(owner, draft)


def test_back_from_a_job_that_was_submitted_shows_no_draft_but_what_it_is_now(owner: Client, draft: Job) -> None:
    address = reverse("job_tab", args=[draft.pk, "cost"])
    assert owner.get(address)["Cache-Control"] == "no-store"
    spec, program = (owner.get(reverse("job_tab", args=[draft.pk, tab])) for tab in ("spec", "program"))
    assert spec["Cache-Control"] == "no-store", "an earlier form would take back what was saved since"
    assert not program.has_header("Cache-Control"), "it has an editor"
    Job.objects.filter(pk=draft.pk).update(state="queued")
    assert not owner.get(address).has_header("Cache-Control")


def test_what_came_with_a_line_does_not_bind_the_next_offer_of_the_page(owner: Client, draft: Job) -> None:
    priced = offer_priced(current(draft))
    assert priced is not None
    place = next(index for index, line in enumerate(priced.lines) if line.allocation.count == 2 and line.feasible)
    choice = {"line": str(place), "made_at": seen_at(cost(owner, draft))}
    owner.post(reverse("job_offer_take", args=[draft.pk, current(draft).pk]), choice)
    owner.post(reverse("job_offer_new", args=[draft.pk]))
    assert (current(draft).wish["kind"], current(draft).wish["count"]) == (None, None)
    owner.post(reverse("job_offer_new", args=[draft.pk]), {"asked": "1", "count": "1"})
    assert "You asked for 1 device (resources.count)." in cost(owner, draft)


def test_a_line_of_a_table_that_was_priced_anew_since_is_not_taken_and_another_look_changes_nothing(
    owner: Client, draft: Job
) -> None:
    offer, before = current(draft), seen_at(cost(owner, draft))
    OfferRow.objects.filter(pk=offer.pk).update(state="waiting")
    offer_settle(OfferRow.objects.get(pk=offer.pk))
    assert seen_at(cost(owner, draft)) != before  # in another tab
    place = reverse("job_offer_take", args=[draft.pk, offer.pk])
    told = owner.post(place, {"line": "0", "made_at": before}, follow=True).content.decode()
    assert "priced anew since you saw it" in told
    told = owner.post(place, {"line": "0"}, follow=True).content.decode()
    assert "does not say which table the line is of" in told
    draft.refresh_from_db()
    assert (draft.state, draft.options) == ("draft", [])


def test_a_deadline_that_cannot_be_promised_is_submitted_without_a_promise(owner: Client, draft: Job) -> None:
    Allocation.objects.all().delete()
    ask(owner, draft)
    priced = offer_priced(current(draft))
    assert priced is not None
    fastest = min(line.estimate.run_s.mid for line in priced.lines)
    soon = (timezone.now() + timedelta(seconds=fastest + 20)).isoformat()
    text = ask(owner, draft, deadline_utc=soon).content.decode()
    assert "with a chance of" in text
    offer = current(draft)
    place = reverse("job_offer_take", args=[draft.pk, offer.pk])
    owner.post(place, {"submit": "1"})
    draft.refresh_from_db()
    assert draft.state == "draft"
    assert 'value="unpromised"' in text
    owner.post(place, {"submit": "unpromised"})
    draft.refresh_from_db()
    assert (draft.state, draft.promised_at) == ("queued", None)
    assert draft.deadline_at is not None


def test_a_deadline_that_was_offered_and_is_then_refused_can_be_tried_all_the_same(
    owner: Client, draft: Job, world: SimpleNamespace
) -> None:
    Allocation.objects.all().delete()
    ask(owner, draft, deadline_utc=(timezone.now() + timedelta(days=30)).isoformat())
    priced = offer_priced(current(draft))
    assert priced is not None and priced.chosen is not None
    soon = timezone.now() + timedelta(seconds=priced.chosen.latest_s - priced.now_s + 60)
    assert 'value="unpromised"' not in ask(owner, draft, deadline_utc=soon.isoformat()).content.decode()
    other = estimated(world.jobs["queued"], run_s=9 * 3600)  # it is promised the same meanwhile
    Job.objects.filter(pk=other.pk).update(deadline_at=timezone.now() + timedelta(hours=9), promised_at=timezone.now())
    place = reverse("job_offer_take", args=[draft.pk, current(draft).pk])
    owner.post(place, {"submit": "1"})
    draft.refresh_from_db()
    assert draft.state == "draft"
    assert 'value="unpromised"' in cost(owner, draft)
    owner.post(place, {"submit": "unpromised"})
    draft.refresh_from_db()
    assert (draft.state, draft.promised_at) == ("queued", None)


def test_where_nothing_that_was_asked_for_is_offered_another_line_can_be_taken(owner: Client, draft: Job) -> None:
    Allocation.objects.all().delete()
    text = ask(owner, draft, kind="cuda").content.decode()
    priced = offer_priced(current(draft))
    assert priced is not None and priced.chosen is None
    buttons = re.findall(r"<button[^>]*>\s*Take it", text)
    assert len(buttons) == 2 and not any("disabled" in button for button in buttons)
    place = next(at for at, line in enumerate(priced.lines) if line.hindrance is Hindrance.NOT_WISHED)
    wish = {"line": str(place), "made_at": current(draft).made_at.isoformat()}
    owner.post(reverse("job_offer_take", args=[draft.pk, current(draft).pk]), wish)
    draft.refresh_from_db()
    assert draft.spec["resources"]["device"] == "cpu"
    late = ask(owner, draft, deadline_utc=(timezone.now() + timedelta(seconds=2)).isoformat()).content.decode()
    buttons = re.findall(r"<button[^>]*>\s*Take it", late)
    assert len(buttons) == 2 and all("disabled" in button for button in buttons)
