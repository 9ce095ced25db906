"""Reads one dataset under a lease, so that a lost task is sent again and two never read the same."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import redis
from django.conf import settings
from django.db import connection
from redis.exceptions import LockError
from redis.lock import Lock

from harness.broker import client, publish_dataset, task_send
from harness.database import DATABASE_AWAY
from harness.datasets.content import content_profile, content_source
from harness.datasets.models import Dataset, DatasetState
from harness.datasets.profiling import ProfileFailed, profile_run
from harness.storage.sizes import content_measure

LEASE_S = 60
"""A reading whose lease ran out is started again."""
_PROGRESS_PERIOD_S = 0.5
_RESEND_S = 5
_LOOKED_AT = 200
READINGS_AT_ONCE = 2
"""A large file must not keep a small one waiting."""
_log = logging.getLogger(__name__)


def _lease(dataset_id: str) -> str:
    return f"dlh:reading:{dataset_id}"


_slots = threading.BoundedSemaphore(READINGS_AT_ONCE)


def dataset_read_start(dataset_id: str) -> bool:
    """Read in a thread of this process, so that the task that asks is short; the thread goes on with what else waits.

    Returns False where all threads are busy: the first that is free takes it.
    """
    if not _slots.acquire(blocking=False):
        return False

    def run() -> None:
        try:
            _read_all(dataset_id)
        finally:
            connection.close()
            _slots.release()

    threading.Thread(target=run, name=f"reading-{dataset_id}", daemon=True).start()
    return True


def _read_all(dataset_id: str) -> None:
    """Read this dataset, then those that wait, the oldest first."""
    seen: set[tuple[str, str]] = set()
    wanted = Dataset.objects.filter(pk=dataset_id).first()
    while wanted is not None:
        seen.add((wanted.pk, wanted.sha256))
        dataset_read(wanted.pk)
        wanted = _next_waiting(seen)


def _next_waiting(seen: set[tuple[str, str]]) -> Dataset | None:
    """The oldest dataset that nobody reads. What was tried and still waits is left to `datasets_resend`."""
    try:
        for dataset in Dataset.objects.filter(state=DatasetState.PROFILING).order_by("created_at")[:_LOOKED_AT]:
            if (dataset.pk, dataset.sha256) not in seen and not client().exists(_lease(dataset.pk)):
                return dataset
    except redis.RedisError as error:
        _log.warning("cannot look for datasets that wait: %s", error)
    return None


def dataset_read(dataset_id: str) -> None:
    """Profile and pack; set the dataset ready or failed. Does nothing where another process reads it now."""
    dataset = Dataset.objects.filter(pk=dataset_id, state=DatasetState.PROFILING).first()
    if dataset is None:
        return
    lease = Lock(client(), _lease(dataset_id), timeout=LEASE_S, thread_local=False)
    try:
        if not lease.acquire(blocking=False):
            return
    except redis.RedisError as error:
        _log.warning("no lease for dataset %s: %s", dataset_id, error)
    try:
        _read(dataset, lease)
    finally:
        try:
            lease.release()
        except LockError:
            _log.warning("reading dataset %s took longer than its lease", dataset_id)
        except redis.RedisError as error:
            _log.warning("lease of dataset %s stays until it runs out: %s", dataset_id, error)


def _read(dataset: Dataset, lease: Lock) -> None:
    told = _Progress(dataset, lease)
    try:
        profile = content_profile(dataset.sha256) or profile_run(
            content_source(dataset.sha256),
            settings.STORE.dataset(dataset.sha256).packed,
            dataset.options,
            told,
            name=dataset.source_name,
            alive=told.alive,
        )
    except ProfileFailed as failed:
        _finish(dataset, state=DatasetState.FAILED, problem=failed.problem)
    except Exception:
        _log.exception("reading dataset %s failed", dataset.pk)
        problem = {
            "code": "reading_failed",
            "message": "Reading this file failed.",
            "hint": "An admin finds the reason in control's log.",
        }
        _finish(dataset, state=DatasetState.FAILED, problem=problem)
    else:
        _finish(
            dataset, state=DatasetState.READY, profile=profile.to_dict(), progress=1.0, progress_note="", problem=None
        )


def _finish(dataset: Dataset, **fields: Any) -> None:
    """Write the end, unless the dataset was asked to be read with other options meanwhile."""
    content_measure(dataset.sha256)
    rows = Dataset.objects.filter(pk=dataset.pk, sha256=dataset.sha256, state=DatasetState.PROFILING)
    if rows.update(**fields):
        publish_dataset(dataset.project_id, dataset.pk, {"state": str(fields["state"]), "progress": 1.0})


class _Progress:
    """Writes and publishes progress, at most twice a second, and keeps the lease as long as the reading goes on."""

    def __init__(self, dataset: Dataset, lease: Lock) -> None:
        self._dataset, self._lease = dataset, lease
        self._next_s = self._renew_s = 0.0

    def __call__(self, done: float, note: str) -> None:
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + _PROGRESS_PERIOD_S
        done = min(1.0, max(0.0, done))
        rows = Dataset.objects.filter(pk=self._dataset.pk, sha256=self._dataset.sha256)
        try:
            rows.update(progress=done, progress_note=note[:120])
        except DATABASE_AWAY as error:  # the next word tells as much, and the reading is none the worse for it
            _log.warning("progress of dataset %s is not kept: %s", self._dataset.pk, error)
            connection.close_if_unusable_or_obsolete()
        data = {"state": str(DatasetState.PROFILING), "progress": done, "note": note[:120]}
        publish_dataset(self._dataset.project_id, self._dataset.pk, data)

    def alive(self) -> None:
        """Keep others from beginning with it, too: between two words minutes may pass."""
        now_s = time.monotonic()
        if now_s < self._renew_s:
            return
        self._renew_s = now_s + LEASE_S / 4
        try:
            self._lease.reacquire()
        except LockError:  # it ran out while the broker or this process stood still
            self._take_again()
        except redis.RedisError as error:
            _log.warning("cannot renew the lease of dataset %s: %s", self._dataset.pk, error)

    def _take_again(self) -> None:
        try:
            if not self._lease.acquire(blocking=False):
                _log.warning("dataset %s is read by another one, too", self._dataset.pk)
        except redis.RedisError as error:
            _log.warning("no lease for dataset %s: %s", self._dataset.pk, error)


def datasets_resend() -> int:
    """Send again what should be read and is not: control was busy or killed, or the broker forgot. Returns how many."""
    count = 0
    for dataset_id in Dataset.objects.filter(state=DatasetState.PROFILING).values_list("pk", flat=True):
        asked = f"dlh:reading-asked:{dataset_id}"
        if not client().exists(_lease(dataset_id)) and client().set(asked, "1", nx=True, ex=_RESEND_S):
            task_send("control.dataset_profile", [dataset_id], expires_s=_RESEND_S)
            count += 1
    return count
