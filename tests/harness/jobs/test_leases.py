"""Leases of the streams of events: who has one reads alone."""

from __future__ import annotations

import pytest

from harness.broker import client
from harness.jobs.control import streams
from harness.jobs.control.streams import Lease, lease_name
from tests.waiting import wait_for


@pytest.mark.django_db
def test_the_lease_of_the_first_stream_is_the_lock_that_releases_with_one_stream_take(broker):
    with Lease(0).taken() as lease:
        assert lease.held
        assert not client().lock("dlh:ingest", timeout=5).acquire(blocking=False)
        with Lease(0).taken() as other:
            assert not other.held
        with Lease(1).taken() as other:
            assert other.held
    assert not broker.exists("dlh:ingest", "dlh:ingest:1")


@pytest.mark.django_db
def test_a_lease_lasts_as_long_as_its_reader_works_and_ends_where_another_has_it(broker, monkeypatch):
    monkeypatch.setattr(streams, "RENEW_EVERY_S", 0.02)
    with Lease(4).taken() as lease:
        broker.pexpire(lease_name(4), 1000)
        wait_for(lambda: broker.pttl(lease_name(4)) > 1000)
        assert lease.held
        broker.set(lease_name(4), "another")
        wait_for(lambda: not lease.held)
    assert broker.get(lease_name(4)) == "another"


@pytest.mark.django_db
def test_who_hangs_in_one_batch_loses_its_lease(broker, monkeypatch):
    monkeypatch.setattr(streams, "RENEW_EVERY_S", 0.02)
    monkeypatch.setattr(streams, "MOST_RENEWALS", 3)
    monkeypatch.setattr(streams, "LEASE_S", 0.5)
    with Lease(4).taken():
        wait_for(lambda: not broker.exists(lease_name(4)))
