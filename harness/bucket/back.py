"""Bytes that come back from the object store to the folder, each file checked by its SHA-256."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from django.conf import settings

from harness.bucket.client import Bucket, blob_name
from harness.store import folder_beneath

_DRAFT = ".pull-"


def drafts_remove() -> None:
    """Remove what a killed process was bringing. Call it where nobody else brings anything (`mirror.alone`)."""
    for left in Path(settings.STORE.bucket).glob(f"{_DRAFT}*"):
        left.unlink(missing_ok=True)


def file_bring(bucket: Bucket, unit: str, path: str, sha256: str) -> os.stat_result:
    """Put a file of a unit where it was; how it lies there now.

    Raises `FileNotFoundError` where the object store does not have it so, `UnsafePath`, `BucketTrouble`, `OSError`.
    """
    drafts = Path(settings.STORE.bucket)
    drafts.mkdir(parents=True, exist_ok=True)
    draft = drafts / f"{_DRAFT}{secrets.token_hex(6)}"
    try:
        bucket.get(blob_name(sha256), draft)
        with draft.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != sha256:
                raise FileNotFoundError(path)
            os.fsync(stream.fileno())  # what is there is never looked at again
            told = os.fstat(stream.fileno())
        target = Path(unit, path)
        with folder_beneath(Path(settings.STORE.root), str(target.parent)) as place:
            os.rename(draft, target.name, dst_dir_fd=place)
    finally:
        draft.unlink(missing_ok=True)
    return told
