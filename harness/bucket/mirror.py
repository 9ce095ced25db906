"""Keeps the object store a copy of the store: one pass every few seconds, by control, by one process at a time."""

from __future__ import annotations

import fcntl
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path

from django.conf import settings

from harness.beside import Beside
from harness.bucket.back import drafts_remove
from harness.bucket.client import Bucket, blob_name, bucket_get
from harness.bucket.due import DUE, Due, due_done, noted_ns
from harness.bucket.state import MirrorState, Tally, state_begin, state_write
from harness.bucket.trouble import BucketTrouble
from harness.bucket.units import UNIT, gone_tell, memo_file, memos_forget, rows_read, unit_bytes, unit_folder, unit_push
from harness.bucket.wanted import units_wanted, wanted_done
from harness.pool.joining import store_id
from harness.progress import Tell, nobody

MARK = "installation"
"""Names the store whose copy this is."""
THREADS = 4
MARGIN_S = 600.0
"""What changed so long before the last whole pass is looked at again."""
SWEEP_EVERY_S = 3600.0
SWEEP_AGE = timedelta(hours=1)
"""Younger blobs stay though nothing names them yet."""
INCOMING_AGE = timedelta(hours=12)
UPLOAD_AGE = timedelta(days=1)
"""No file takes so long; and while this is looked at, none is under way (`alone`)."""
NOTE_EVERY_S = 5.0
"""A long pass says so often how far it is."""
_CONTENT = re.compile(r"[0-9a-f]{64}")
"""What a dataset's folder is called. There may be others': `lost+found` of a disk of its own, notes of people."""
_log = logging.getLogger(__name__)
_tally = Tally()


def mirror_begin() -> None:
    """Have a pass made by a thread of its own: large files must not keep control's tasks waiting."""
    _passing.begin()


def mirror_pass(tell: Tell = nobody) -> bool:
    """Copy what changed; whether everything is in the object store now. Trouble is noted, logged and tried again.

    `tell` hears how far it is.
    """
    bucket = bucket_get()
    if bucket is None:
        return False
    with alone() as mine:
        return mine and _pass(bucket, state_begin(bucket.given), tell)


_passing = Beside("bucket", mirror_pass)


def _pass(bucket: Bucket, before: MirrorState, tell: Tell) -> bool:
    state, since_s = replace(before, began_s=time.time(), trouble="", step=""), before.complete_s - MARGIN_S
    left: dict[str, Due] | None = None
    try:
        _ready(bucket)
        left = _due(since_s)
        _copy(bucket, left, replace(state, trouble=before.trouble, step=before.step), _told_bytes(left, tell))
        if not left:
            state = replace(state, complete_s=state.began_s)
            if state.began_s - before.swept_s >= SWEEP_EVERY_S:
                sweep(bucket)
                state = replace(state, swept_s=state.began_s)
    except BucketTrouble as trouble:
        if trouble.text != before.trouble:
            _log.warning("the object store is no copy of the store for now: %s", trouble)
        state = replace(state, trouble=trouble.text, step=trouble.step)
    if before.trouble and not state.trouble:
        _log.warning("the object store answers again")
    _note(state, len(_due(since_s) if left is None else left))
    return not left and not state.trouble


def _note(state: MirrorState, waiting: int) -> None:
    state_write(replace(state, waiting=waiting, **asdict(_tally.count())))


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
        drafts_remove()
        yield True


def copying() -> bool:
    """Whether some process makes a pass at this moment."""
    try:
        with (Path(settings.STORE.bucket) / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False


def _ready(bucket: Bucket) -> None:
    if pull_note().exists():
        raise BucketTrouble("a `dlh store pull` was cut short, and half a store must not be copied", "run it again")
    mark_check(bucket)
    gone_tell(bucket)


def _due(since_s: float) -> dict[str, Due]:
    """What changed, or may have, by unit; first those of which somebody wants what was lost."""
    wanted = units_wanted()
    found = chain(_datasets_due(wanted), *DUE.ask(since_s, wanted))
    return {due.unit: due for due in sorted(found, key=lambda due: due.unit not in wanted)}


def _told_bytes(left: dict[str, Due], tell: Tell) -> Callable[[int], None]:
    """Takes the bytes of one more file, from any thread, and tells how many of all there are done."""
    if tell is nobody:
        return lambda count: None
    all_bytes = sum(unit_bytes(due.unit, at_rest=due.at_rest) for due in left.values())
    lock, done = threading.Lock(), 0

    def more(count: int) -> None:
        nonlocal done
        with lock:
            done += count
            tell("Copying the store", done, all_bytes)

    more(0)
    return more


def _copy(bucket: Bucket, left: dict[str, Due], state: MirrorState, looked_at: Callable[[int], None]) -> None:
    """Copy these units; those that are copied leave `left`. `state` is noted on the way. Raises `BucketTrouble`."""
    troubles: list[BucketTrouble] = []

    def push(due: Due) -> bool:
        if troubles:
            return False
        noted = noted_ns(due.unit)
        try:
            unit_push(bucket, due.unit, at_rest=due.at_rest, final=due.final, looked_at=looked_at)
            wanted_done(due.unit)
            due_done(due.unit, noted)
        except BucketTrouble as trouble:
            troubles.append(trouble)
            return False
        except OSError:
            _log.exception("cannot copy %s to the object store", due.unit)
            return False
        return True

    _note(state, len(left))
    noted_s = time.monotonic()
    with ThreadPoolExecutor(THREADS, thread_name_prefix="bucket") as pool:
        going = {pool.submit(push, due): due.unit for due in left.values()}
        for made in as_completed(going):
            if made.result():
                del left[going[made]]
            if time.monotonic() - noted_s >= NOTE_EVERY_S:
                _note(state, len(left))
                noted_s = time.monotonic()
    if troubles:
        raise troubles[0]


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
            f"the place s3://{bucket.given.place} has the copy of another store than {settings.STORE.root}",
            "choose another prefix in DLH_S3_URL; or, if that is this store and its folder was lost: dlh store pull",
        )


def _datasets_due(wanted: set[str]) -> Iterator[Due]:
    """A content does not change once it is packed, and then the time of its folder does not."""
    root = Path(settings.STORE.datasets)
    names = [folder.name for folder in root.iterdir()] if root.is_dir() else []
    here = {f"datasets/{name}" for name in names if _CONTENT.fullmatch(name)}
    asked = {unit for unit in wanted if unit.startswith("datasets/") and UNIT.fullmatch(unit)}
    for unit in sorted(here | asked):
        with suppress(OSError):
            if unit in asked or _time_s(memo_file(unit)) - MARGIN_S < unit_folder(unit).stat().st_mtime:
                yield Due(unit, at_rest=True, final=True)


def _time_s(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def sweep(bucket: Bucket) -> int:
    """Remove blobs that no list names, what nodes put and nobody fetched, and uploads that were cut short; how many.

    Raises `BucketTrouble`.
    """
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
    return len(gone) + bucket.uploads_end(now - UPLOAD_AGE)
