"""Offers whose pricing breaks: they end and say why, and keep no other waiting."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from django.db.utils import OperationalError

from harness.errors import Conflict
from harness.estimates import pricing
from harness.estimates.accepting import offer_accept
from harness.estimates.models import JobEstimate, OfferRow
from harness.estimates.selectors import offer_problem
from harness.estimates.services import inspection_answer, offer_refresh
from harness.jobs.services import job_submit
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
    assert problem["message"] == "Pricing this offer failed: ValueError: a pipeline of 0 stages"
    assert problem["hint"].startswith("Ask for it again.") and bad.pk in problem["hint"]
    (record,) = [record for record in caplog.records if bad.pk in record.getMessage()]
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
