"""A probe that is not to be believed is made once more; of two the shorter counts, and the offer says so."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from harness.estimates import probes
from harness.estimates.models import ProbeRow
from harness.estimates.probe_answers import probe_expire
from harness.estimates.services import measure_answer, offer_probe
from harness.jobs.use_rows import use_rows
from harness.jobs.windows import window_of
from harness.pool.models import Device, Reservation
from harness.pool.reservations import reservation_hold

USUAL, FAR, UNEVEN = [0.05, 0.05, 0.05], [40.0, 40.0, 40.0], [0.05, 0.2, 0.05]


@pytest.fixture
def asked(monkeypatch):
    """Ids of what nodes were asked to measure."""
    ids = []
    monkeypatch.setattr(probes, "task_send_on_commit", lambda _, args, **__: ids.append(args[0]["request_id"]))
    return ids


@pytest.fixture
def tried(job, people, node_make, offered, asked):
    """(offer, its probe, which waits)."""
    node_make("node-1", cpus=1)
    offer = offered(job)
    return offer, offer_probe(user=people.owner, offer=offer)


def answered(probe, steps, *, again=False, **more):
    name = f"{probes.PREFIX}{probe.pk}{probes.AGAIN if again else ''}"
    measure_answer({"request_id": name, "ok": True, "step_s": steps, **more})
    probe.refresh_from_db()


@pytest.mark.parametrize("doubted", [FAR, UNEVEN])
def test_a_doubted_probe_is_made_once_more_while_its_device_stays_kept(tried, asked, doubted):
    _, probe = tried
    answered(probe, doubted)
    assert probe.state == "waiting"
    assert Reservation.objects.filter(cancelled_at=None).count() == 1
    first, again = asked
    assert first != again


def test_of_two_looks_the_shorter_counts_and_the_offer_says_so(tried):
    offer, probe = tried
    answered(probe, FAR, peak_bytes=2e8)
    answered(probe, USUAL, again=True, peak_bytes=1e8)
    assert (probe.state, probe.step_s, probe.left_out_s) == ("done", USUAL, FAR)
    assert probe.peak_bytes == 2e8
    assert not Reservation.objects.filter(cancelled_at=None).exists()
    offer.refresh_from_db()
    assert any("40 s and 0.05 s" in note for note in offer.notes)


def test_a_second_look_that_says_the_same_is_believed_and_there_is_no_third(tried, asked):
    _, probe = tried
    answered(probe, FAR)
    answered(probe, FAR, again=True)
    assert (probe.state, probe.step_s) == ("done", FAR)
    assert len(asked) == 2


def test_the_first_answer_told_twice_is_no_second_look(tried):
    _, probe = tried
    answered(probe, FAR)
    answered(probe, FAR)
    assert probe.state == "waiting"


def test_where_the_second_look_tells_nothing_the_first_one_counts(tried):
    _, probe = tried
    answered(probe, FAR)
    answered(probe, [], again=True)
    assert (probe.state, probe.step_s) == ("done", FAR)


def test_a_second_look_that_nobody_answers_leaves_the_first(tried):
    _, probe = tried
    answered(probe, FAR)
    ProbeRow.objects.update(sent_at=timezone.now() - timedelta(hours=1))
    probe.refresh_from_db()
    probe_expire(probe)
    probe.refresh_from_db()
    assert (probe.state, probe.step_s) == ("done", FAR)


def test_a_device_that_is_kept_for_somebody_else_soon_is_not_looked_at_again(tried):
    _, probe = tried
    soon = Reservation.objects.get().ends_at
    reservation_hold(target=Device.objects.get(), starts_at=soon, ends_at=soon + timedelta(hours=1), purpose="Course")
    answered(probe, FAR)
    assert (probe.state, probe.step_s) == ("done", FAR)


def test_both_looks_are_use_of_the_device(tried, people):
    _, probe = tried
    ProbeRow.objects.update(sent_at=timezone.now() - timedelta(seconds=50))
    answered(probe, FAR)
    ProbeRow.objects.update(sent_at=timezone.now() - timedelta(seconds=100))
    answered(probe, USUAL, again=True)
    rows = use_rows(user=people.owner, window=window_of("day"), by="job")
    assert sum(row.device_s for row in rows) == pytest.approx(150, abs=5)


def test_each_look_is_charged_with_the_power_that_it_read_and_the_offer_with_that_of_the_one_that_counts(tried, people):
    offer, probe = tried
    ProbeRow.objects.update(sent_at=timezone.now() - timedelta(seconds=100))
    probe.refresh_from_db()
    answered(probe, FAR, power_w=9.0)
    ProbeRow.objects.update(sent_at=timezone.now() - timedelta(seconds=100))
    answered(probe, USUAL, again=True, power_w=5.0)
    (row,) = use_rows(user=people.owner, window=window_of("day"), by="job")
    assert row.basis == "measured" and row.energy_j == pytest.approx(1400.0, rel=0.1)
    offer.refresh_from_db()
    (line,) = [line["estimate"] for line in offer.body["lines"]]
    assert (line["power_w"], line["energy_basis"]) == (5.0, "measured")


@pytest.mark.parametrize("power_w", [-1.0, 0.0, 1e9, "much", True, None])
def test_a_power_that_no_device_draws_is_not_kept(tried, power_w):
    offer, probe = tried
    answered(probe, USUAL, power_w=power_w)
    assert (probe.state, probe.power_w) == ("done", None)
    offer.refresh_from_db()
    assert {line["estimate"]["energy_basis"] for line in offer.body["lines"]} == {"assumed"}
