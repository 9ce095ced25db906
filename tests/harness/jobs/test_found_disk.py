"""A disk that does not answer: what cannot be looked at is not gone, and keeps no attempt from ending."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from unittest.mock import Mock

import pytest
from django.conf import settings

from harness.jobs.control import found as found_module
from harness.jobs.control.effects import events_apply
from harness.jobs.control.saved import checkpoints_damaged
from harness.jobs.models import Allocation, Job, JobAttempt
from tests.harness.jobs.test_found import ended, name, running, sample, saved, steps, write

pytestmark = pytest.mark.django_db
__all__ = ["running"]
FAULT = OSError(errno.EIO, "Input/output error")


def test_results_that_a_disk_does_not_give_keep_no_run_from_ending(running, monkeypatch, caplog):
    monkeypatch.setattr(found_module, "job_results", Mock(side_effect=FAULT))
    events_apply(running.pk, [ended(running, outcome="succeeded", failure=None)])
    assert Job.objects.get(pk=running.pk).state == "succeeded"
    assert not Allocation.objects.filter(job=running).exists()
    assert f"job {running.pk} succeeded without readable results" in caplog.text


@pytest.mark.parametrize("silent", ["the folder", "one of them"])
def test_what_a_disk_does_not_let_be_looked_at_was_not_removed(running, monkeypatch, silent):
    events_apply(running.pk, [replace(saved(running, step, step), sent=step // 10) for step in (10, 20)])
    folder = settings.STORE.job(running.pk).checkpoints
    closed = {"the folder": folder, "one of them": folder / name(20)}[silent]

    def failing(real):
        def look(path, **how):
            if path in {closed, str(closed)}:
                raise FAULT
            return real(path, **how)

        return look

    with monkeypatch.context() as away:
        away.setattr(os, "stat", failing(os.stat))
        away.setattr(os, "lstat", failing(os.lstat))
        events_apply(running.pk, [sample(running, 4)])
    assert steps(running) == [10, 20] and JobAttempt.objects.get(job=running).seen_seq["sent"] == 4


def test_what_was_found_on_the_disk_is_none_that_was_set_aside(running):
    write(running, 20)
    events_apply(running.pk, [ended(running)])
    assert steps(running) == [20] and checkpoints_damaged(running) == {}
