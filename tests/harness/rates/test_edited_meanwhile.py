"""Drafts that are edited while it is found out whether a range test comes first, or while it waits for a device."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from harness.jobs.models import Job
from harness.jobs.services import READ_AGAIN, job_spec_update, program_file_write
from harness.pool.models import Node, Reservation
from harness.pool.reservations import reservation_hold, reservation_release
from harness.rates import before, first
from harness.rates.automatic import DECIDES
from harness.rates.retention import rates_advance
from harness.rates.submitting import job_submit
from tests.harness.rates.drafts import LONG, submit, told


@pytest.fixture
def waits_long(changed: Job, commit: Any, tasks_sent: list[Any], read: Callable[..., None]) -> tuple[Job, Reservation]:
    """Its test is worth its time, but all devices are kept in a moment: they stay in the pool, none is idle."""
    submit(changed, commit, tasks_sent)
    read()
    until = timezone.now() + timedelta(hours=1)
    soon = timezone.now() + timedelta(minutes=1)
    held = reservation_hold(target=Node.objects.get(), starts_at=soon, ends_at=until, purpose="a lesson")
    commit(rates_advance)
    test = changed.rate_tests.get()
    assert (test.state, test.sent_at) == ("waiting", None) and test.wish.get("worth")
    return changed, held


def train(job: Job, **fields: Any) -> None:
    """Somebody gives the draft other training, in another tab."""
    there = Job.objects.get(pk=job.pk)
    job_spec_update(user=there.owner, job=there, spec={**there.spec, "training": {**there.spec["training"], **fields}})


def program_edit(job: Job) -> None:
    """Somebody writes into the draft's program, in another tab."""
    there = Job.objects.get(pk=job.pk)
    text = (settings.STORE.job(job.pk).program / "model.py").read_text()
    program_file_write(user=there.owner, job=there, name="model.py", text=f"{text}\n# mine\n")


def changed_while_priced(place: Any, change: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The next verdict is of a draft that is changed before it is told."""
    verdict_of = place.rate_verdict

    def verdict(job: Job) -> Any:
        found = verdict_of(job)
        monkeypatch.setattr(place, "rate_verdict", verdict_of)
        change(job)
        return found

    monkeypatch.setattr(place, "rate_verdict", verdict)


@pytest.mark.parametrize("change", [lambda job: train(job, epochs=2000), program_edit], ids=["spec", "program"])
def test_a_draft_that_is_changed_while_its_run_is_priced_is_judged_as_it_is_then(
    job_make: Any, node_make: Any, commit: Any, monkeypatch: pytest.MonkeyPatch, change: Callable[..., None]
) -> None:
    node_make("node-1")
    job = job_make(training={"batch_size": 8, "epochs": 3})
    changed_while_priced(before, change, monkeypatch)
    commit(job_submit, user=job.owner, job=job)
    job.refresh_from_db()
    assert job.state == "draft" and job.rate_tests.get().submit
    assert "its spec or program was changed just now" in told(job)


def test_a_test_that_waits_for_a_device_is_priced_once(
    waits_long: tuple[Job, Reservation], commit: Any, tasks_sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    job, held = waits_long
    monkeypatch.setattr(first, "rate_verdict", lambda job: pytest.fail("it was priced again"))
    commit(rates_advance)
    assert job.rate_tests.get().state == "waiting"
    reservation_release(held)
    commit(rates_advance)
    assert job.rate_tests.get().sent_at and [sent for sent in tasks_sent if sent[0] == "node.rate_range"]


def test_a_test_that_waits_for_a_device_is_judged_anew_when_its_draft_is_edited(
    waits_long: tuple[Job, Reservation], commit: Any
) -> None:
    job, _ = waits_long
    train(job, epochs=3)
    commit(rates_advance)
    job.refresh_from_db()
    assert job.state == "queued" and "is too short for a range test" in told(job)


def test_a_draft_that_is_edited_while_its_waiting_test_is_judged_is_judged_again(
    job_make: Any, node_make: Any, commit: Any, tasks_sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    node_make("node-1")
    job = job_make(training=LONG)
    commit(job_submit, user=job.owner, job=job)
    train(job, epochs=3)
    changed_while_priced(first, lambda job: train(job, epochs=2000), monkeypatch)
    commit(rates_advance)
    job.refresh_from_db()
    assert (job.state, job.rate_tests.get().state) == ("draft", "waiting")


def test_all_that_a_verdict_rests_on_is_read_again_after_the_pricing() -> None:
    assert set(DECIDES) <= set(READ_AGAIN)
