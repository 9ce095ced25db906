"""Addresses that the portal has signed: bytes that go between a node and the object store, past the portal.

A short cut and nothing more: who uses it has another way, and takes that one after any `BucketAway`. No credentials
come to the node; an address is good for one object, one direction and some hours.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import BinaryIO
from urllib.parse import urlsplit

from worker.transfer.portal import TransferError

SIGNED_BYTES_MIN = 64 << 10
"""Smaller files go by the portal, which is asked anyway."""
CONNECT_S, TIMEOUT_S = 5.0, 60.0
READ_BYTES = 1 << 18
FAILURES_MAX = 3
"""After so many the object store is not asked again here."""
_Connection = http.client.HTTPConnection


class BucketAway(TransferError):
    """The object store did not do what was asked, for whatever reason."""


class Signed:
    """Safe to use from several threads, each of which keeps a connection of its own to each host."""

    def __init__(self) -> None:
        self.read_bytes = 0
        """So many came this way."""
        self._failures = 0
        self._lock = threading.Lock()
        self._local = threading.local()
        self._made: list[_Connection] = []

    @property
    def answers(self) -> bool:
        """Whether it is worth asking."""
        return self._failures < FAILURES_MAX

    @property
    def connections(self) -> list[_Connection]:
        """Those that there are, of all threads."""
        with self._lock:
            return [*self._made]

    def span(self, address: str, start: int, stop: int) -> Iterator[bytes]:
        """The bytes `start` to `stop` of an object, as they come. Raises `BucketAway`."""
        with self._answer("GET", address, {"Range": f"bytes={start}-{stop - 1}"}) as answer:
            if answer.status != HTTPStatus.PARTIAL_CONTENT:
                raise _unexpected(answer)
            left = stop - start
            while left > 0 and (block := answer.read(min(READ_BYTES, left))):
                left -= len(block)
                yield block
            if left:
                raise BucketAway(f"the object store ended {left} bytes early")
        with self._lock:
            self.read_bytes += stop - start

    def put(self, address: str, stream: BinaryIO, size_bytes: int) -> None:
        """Put an object of this size. Raises `BucketAway`."""
        with self._answer("PUT", address, {"Content-Length": str(size_bytes)}, _blocks(stream, size_bytes)) as answer:
            if answer.status != HTTPStatus.OK:
                raise _unexpected(answer)

    @contextmanager
    def _answer(
        self, method: str, address: str, headers: dict[str, str], body: Iterator[bytes] | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        parts = urlsplit(address)
        place = f"{parts.scheme}://{parts.netloc}"
        try:
            connection = self._connection(place)
            connection.request(method, f"{parts.path}?{parts.query}", body=body, headers=headers)
            answer = connection.getresponse()
            yield answer
            answer.read()  # what is left of it, so that the connection can be used again
        except (OSError, http.client.HTTPException) as error:
            self._failed(place)
            raise BucketAway(f"{parts.netloc}: {error or type(error).__name__}") from error
        except BucketAway:
            self._failed(place)
            raise
        except BaseException:
            self._drop(place)
            raise

    def _connection(self, place: str) -> _Connection:
        kept: dict[str, _Connection] = self._local.__dict__
        if place in kept and kept[place].sock is None:  # closed after the last answer
            self._drop(place)
        if place not in kept:
            parts = urlsplit(place)
            maker = http.client.HTTPSConnection if parts.scheme == "https" else _Connection
            made = maker(parts.netloc, timeout=CONNECT_S)
            with self._lock:
                self._made.append(made)
            kept[place] = made
            made.connect()
            made.sock.settimeout(TIMEOUT_S)
        return kept[place]

    def _failed(self, place: str) -> None:
        with self._lock:
            self._failures += 1
        self._drop(place)

    def _drop(self, place: str) -> None:
        connection = self._local.__dict__.pop(place, None)
        if connection is not None:
            connection.close()
            with self._lock:
                self._made.remove(connection)

    def close(self) -> None:
        """Close all connections."""
        for connection in self.connections:
            connection.close()


def _blocks(stream: BinaryIO, size_bytes: int) -> Iterator[bytes]:
    while size_bytes > 0 and (block := stream.read(min(READ_BYTES, size_bytes))):
        size_bytes -= len(block)
        yield block
    if size_bytes:
        raise BucketAway("the file became shorter while it was sent")


def _unexpected(answer: http.client.HTTPResponse) -> BucketAway:
    said = answer.read(600).decode(errors="replace")
    code = said.partition("<Code>")[2].partition("</Code>")[0]
    return BucketAway(f"the object store answers {answer.status} {code or answer.reason}")
