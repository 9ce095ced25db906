"""The way past the portal: signed addresses of the object store for what nodes fetch and return.

Whatever goes wrong here costs the short cut alone: without an address bytes come and go by the portal.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING

from harness.bucket.client import PUT_BYTES_MAX, Bucket, bucket_get
from harness.bucket.trouble import BucketTrouble
from harness.datasets.content import disk_full_told, space_check
from worker.transfer.signed import SIGNED_BYTES_MIN
from worker.transfer.tree import Tree, TreeFile
from worker.trees import tree_remove

if TYPE_CHECKING:
    from harness.transfer.returns import Sender

THREADS = 8
_log = logging.getLogger(__name__)


@contextmanager
def _bucket() -> Iterator[Bucket | None]:
    """The object store, or None where there is none or it did not answer a moment ago; its trouble ends the block."""
    bucket = bucket_get()
    try:
        yield bucket if bucket is not None and bucket.answers else None
    except (BucketTrouble, FileNotFoundError) as error:
        _log.warning("without the object store for now: %s", error)


def addresses_get(tree: Tree) -> dict[str, str]:
    """Where a node may read files of a tree, by name: those that are worth it and are in the object store."""
    found: dict[str, str] = {}
    large = [file for file in tree.files if file.bytes >= SIGNED_BYTES_MIN]
    with _bucket() as bucket:
        if bucket is None or not large:
            return found
        asked = partial(_has, bucket)
        with ThreadPoolExecutor(min(THREADS, len(large))) as pool:
            there = [*pool.map(asked, large)]
        found = {file.name: bucket.address_get(file.sha256) for file in compress(large, there)}
    return found


def _has(bucket: Bucket, file: TreeFile) -> bool:
    return bucket.has(file.sha256, file.bytes)


def uploads_get(sender: Sender, tree: Tree) -> dict[str, str]:
    """Where a node may put files that it returns, by name. What it puts counts for nothing until `uploads_take`."""
    found: dict[str, str] = {}
    with _bucket() as bucket:
        if bucket is not None:
            for file in tree.files:
                if SIGNED_BYTES_MIN <= file.bytes <= PUT_BYTES_MAX:
                    found[file.name] = bucket.address_put(_incoming(sender, file), file.bytes)
    return found


def _incoming(sender: Sender, file: TreeFile) -> str:
    return f"incoming/{sender.attempt.job_id}/{sender.attempt.number}-{sender.node.pk}/{file.sha256}"


def uploads_take(sender: Sender, folder: Path, tree: Tree) -> dict[TreeFile, str]:
    """Bring files that a node put into the object store to those that came by the portal; which ones came, with ETags.

    One that is not there, or is not what it should be, is left out: then the commit is refused, and sent by the portal.
    """
    absent = [file for file in tree.files if file.bytes >= SIGNED_BYTES_MIN and not (folder / file.name).exists()]
    taken: dict[TreeFile, str] = {}
    draft = sender.incoming / f"draft-{secrets.token_hex(6)}"
    with _bucket() as bucket:
        if bucket is None or not absent:
            return taken
        space_check(sum(file.bytes for file in absent))
        draft.mkdir(parents=True)
        try:
            for file in absent:
                with disk_full_told():
                    etag = bucket.get_one(_incoming(sender, file), draft / file.name)
                if not _is_as_named(draft / file.name, file):
                    _log.warning("%s of job %s arrived damaged in the object store", file.name, sender.attempt.job_id)
                    break
                folder.mkdir(parents=True, exist_ok=True)
                (draft / file.name).replace(folder / file.name)
                taken[file] = etag
        finally:
            tree_remove(draft)
    return taken


def _is_as_named(path: Path, file: TreeFile) -> bool:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256


def uploads_keep(sender: Sender, taken: dict[TreeFile, str]) -> None:
    """What was found to be right becomes a blob where it lies, so that nobody has to put it there again.

    Its address is good for hours: what was put there since is left, and the copy puts the file itself.
    """
    with _bucket() as bucket:
        for file, etag in {file.sha256: (file, etag) for file, etag in taken.items()}.values():
            if bucket is None:
                return
            if bucket.has(file.sha256, file.bytes):  # never over a good one
                bucket.remove(_incoming(sender, file))
                continue
            with suppress(FileNotFoundError):
                bucket.adopt(_incoming(sender, file), file.sha256, etag)
