"""What of a run the store takes while the job is being given away: only a database that locks rows shows it."""

from __future__ import annotations

import threading

import pytest
from django.db import connection, transaction

from harness.jobs.models import Job
from harness.transfer import returns
from tests.harness.transfer.asking import MANIFEST, STATE, caller, code, commit, paths, send


@pytest.mark.skipif("sqlite" in connection.vendor, reason="SQLite locks whole files; PostgreSQL runs this")
def test_a_commit_that_comes_while_the_job_is_given_to_a_newer_attempt_waits_and_is_refused(node, attempt, monkeypatch):
    node = caller(node)
    files = {"state.pt": STATE, "MANIFEST.json": MANIFEST}
    send(node, attempt, files)
    held, asked = threading.Event(), threading.Event()

    def give():
        with transaction.atomic():
            Job.objects.select_for_update().get(pk=attempt.job_id)
            held.set()
            assert asked.wait(60)
            Job.objects.filter(pk=attempt.job_id).update(token=2)
        connection.close()

    giver, honest = threading.Thread(target=give), returns.sender_get

    def sender_get(*told, lock=False):
        if lock:
            giver.start()
            assert held.wait(60)
            asked.set()
        return honest(*told, lock=lock)

    monkeypatch.setattr(returns, "sender_get", sender_get)
    assert code(commit(node, attempt, files)) == "stale_attempt"
    giver.join()
    assert not paths(attempt).checkpoints.exists()
