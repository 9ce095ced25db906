"""Control's threads: woken by its clock, several at once, one that hangs holds up nobody."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.utils import timezone

from harness.celery import app
from harness.fetches import claims, running
from harness.fetches.models import Fetch
from harness.fetches.running import fetches_begin
from harness.fetches.services import fetch_create
from tests.file_servers import whole
from tests.waiting import wait_for


def test_control_knows_the_task_and_is_woken_for_it_by_its_own_clock():
    app.loader.import_default_modules()
    assert "control.fetch" in app.tasks
    assert "control.fetch" in {entry["task"] for entry in app.conf.beat_schedule.values()}


@pytest.mark.django_db(transaction=True)
def test_who_asks_wakes_control_and_a_server_that_hangs_holds_up_no_other(files, people, loopback_allowed, tasks_sent):
    answering = threading.Event()

    def hangs(handler):
        answering.wait()
        whole()(handler)

    files.acts |= {"/hangs.csv": hangs, "/t.csv": whole()}
    for path in files.acts:
        fetch_create(user=people.owner, project=people.project, url=files.url(path))
    assert ("control.fetch", [], "control") in tasks_sent
    try:
        fetches_begin()
        wait_for(lambda: len(files.asked) == 1, what="the first server was asked")
        fetches_begin()
        wait_for(lambda: Fetch.objects.filter(state="done").count() == 1, what="the other file is there")
        assert Fetch.objects.get(state="fetching").url.endswith("/hangs.csv")
    finally:
        answering.set()
    wait_for(lambda: Fetch.objects.filter(state="done").count() == 2, what="the first file is there, too")
    wait_for(lambda: not _threads_running(), what="the threads have ended")


@pytest.mark.django_db(transaction=True)
def test_a_file_that_takes_long_to_hash_takes_no_other_thread(files, people, loopback_allowed, tasks_sent, monkeypatch):
    files.acts["/t.csv"] = whole()
    fetch_create(user=people.owner, project=people.project, url=files.url("/t.csv"))
    finished = running.upload_finish

    def slowly(**given):
        Fetch.objects.update(beat_at=timezone.now() - claims.STALE - timedelta(seconds=1))
        wait_for(lambda: not claims.due().exists(), what="who hashes says that they are at it")
        return finished(**given)

    monkeypatch.setattr(claims, "HOLD_EVERY_S", 0.05)
    monkeypatch.setattr(running, "upload_finish", slowly)
    assert running.fetch_next()
    fetch = Fetch.objects.get()
    assert (fetch.state, fetch.run) == ("done", 1)


def _threads_running():
    return [thread for thread in threading.enumerate() if thread.name == "fetch"]
