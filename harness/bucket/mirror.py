"""Keeps the object store a copy of the store: one pass every few seconds, by control, by one process at a time."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.db import connections
from django.db.models import Q

from harness.bucket.client import Bucket, blob_name, bucket_get
from harness.bucket.trouble import BucketTrouble
from harness.bucket.units import gone_tell, memo_file, memos_forget, rows_read, unit_folder, unit_push
from harness.jobs.models import Job
from harness.pool.joining import store_id
from worker.states import HOLDS_DEVICES, TERMINAL

MARK = "installation"
"""Names the store whose copy this is."""
THREADS = 4
MARGIN_S = 600.0
"""What changed so long before the last whole pass is looked at again."""
SWEEP_EVERY_S = 3600.0
SWEEP_AGE = timedelta(hours=1)
"""Younger blobs stay though nothing names them yet."""
INCOMING_AGE = timedelta(hours=12)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class MirrorState:
    """How the copy stands; kept beside it."""

    complete_s: float = 0.0
    """When the last pass began that copied everything (Unix time)."""
    place: str = ""
    """Where it went."""
    swept_s: float = 0.0
    trouble: str = ""


def state_read() -> MirrorState:
    """As the last pass left it."""
    with suppress(OSError, ValueError, TypeError):
        return MirrorState(**json.loads(_state_file().read_text()))
    return MirrorState()


def _state_here(bucket: Bucket) -> MirrorState:
    """As the last pass to this place left it; what is known of another place says nothing of this one."""
    place, state = f"{bucket.given.endpoint} {bucket.given.place}", state_read()
    if state.place == place:
        return state
    memos_forget()
    state = MirrorState(place=place)
    _state_write(state)
    return state


def _state_file() -> Path:
    return Path(settings.STORE.bucket) / "state.json"


def _state_write(state: MirrorState) -> None:
    draft = _state_file().with_name(f".state.{os.getpid()}")
    draft.write_text(json.dumps(asdict(state)))
    draft.replace(_state_file())


_turn = threading.Lock()


def mirror_begin() -> None:
    """Have a pass made by a thread of its own, unless one is: large files must not keep control's tasks waiting."""
    if _turn.acquire(blocking=False):
        threading.Thread(target=_begun, name="bucket", daemon=True).start()


def _begun() -> None:
    try:
        mirror_pass()
    except Exception:
        _log.exception("copying to the object store broke off; the next pass begins anew")
    finally:
        connections.close_all()
        _turn.release()


def mirror_pass() -> bool:
    """Copy what changed; whether everything is in the object store now. Trouble is noted, logged and tried again."""
    bucket = bucket_get()
    if bucket is None:
        return False
    with alone() as mine:
        if not mine:
            return False
        before, began_s = _state_here(bucket), time.time()
        try:
            whole = _pass(bucket, before.complete_s - MARGIN_S)
            state = replace(before, complete_s=began_s if whole else before.complete_s, trouble="")
            if whole and began_s - before.swept_s >= SWEEP_EVERY_S:
                sweep(bucket)
                state = replace(state, swept_s=began_s)
        except BucketTrouble as trouble:
            if str(trouble) != before.trouble:
                _log.warning("the object store is no copy of the store for now: %s", trouble)
            whole, state = False, replace(before, trouble=str(trouble))
        if before.trouble and not state.trouble:
            _log.warning("the object store answers again")
        if state != before:
            _state_write(state)
        return whole


@contextmanager
def alone() -> Iterator[bool]:
    """Whether this process makes the pass; the kernel lets go of the lock however the process ends."""
    Path(settings.STORE.bucket).mkdir(parents=True, exist_ok=True)
    with (Path(settings.STORE.bucket) / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _pass(bucket: Bucket, since_s: float) -> bool:
    if pull_note().exists():
        raise BucketTrouble("a `dlh store pull` was cut short, and half a store must not be copied", "run it again")
    mark_check(bucket)
    gone_tell(bucket)
    troubles: list[BucketTrouble] = []

    def push(due: tuple[str, bool]) -> bool:
        unit, at_rest = due
        if troubles:
            return False
        try:
            unit_push(bucket, unit, at_rest=at_rest)
        except BucketTrouble as trouble:
            troubles.append(trouble)
            return False
        except OSError:
            _log.exception("cannot copy %s to the object store", unit)
            return False
        return True

    with ThreadPoolExecutor(THREADS, thread_name_prefix="bucket") as pool:
        whole = all([*pool.map(push, [*_datasets_due(), *_jobs_due(since_s)])])
    if troubles:
        raise troubles[0]
    return whole


def pull_note() -> Path:
    """There while files are brought back."""
    return Path(settings.STORE.bucket) / "pulling"


def mark_check(bucket: Bucket, *, claim: bool = True) -> None:
    """Pass where the place holds this store's copy, or none yet (`claim`: it is ours then). Raises `BucketTrouble`.

    A store whose folder was lost gets a new mark: its emptiness must not be copied over what it had.
    """
    try:
        theirs = bucket.text_get(MARK).strip()
    except FileNotFoundError:
        if claim:
            memos_forget()  # whoever emptied it did not tell us
            bucket.text_put(MARK, store_id())
        return
    if theirs != store_id():
        raise BucketTrouble(
            f"s3://{bucket.given.place} has the copy of another store than {settings.STORE.root}",
            "choose another prefix in DLH_S3_URL; or, if that is this store and its folder was lost: dlh store pull",
        )


def _datasets_due() -> Iterator[tuple[str, bool]]:
    """A content does not change once it is packed, and then the time of its folder does not."""
    root = Path(settings.STORE.datasets)
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        unit = f"datasets/{folder.name}"
        with suppress(OSError):
            if _time_s(memo_file(unit)) - MARGIN_S < folder.stat().st_mtime:
                yield unit, True


def _jobs_due(since_s: float) -> Iterator[tuple[str, bool]]:
    """Jobs that may go on, that ended or were predicted with since then, or that were never copied."""
    since = datetime.fromtimestamp(max(0.0, since_s), UTC)
    changed = Q(finished_at__gte=since) | Q(predictions__created_at__gte=since) | Q(predictions__finished_at__gte=since)
    moving = ~Q(state__in=[str(state) for state in TERMINAL])
    wanted = set(Job.objects.filter(changed | moving).values_list("pk", flat=True))
    held = {str(state) for state in HOLDS_DEVICES}
    for job_id, state in Job.objects.order_by("pk").values_list("pk", "state"):
        unit = f"jobs/{job_id}"
        if (job_id in wanted or not memo_file(unit).exists()) and unit_folder(unit).is_dir():
            yield unit, state not in held


def _time_s(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def sweep(bucket: Bucket) -> int:
    """Remove blobs that no list names, and what nodes put and nobody fetched; how many. Raises `BucketTrouble`."""
    now = datetime.now(UTC)
    # Blobs first: one that is named only later is not among them, or is young.
    old = {name for name, written in bucket.names("sha256").items() if now - written > SWEEP_AGE}
    gone = [name for name, written in bucket.names("incoming").items() if now - written > INCOMING_AGE]
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            texts = pool.map(bucket.text_get, sorted(bucket.names("units")))
            named = {blob_name(row.sha256) for text in texts for row in rows_read(text)}
    except (FileNotFoundError, ValueError) as error:
        raise BucketTrouble(
            f"a list of files in {bucket.given.place}/units is damaged: {error}", "remove it"
        ) from error
    gone += sorted(old - named)
    for name in gone:
        bucket.remove(name)
    return len(gone)
