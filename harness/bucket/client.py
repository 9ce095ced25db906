"""The object store as portal and control speak to it, by fsspec's s3fs: blobs, small texts, addresses for nodes.

Below the prefix lie `sha256/ab/<hash>`, `units/<unit>.json` (the files of a dataset or a job), `incoming/` (what nodes
put and nobody has checked yet) and `installation` (whose store this is).
"""

from __future__ import annotations

import errno
import hashlib
import logging
import re
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from django.conf import settings

from harness.bucket.trouble import BucketTrouble, code_of, is_answered, trouble_of
from harness.env import S3Settings

AWAY_S = 30.0
"""So long nobody's request waits for an object store that did not answer."""
ADDRESS_S = 6 * 3600
"""So long a signed address is good; afterwards bytes come by the portal."""
PUT_BYTES_MAX = 5 << 30
"""Of one object that is put in one piece (S3's own limit)."""
WHOLE_BYTES = 8 << 20
"""Files up to here are put in one request."""
PART_BYTES = 32 << 20
CONNECT_S, READ_S, TRIES = 5, 30, 3
UPLOAD_PAGES_MAX = 100
_SHA256 = re.compile(r"[0-9a-f]{64}")
_log = logging.getLogger(__name__)


class Changed(Exception):
    """A file was written while it was read."""


class Bucket:
    """Safe to use from several threads. Every call raises `BucketTrouble`."""

    def __init__(self, given: S3Settings) -> None:
        self.given = given
        self._away_until_s = 0.0
        self._making = threading.Lock()

    # -- whether it answers ---------------------------------------------------------------------------------------

    @property
    def answers(self) -> bool:
        """False for a while after it did not: callers who have another way take that one."""
        return time.monotonic() >= self._away_until_s

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """Turn whatever s3fs, botocore and the network raise into `BucketTrouble`; what is not there stays that."""
        try:
            yield
        except (BucketTrouble, Changed):
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise  # the disk here
            trouble = trouble_of(error, self.given)
            if trouble is None:
                raise FileNotFoundError(str(error)) from error
            self._away_until_s = time.monotonic() + AWAY_S
            raise trouble from error

    @cached_property
    def _files(self) -> Any:
        try:
            from s3fs import S3FileSystem
        except ImportError as error:
            raise BucketTrouble(
                "DLH_S3_URL is set, but the package s3fs is not installed",
                "install the extra: .venv/bin/pip install -c deploy/constraints.txt '.[s3]'",
            ) from error
        made = S3FileSystem(
            key=self.given.key,
            secret=self.given.secret,
            endpoint_url=self.given.endpoint or None,
            client_kwargs={
                "region_name": self.given.region,
                **({"verify": self.given.ca_file} if self.given.ca_file else {}),
            },
            config_kwargs={
                "signature_version": "s3v4",
                "s3": {"addressing_style": "path" if self.given.endpoint else "auto"},
                "connect_timeout": CONNECT_S,
                "read_timeout": READ_S,
                "retries": {"max_attempts": 1},
                # Servers older than these checksums refuse requests that have them; we have our own.
                "request_checksum_calculation": "when_required",
                "response_checksum_validation": "when_required",
            },
            use_listings_cache=False,
            skip_instance_cache=True,
        )
        made.retries = TRIES
        made.connect()  # once, here: no word goes over the network yet
        return made

    @property
    def _fs(self) -> Any:
        with self._making:
            return self._files

    def _key(self, name: str) -> str:
        return f"{self.given.place}/{name}"

    # -- blobs ----------------------------------------------------------------------------------------------------

    def has(self, sha256: str, size_bytes: int) -> bool:
        """Whether the blob is there, of this size."""
        with suppress(FileNotFoundError), self._asked():
            return int(self._fs.info(self._key(blob_name(sha256)))["size"]) == size_bytes
        return False

    def put(self, stream: BinaryIO, sha256: str, size_bytes: int) -> None:
        """Store the stream's bytes under their hash. Raises `Changed` where they hash otherwise: nothing is stored."""
        key = self._key(blob_name(sha256))
        stream.seek(0)
        if size_bytes <= WHOLE_BYTES:
            body = stream.read(WHOLE_BYTES + 1)
            if hashlib.sha256(body).hexdigest() != sha256:
                raise Changed(sha256)
            with self._asked():
                self._fs.pipe_file(key, body)
            return
        with self._asked():
            # Parts are put together only at `commit`: a cut, or other bytes than were named, leaves no object.
            parts = self._fs.open(key, "wb", block_size=PART_BYTES, autocommit=False)
            try:
                digest = hashlib.sha256()
                while block := stream.read(WHOLE_BYTES):
                    digest.update(block)
                    parts.write(block)
                if digest.hexdigest() != sha256:
                    raise Changed(sha256)
                parts.close()
                parts.commit()
            except BaseException:
                with suppress(Exception):
                    parts.discard()
                parts.closed = True  # else it would try once more when it is collected
                raise

    def get(self, name: str, target: Path) -> None:
        """Write an object to the file `target`. Raises `FileNotFoundError`."""
        with self._asked():
            self._fs.get_file(self._key(name), str(target))

    def get_one(self, name: str, target: Path) -> str:
        """As `get`, of an object that others may exchange at any time: all bytes are of one version, whose ETag it is.

        Raises `FileNotFoundError`, also where it was exchanged meanwhile.
        """
        with self._asked(), self._fs.open(self._key(name), "rb", cache_type="none") as stream:
            etag = str(stream.details.get("ETag") or "")  # each range is asked for with If-Match
            with target.open("wb") as file:
                while block := stream.read(PART_BYTES):
                    file.write(block)
        return etag

    def adopt(self, name: str, sha256: str, etag: str) -> None:
        """Make the version of an object that was found to have this hash a blob, where it lies.

        Raises `FileNotFoundError` where another lies there by now.
        """
        if not etag:
            raise FileNotFoundError(f"{name} has no version")
        with self._asked():
            self._fs.cp_file(self._key(name), self._key(blob_name(sha256)), CopySourceIfMatch=etag)
            self._fs.rm_file(self._key(name))

    # -- addresses for nodes --------------------------------------------------------------------------------------

    def address_get(self, sha256: str) -> str:
        """Where a node may read a blob for `ADDRESS_S`."""
        with self._asked():
            return str(self._fs.sign(self._key(blob_name(sha256)), expiration=ADDRESS_S))

    def address_put(self, name: str, size_bytes: int) -> str:
        """Where a node may put an object of exactly this size for `ADDRESS_S`."""
        with self._asked():
            return str(
                self._fs.sign(
                    self._key(name), expiration=ADDRESS_S, client_method="put_object", ContentLength=size_bytes
                )
            )

    # -- small texts, listing, removing ---------------------------------------------------------------------------

    def text_put(self, name: str, text: str) -> None:
        """Write a small object."""
        with self._asked():
            self._fs.pipe_file(self._key(name), text.encode())

    def text_get(self, name: str) -> str:
        """A small object. Raises `FileNotFoundError`."""
        with self._asked():
            return bytes(self._fs.cat_file(self._key(name))).decode()

    def names(self, folder: str) -> dict[str, datetime]:
        """Objects below a folder, by name within the prefix, with the time they were written."""
        with suppress(FileNotFoundError), self._asked():
            found = self._fs.find(self._key(folder), detail=True)
            cut = len(self.given.place) + 1
            return {key[cut:]: row.get("LastModified") or datetime.now(UTC) for key, row in found.items()}
        return {}

    def remove(self, name: str) -> None:
        """Remove an object; one that is not there is gone."""
        with suppress(FileNotFoundError), self._asked():
            self._fs.rm_file(self._key(name))

    def uploads_end(self, begun_before: datetime) -> int:
        """End uploads of blobs that nobody will finish; how many.

        Who is killed in `put` leaves its parts: they cost money, and no list of objects shows them. What a server does
        not let us list or end is left to a rule of the bucket: only one that does not answer is `BucketTrouble`.
        """
        old, ended = [], 0
        with self._cleaned("listed"):
            for row in self._uploads():
                if row["Initiated"] < begun_before:
                    old.append(row)
        for row in old:
            with self._cleaned("ended"):
                self._fs.abort_mpu(self.given.bucket, row["Key"], row["UploadId"])
                ended += 1
        return ended

    @contextmanager
    def _cleaned(self, what: str) -> Iterator[None]:
        """As `_asked`, of what may as well stay undone: a server that answers with an error is no trouble."""
        with self._asked():
            try:
                yield
            except Exception as error:
                if not is_answered(error):
                    raise
                if code_of(error) != "NoSuchUpload":  # a rule of the bucket was faster
                    _log.info("an unfinished upload in %s cannot be %s: %s", self.given.place, what, error)

    def _uploads(self) -> Iterator[dict[str, Any]]:
        """Uploads of blobs that go on, or were left."""
        asked = {"Bucket": self.given.bucket, "Prefix": self._key("sha256/").partition("/")[2]}
        for _ in range(UPLOAD_PAGES_MAX):
            page = self._fs.call_s3("list_multipart_uploads", **asked)
            yield from page.get("Uploads", [])
            if not page.get("IsTruncated"):
                return
            asked |= {"KeyMarker": page.get("NextKeyMarker", ""), "UploadIdMarker": page.get("NextUploadIdMarker", "")}

    def check(self) -> float:
        """Write, read, list and remove a small object; how long it took in seconds."""
        began_s = time.monotonic()
        name, text = f"check/{secrets.token_hex(8)}", secrets.token_hex(16)
        try:
            self.text_put(name, text)
            if self.text_get(name) != text or name not in self.names("check"):
                raise BucketTrouble(
                    f"the place s3://{self.given.place} does not give back what was put there",
                    "DLH_S3_ENDPOINT must be the address of a server that speaks S3",
                )
        except FileNotFoundError as error:
            raise BucketTrouble(
                f"what answers at {self.given.endpoint or 'Amazon'} does not keep what is put into s3://{self.given.place}",
                "DLH_S3_ENDPOINT must be the address of a server that speaks S3",
            ) from error
        self.remove(name)
        return time.monotonic() - began_s


def blob_name(sha256: str) -> str:
    """Name of a blob within the prefix."""
    assert _SHA256.fullmatch(sha256)  # noqa: S101 - hashes are checked where they come in
    return f"sha256/{sha256[:2]}/{sha256}"


@lru_cache(maxsize=4)
def _bucket(given: S3Settings) -> Bucket:
    return Bucket(given)


def bucket_get() -> Bucket | None:
    """The object store of this installation; None where there is none."""
    return _bucket(settings.S3) if settings.S3 is not None else None
