"""Moments within sentences of the portal are printed as all others are: in the time of this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from harness.client.cli import offers
from harness.client.cli.output import error_print, local_words, standing, when
from harness.client.cli.queue import _waiting
from harness.client.cli.runs import _note
from harness.client.errors import ApiError
from tests.harness.client.conftest import Dlh, state_set

UTC_WORDS, HERE = "2030-01-31 22:30 UTC", "2030-02-01 01:30"
pytestmark = pytest.mark.usefixtures("three_hours_east")


@pytest.fixture
def three_hours_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Of Greenwich."""
    with monkeypatch.context() as there:
        there.setenv("TZ", "Etc/GMT-3")
        time.tzset()
        yield
    time.tzset()


def test_moments_within_sentences_are_told_in_the_time_of_this_machine() -> None:
    assert local_words(f"The first ends {UTC_WORDS}.") == f"The first ends {HERE}."
    assert local_words("By 2030-01-31 22:30:10 UTC.") == f"By {HERE}:10."


def test_a_moment_that_this_zone_has_no_year_for_is_told_in_utc() -> None:
    assert when("9999-12-31T23:59:59Z") == "9999-12-31 23:59:59 UTC"
    assert when("2030-01-31T22:30:00Z") == f"{HERE}:00"
    assert local_words("By 9999-12-31 23:59 UTC.") == "By 9999-12-31 23:59 UTC."


def test_every_problem_of_a_refusal_is(capsys: pytest.CaptureFixture[str]) -> None:
    problems = [{"field": name, "message": f"reserved until {UTC_WORDS}."} for name in ("node", "device")]
    error = ApiError(422, {"message": f"node: {problems[0]['message']}", "hint": f"After {UTC_WORDS}."})
    error.details = problems
    error_print(error, as_json=False)
    told = capsys.readouterr().err
    assert f"Error: node: reserved until {HERE}." in told and f"Also: device: reserved until {HERE}." in told
    assert f"Hint: After {HERE}." in told


def test_why_an_offer_cannot_be_made_is(capsys: pytest.CaptureFixture[str]) -> None:
    problem = {"message": f"All are reserved until {UTC_WORDS}.", "hint": f"Ask after {UTC_WORDS}."}
    offers._print({"state": "failed", "problem": problem})
    told = capsys.readouterr().out
    assert f"reserved until {HERE}." in told and f"Ask after {HERE}." in told


@pytest.mark.parametrize(
    ("promised", "told"),
    [
        ({"promised_at": "2030-01-31T22:30:00Z"}, f"queued, promised by {HERE}:00"),
        ({"promised_at": None}, f"queued, without a promise: None before {HERE}."),
    ],
)
def test_a_job_that_is_queued_with_a_deadline_tells_whether_it_is_promised(promised: dict[str, Any], told: str) -> None:
    job = {"state": "queued", "deadline_at": "2030-02-01T00:00:00Z", "promise": {"text": f"None before {UTC_WORDS}."}}
    assert standing(job | promised) == told
    assert standing({"state": "queued", "deadline_at": None}) == "queued"


def test_what_endangers_a_promise_and_what_becomes_of_one_is(dlh: Dlh, portal: Any, job: Any) -> None:
    promise = {"text": f"The earliest finish that can be promised is {UTC_WORDS}."}
    state_set(job, "queued", warning=f"It has to start by {UTC_WORDS}.", promise=promise)
    told = " ".join(dlh("show", job.pk).out.split())
    assert f"has to start by {HERE}." in told and f"can be promised is {HERE}." in told


def test_when_a_reservation_ends_that_a_job_waits_for_is(dlh: Dlh, portal: Any, job: Any) -> None:
    state_set(job, "queued", waiting_text=f"The reservation ends {UTC_WORDS}.")
    assert f"reservation ends {HERE}." in " ".join(dlh("show", job.pk).out.split())
    assert _note({"state": "queued", "waiting_text": f"It ends {UTC_WORDS}."}) == f"It ends {HERE}."
    row = dict.fromkeys(
        ("position", "job", "devices", "priority", "expected_start_at", "expected_finish_at", "expected_low_at",
         "promised_at")
    )  # fmt: skip
    assert _waiting({**row, "waiting_text": f"It ends {UTC_WORDS}."})[-1] == f"It ends {HERE}."
