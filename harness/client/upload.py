"""Resumable upload (tus 1.0) in pieces of 8 MiB, each with its checksum; goes on after a break or a restart."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from harness.client.config import config_folder, private_write
from harness.client.errors import ApiError, BadInput, Unreachable
from harness.client.transport import API, Progress, Transport, segment

CHUNK_BYTES = 8 << 20
PIECE_TIMEOUT_S = 600.0
"""After the last piece the portal hashes the whole file."""
TUS_HEADERS = {"Tus-Resumable": "1.0.0"}
_WAITS_S = (0.2, 0.5, 1.0, 2.0, 4.0)
_TRY_AGAIN = frozenset({408, 409, 423, 460, 502, 503, 504})
_MEMORY_LENGTH_MAX = 50


@dataclass
class UploadMemory:
    """Uploads begun and not ended, kept between runs: what was sent stays sent."""

    path: Path = field(default_factory=lambda: config_folder() / "uploads.json")

    def read(self) -> dict[str, str]:
        """Key of an upload -> its id."""
        try:
            body = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return {}
        return {str(key): str(value) for key, value in body.items()} if isinstance(body, dict) else {}

    def write(self, key: str, upload_id: str | None) -> None:
        """Remember an upload, or with None forget it. What cannot be kept (a home that is read-only) is sent anew."""
        body = self.read()
        body.pop(key, None)
        if upload_id is not None:
            body[key] = upload_id
        kept = dict(list(body.items())[-_MEMORY_LENGTH_MAX:])
        with suppress(OSError):
            private_write(self.path, json.dumps(kept, indent=1))


def file_sha256(path: Path, progress: Progress | None = None) -> str:
    """Hash of a file, read in pieces."""
    digest = hashlib.sha256()
    done, total = 0, path.stat().st_size
    with path.open("rb") as stream:
        while piece := stream.read(CHUNK_BYTES):
            digest.update(piece)
            done += len(piece)
            if progress:
                progress(done, total)
    return digest.hexdigest()


class Upload:
    """One file on its way to the portal."""

    def __init__(
        self,
        transport: Transport,
        path: Path,
        metadata: dict[str, str],
        *,
        memory: UploadMemory | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        try:
            stat = path.stat()
        except OSError as error:
            raise BadInput(f"{path} cannot be read: {error.strerror}.", hint="Check the path.") from error
        if not path.is_file():
            raise BadInput(f"{path} is not a file.", hint="Pack a folder of pictures into a zip first.")
        if stat.st_size == 0:
            raise BadInput(f"{path} is empty.", hint="Choose a file that contains data.")
        self._transport, self._path, self._sleep = transport, path, sleep
        self._metadata = {"filename": path.name, **{key: value for key, value in metadata.items() if value}}
        self._size, self._told = stat.st_size, _version(stat)
        self._memory = memory or UploadMemory()
        facts = [transport.url, str(path.resolve()), stat.st_size, stat.st_mtime_ns, sorted(self._metadata.items())]
        self._key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]

    def run(self, progress: Progress | None = None) -> str:
        """Send what is missing and return the id of what it has become: a dataset, or a weights file.

        Raises `ApiError`, `Unreachable`.
        """
        place, offset, made_id = self._begin()
        failures = 0
        with self._path.open("rb") as stream:
            while not made_id:
                if progress:
                    progress(offset, self._size)
                stream.seek(offset)
                piece = stream.read(CHUNK_BYTES)
                self._unchanged_check(os.fstat(stream.fileno()))
                try:
                    offset, made_id = self._send(place, offset, piece)
                    failures = 0
                except (ApiError, Unreachable) as error:
                    if not _passes(error) or failures >= len(_WAITS_S):
                        raise
                    self._sleep(_WAITS_S[failures])
                    failures += 1
                    offset, made_id = self._stands_patiently(place, offset)
        if progress:
            progress(self._size, self._size)
        self._memory.write(self._key, None)
        return made_id

    def _unchanged_check(self, now: os.stat_result) -> None:
        """Raise `BadInput` where somebody writes the file: the portal would get a part of each version."""
        if _version(now) != self._told:
            how = "became shorter" if now.st_size < self._size else "changed"
            hint = "Upload it again once nothing writes to it."
            raise BadInput(f"{self._path} {how} while it was being sent.", hint=hint)

    def _begin(self) -> tuple[str, int, str]:
        known = self._memory.read().get(self._key)
        if known:
            try:
                place = f"/uploads/{segment(known)}"
                return (place, *self._stands(place))
            except ApiError as error:
                if error.status != 404:
                    raise
        pairs = [f"{key} {base64.b64encode(text.encode()).decode()}" for key, text in self._metadata.items()]
        headers = {"Upload-Length": str(self._size), "Upload-Metadata": ",".join(pairs)}
        response = self._tus("POST", "/uploads", headers)
        upload_id = response.headers["Location"].rstrip("/").rsplit("/", 1)[-1]
        self._memory.write(self._key, upload_id)
        return f"/uploads/{segment(upload_id)}", 0, ""

    def _stands(self, place: str) -> tuple[int, str]:
        response = self._tus("HEAD", place, {})
        return int(response.headers["Upload-Offset"]), _become(response)

    def _stands_patiently(self, place: str, offset: int) -> tuple[int, str]:
        try:
            return self._stands(place)
        except (ApiError, Unreachable) as error:
            if not _passes(error):
                raise
            return offset, ""

    def _send(self, place: str, offset: int, piece: bytes) -> tuple[int, str]:
        digest = base64.b64encode(hashlib.sha256(piece).digest()).decode()
        headers = {
            "Upload-Offset": str(offset),
            "Upload-Checksum": f"sha256 {digest}",
            "Content-Type": "application/offset+octet-stream",
        }
        response = self._tus("PATCH", place, headers, piece)
        return int(response.headers["Upload-Offset"]), _become(response)

    def _tus(self, method: str, path: str, headers: dict[str, str], body: bytes | None = None) -> httpx.Response:
        http = self._transport.http
        timeout = httpx.Timeout(PIECE_TIMEOUT_S, connect=10.0)
        options: dict[str, Any] = {"headers": {**TUS_HEADERS, **headers}, "timeout": timeout}
        if body is not None:
            options["content"] = body
        try:
            response = http.request(method, API + path, **options)
        except httpx.HTTPError as error:
            raise Unreachable(
                f"The upload of {self._path.name} was interrupted: {error or type(error).__name__}.",
                hint="Run the same command again: it continues where it stopped.",
            ) from error
        if response.is_success:
            return response
        if method == "HEAD":
            raise ApiError(response.status_code, _head_error(response.status_code))
        return self._transport.checked(response)


def _version(stat: os.stat_result) -> tuple[int, int]:
    """Of the bytes of a file, as far as its system tells."""
    return stat.st_size, stat.st_mtime_ns


def _become(response: httpx.Response) -> str:
    """Id of the dataset or weights file that an upload has become; empty before."""
    return str(response.headers.get("Dataset-Id") or response.headers.get("Weights-Id", ""))


def _head_error(status: int) -> dict[str, str]:
    """The answer to a HEAD has no body to tell more."""
    if status == 404:
        return {"message": "This upload no longer exists.", "code": "not_found"}
    return {"message": f"The portal answered {status}."}


def _passes(error: ApiError | Unreachable) -> bool:
    return isinstance(error, Unreachable) or error.status in _TRY_AGAIN
