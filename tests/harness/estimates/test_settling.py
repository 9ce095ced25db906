"""Offers whose pricing breaks: they end and say why, and keep no other waiting."""

from __future__ import annotations

import logging
import re
import sqlite3
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.utils import OperationalError
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from harness.calibration.models import DeviceModelRow
from harness.errors import Conflict
from harness.estimates import pricing
from harness.estimates.accepting import offer_accept
from harness.estimates.models import Inspection, JobEstimate, OfferRow
from harness.estimates.retention import estimates_retention
from harness.estimates.selectors import offer_problem
from harness.estimates.services import inspection_answer, offer_refresh
from harness.estimates.settling import PASSING_LIMIT, offer_settle
from harness.rates.submitting import job_submit
from tests.harness.estimates.factories import answer


def breaking(monkeypatch: pytest.MonkeyPatch, error: Exception, count: int | None = None) -> None:
    """Have offers that wish for so many devices break while they are priced."""
    recommend = pricing.recommend

    def breaks(*args: Any, **named: Any) -> Any:
        if named["wish"].count == count:
            raise error
        return recommend(*args, **named)

    monkeypatch.setattr(pricing, "recommend", breaks)


def test_an_offer_that_cannot_be_priced_ends_and_the_others_are_priced(
    job: Any, node_make: Any, ask: Callable[..., OfferRow], monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    node_make("node-1", cpus=2)
    breaking(monkeypatch, ValueError("a pipeline of 0 stages"), count=2)
    bad, good = ask(job, count=2), ask(job)
    submitted = job_submit(user=job.owner, job=job)
    with caplog.at_level(logging.ERROR):
        inspection_answer(answer(bad.inspection))
    bad.refresh_from_db()
    good.refresh_from_db()
    assert (bad.state, good.state) == ("failed", "ready")
    assert JobEstimate.objects.filter(job=submitted).exists(), "what comes after the offers is done as well"
    problem = offer_problem(bad)
    assert problem is not None and problem["code"] == "not_priced" and not problem["at_fault"]
    told = re.fullmatch(
        r"Pricing this offer failed: ValueError \(see the logs of portal and control, id (\w{12})\)\.",
        problem["message"],
    )
    assert told is not None and problem["hint"].startswith("Ask for it again.")
    (record,) = [record for record in caplog.records if bad.pk in record.getMessage()]
    assert told[1] in record.getMessage()
    assert record.exc_info is not None and record.exc_info[0] is ValueError


def test_an_offer_asked_for_of_a_program_that_was_read_before_ends_likewise(
    job: Any, node_make: Any, ask: Callable[..., OfferRow], offered: Callable[..., OfferRow],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    node_make("node-1")
    offered(job)
    with monkeypatch.context() as broken:
        breaking(broken, KeyError("core"))
        bad = ask(job)
        assert (bad.state, offer_refresh(bad).state) == ("failed", "failed")
    with pytest.raises(Conflict, match="it failed"):
        offer_accept(user=job.owner, offer=bad)
    assert ask(job).state == "ready", "asked for again, it is tried anew"


def test_what_a_person_can_mend_is_told_in_its_own_words(
    job: Any, node_make: Any, offered: Callable[..., OfferRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    node_make("node-1")
    breaking(monkeypatch, Conflict("The pool has no device.", hint="Start a node."))
    problem = offer_problem(offered(job))
    assert problem is not None
    assert (problem["message"], problem["hint"]) == ("No offer: The pool has no device.", "Start a node.")


def test_an_offer_waits_on_while_the_database_is_away(
    job: Any, node_make: Any, ask: Callable[..., OfferRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    node_make("node-1")
    busy = sqlite3.OperationalError("database is locked")
    busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
    away = OperationalError("database is locked")
    away.__cause__ = busy
    offer = ask(job)
    with monkeypatch.context() as locked:
        breaking(locked, away)
        with pytest.raises(OperationalError):
            inspection_answer(answer(offer.inspection))
    offer.refresh_from_db()
    assert offer.state == "waiting"
    assert offer_refresh(offer).state == "ready"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), MemoryError()])
def test_an_offer_waits_for_a_cause_that_may_pass_and_keeps_no_other_waiting(
    job: Any, node_make: Any, ask: Callable[..., OfferRow], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    node_make("node-1", cpus=2)
    with monkeypatch.context() as full:
        breaking(full, error, count=2)
        kept, good = ask(job, count=2), ask(job)
        inspection_answer(answer(kept.inspection))
        kept.refresh_from_db()
        good.refresh_from_db()
        assert (kept.state, good.state) == ("waiting", "ready")
    estimates_retention()
    kept.refresh_from_db()
    assert kept.state == "ready", "nobody needs to look at it"


def test_an_offer_waits_for_such_a_cause_for_a_limited_time_since_its_program_was_read(
    job: Any, node_make: Any, ask: Callable[..., OfferRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    node_make("node-1")
    offer = ask(job)
    breaking(monkeypatch, PermissionError(13, "Permission denied", "/srv/secret"))
    long_ago = timezone.now() - PASSING_LIMIT - timedelta(seconds=1)
    OfferRow.objects.update(created_at=long_ago)
    inspection_answer(answer(offer.inspection))
    offer.refresh_from_db()
    assert offer.state == "waiting"
    Inspection.objects.update(finished_at=long_ago)
    offer = OfferRow.objects.get()
    assert offer_refresh(offer).state == "failed"
    assert "PermissionError (see " in offer.problem["message"] and "secret" not in str(offer.problem)


def test_who_settles_an_offer_has_it_as_it_is_kept_and_who_comes_second_has_that_of_the_first(
    job: Any, node_make: Any, ask: Callable[..., OfferRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    node_make("node-1", cpus=2)
    first = ask(job)
    with monkeypatch.context() as full:
        breaking(full, MemoryError())
        inspection_answer(answer(first.inspection))
    second = OfferRow.objects.get()
    OfferRow.objects.update(title="renamed meanwhile")
    settled, late = offer_settle(first), offer_settle(second)
    kept = OfferRow.objects.get()
    assert kept.state == "ready" and kept.body["lines"] and kept.title == "renamed meanwhile"
    for name in (field.attname for field in OfferRow._meta.concrete_fields):
        assert getattr(settled, name) == getattr(late, name) == getattr(kept, name), name


def test_what_is_known_of_devices_is_read_once_for_the_figures_and_what_is_said_of_them(
    job: Any, node_make: Any, ask: Callable[..., OfferRow]
) -> None:
    node_make("node-1", cpus=2, gpus=2)
    offer = ask(job)
    with CaptureQueriesContext(connection) as queries:
        inspection_answer(answer(offer.inspection))
    offer.refresh_from_db()
    assert offer.state == "ready" and any(note.startswith("Not calibrated here:") for note in offer.notes)
    read = [query["sql"] for query in queries if f'FROM "{DeviceModelRow._meta.db_table}"' in query["sql"]]
    assert len(read) == 1
