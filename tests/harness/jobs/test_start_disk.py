"""Where an attempt starts when the disk of its checkpoints does not answer: not from an older one by mistake."""

from __future__ import annotations

import errno
import os

import pytest

from harness.jobs.control.disk import disk_read
from tests.harness.jobs.test_reconcile import checkpoint_make

pytestmark = pytest.mark.django_db
AWAY, BAD_BLOCK, FILES_OPEN = errno.ESTALE, errno.EIO, errno.EMFILE


class Unread:
    """Opening files below some folders fails, so many times."""

    def __init__(self, monkeypatch, code, names, times=10**6):
        self._open, self._code, self._names, self._left = os.open, code, set(names), times
        monkeypatch.setattr(os, "open", self)

    def __call__(self, path, *args, **kwargs):
        if str(path) in self._names and self._left:
            self._left -= 1
            raise OSError(self._code, os.strerror(self._code), path)
        return self._open(path, *args, **kwargs)


@pytest.fixture
def names(job):
    """Of an older and a newer checkpoint."""
    return [checkpoint_make(job, step) for step in (10, 20)]


@pytest.mark.parametrize("code", [AWAY, FILES_OPEN])
def test_a_newest_checkpoint_that_only_cannot_be_read_now_lets_the_job_wait(job, names, monkeypatch, code):
    Unread(monkeypatch, code, names[1:])
    with pytest.raises(OSError, match=os.strerror(code)):
        disk_read(job)


def test_a_disk_that_fails_for_a_moment_leaves_no_newer_checkpoint_behind(job, names, monkeypatch):
    Unread(monkeypatch, BAD_BLOCK, names[1:], times=1)
    assert disk_read(job).resume_from == names[1]


def test_one_that_lies_on_a_bad_block_gives_way_to_an_older_one(job, names, monkeypatch):
    Unread(monkeypatch, BAD_BLOCK, names[1:])
    assert disk_read(job).resume_from == names[0]


def test_where_none_can_be_read_the_run_looks_at_the_newest_and_says_what_is_wrong(job, names, monkeypatch):
    Unread(monkeypatch, BAD_BLOCK, names)
    assert disk_read(job).resume_from == names[1]


def test_what_is_not_there_or_not_whole_is_passed_over_as_ever(job):
    kept = checkpoint_make(job, 5)
    checkpoint_make(job, 10, whole=False)
    assert disk_read(job).resume_from == kept
