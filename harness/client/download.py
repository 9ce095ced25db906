"""Downloads that go on after a break, in this process or the next one, and are checked at their end.

What has come lies beside the target as `.NAME.part`, and `.NAME.part.json` tells which bytes they are the beginning of.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from harness.client.errors import ApiError, BadInput, ClientError, Unreachable
from harness.client.transport import Progress, Transport
from harness.client.upload import file_sha256

TIMEOUT = httpx.Timeout(600.0, connect=10.0)
"""The portal may have to read what lies before the place to go on from, or to hash a large file."""
_WAITS_S = (0.2, 0.5, 1.0, 2.0, 4.0)
AGAIN = "Run the same command again."
GO_ON = "Run the same command again: it continues where it stopped."


class Damaged(ClientError):
    """What arrived is not what the portal has."""

    code = "damaged"


@dataclass
class Download:
    """One file on its way from the portal to `target`."""

    transport: Transport
    path: str
    target: Path
    params: dict[str, Any] = field(default_factory=dict)
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        if self.target.is_dir():
            raise BadInput(f"{self.target} is a folder.", hint="Name a file in it.")
        if self.target.exists() and not self.target.is_file():  # what is put in its place would end a device
            raise BadInput(f"{self.target} is not a regular file.", hint="Name a file: it is written, then checked.")
        self._part = self.target.with_name(f".{self.target.name}.part")
        self._note = self._part.with_name(f"{self._part.name}.json")

    def run(self, progress: Progress | None = None) -> Path:
        """Fetch what is missing, check it, and put it in place.

        Raises `ApiError`, `Unreachable`, `BadInput`, `Damaged`.
        """
        try:
            etag = self._fetch_patiently(progress)
            self._check(etag)
            self._part.replace(self.target)
        except OSError as error:
            raise BadInput(f"{self.target} cannot be written: {error.strerror}.", hint="Check the path.") from error
        finally:
            if self._have() == 0 or not self._known_etag():  # in place, or nothing that could be gone on with
                self._forget()
        return self.target

    def _fetch_patiently(self, progress: Progress | None) -> str:
        failures, had = 0, -1
        while True:
            try:
                return self._fetch(progress)
            except Unreachable as error:
                have = self._have()
                failures = 1 if have > had else failures + 1
                had = have
                if not self._known_etag():
                    raise
                if failures > len(_WAITS_S):
                    raise Unreachable(f"The download was interrupted: {error.message}", hint=GO_ON) from error
                self.sleep(_WAITS_S[failures - 1])

    def _fetch(self, progress: Progress | None) -> str:
        """One request for what is missing; the version of the bytes, empty where they have none."""
        etag, have = self._known_etag(), self._have()
        headers = {"Accept-Encoding": "identity"}
        if etag and have:
            headers |= {"Range": f"bytes={have}-", "If-Range": etag}
        try:
            with self.transport.stream(self.path, params=self.params, headers=headers, timeout=TIMEOUT) as response:
                return self._take(response, have, progress)
        except ApiError as error:
            if error.status == 416 and have:  # it was cut after its last byte
                return etag
            raise

    def _take(self, response: httpx.Response, have: int, progress: Progress | None) -> str:
        done = have if response.status_code == 206 else 0
        etag = str(response.headers.get("ETag", ""))
        total = done + int(response.headers.get("Content-Length") or 0)
        self._note.write_text(json.dumps({"address": self._address, "etag": etag}))
        with self._part.open("r+b" if done else "wb") as stream:
            stream.seek(done)
            stream.truncate()
            if progress:
                progress(done, total)
            for chunk in response.iter_raw():
                stream.write(chunk)
                done += len(chunk)
                if progress:
                    progress(done, total)
        return etag

    def _check(self, etag: str) -> None:
        """Raise `Damaged` unless the file hashes to what the portal says; one that says nothing is believed."""
        if not etag:
            return
        headers = {"Want-Repr-Digest": "sha-256=1", "If-Match": etag}
        try:
            told = self.transport.request("HEAD", self.path, params=self.params, headers=headers, timeout=TIMEOUT)
        except ApiError as error:
            if error.status != 412:
                raise
            self._forget()
            raise Damaged("The file changed while it was being downloaded.", hint=AGAIN) from error
        named = told.headers.get("Repr-Digest", "")
        if not named:
            return
        digest = base64.b64encode(bytes.fromhex(file_sha256(self._part))).decode()
        if named != f"sha-256=:{digest}:":
            self._forget()
            raise Damaged(f"{self.target.name} was damaged in transit and thrown away.", hint=AGAIN)

    @property
    def _address(self) -> str:
        return f"{self.transport.url}{self.path}?{json.dumps(self.params, sort_keys=True)}"

    def _have(self) -> int:
        """Bytes that came before."""
        try:
            return self._part.stat().st_size
        except OSError:
            return 0

    def _known_etag(self) -> str:
        """The version of the bytes that came before, if they came from the same address."""
        try:
            note = json.loads(self._note.read_text())
            return str(note["etag"]) if note["address"] == self._address else ""
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def _forget(self) -> None:
        for file in (self._part, self._note):
            with suppress(OSError):
                file.unlink()


def download(
    transport: Transport,
    path: str,
    target: Path,
    *,
    params: dict[str, Any] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Fetch a file to `target`. A cut download leaves nothing under that name, and goes on the next time."""
    return Download(transport, path, target, params or {}).run(progress)
