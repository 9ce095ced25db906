"""The portal as a node asks it: JSON, byte ranges and pieces, with the node's secret, on kept connections."""

from __future__ import annotations

import http.client
import json
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

CONNECT_S, TIMEOUT_S = 10.0, 30.0
SLOW_S = 300.0
"""For answers before which the portal reads all bytes of a folder."""
READ_BYTES = SEND_BYTES = 1 << 18
"""At once: a time limit holds for each, so that a slow line that gets on is none that has broken."""
ANSWER_BYTES_MAX = 16 << 20
RETRY_FIRST_S, RETRY_MOST_S = 0.2, 5.0
_MOVED_FROM, _ERROR_FROM, _SERVER_FROM = 300, 400, 500
_PLACE_CHARS = 200
_TRY_AGAIN = frozenset({408, 423, 429})
_NOBODY_KNOWS = frozenset({401, 403, 404})
"""In other words than the portal's: those of a proxy before it, which has no way to it for now."""
_CUT = (BrokenPipeError, ConnectionAbortedError, ConnectionResetError, ssl.SSLEOFError)
T = TypeVar("T")


class TransferError(Exception):
    """What was to be fetched or returned was not; in words for a person."""


class PortalAway(TransferError):
    """No answer, or one that says to try again: the same request may work later."""


class PortalCut(PortalAway):
    """The connection ended while a body was on its way, or before its answer."""


class PortalMoved(PortalAway):
    """Whatever answers there sends us to another address, as a proxy does that wants https: not the portal's answer."""


class PortalRefused(TransferError):
    """The portal said no. `code` and `details` as in the API's errors."""

    def __init__(self, status: int, code: str, message: str, details: Any) -> None:
        super().__init__(message)
        self.status, self.code, self.details = status, code, details


class Stopped(TransferError):
    """Whoever waited for it does not want it any more."""


class Portal:
    """The API below `url`; safe to use from several threads, each of which keeps a connection of its own."""

    def __init__(self, url: str, secret: str, *, timeout_s: float = TIMEOUT_S) -> None:
        parts = urlsplit(url)
        self._https, self._host = parts.scheme == "https", parts.netloc
        self._root, self._secret, self._timeout_s = parts.path.rstrip("/") + "/api/v1/node", secret, timeout_s
        self._url = url
        self._local = threading.local()
        self._made: list[http.client.HTTPConnection] = []

    @property
    def connections(self) -> list[http.client.HTTPConnection]:
        """Those that there are, of all threads."""
        return [*self._made]

    @contextmanager
    def apart(self) -> Iterator[Portal]:
        """The same portal with connections of their own, closed at the end."""
        own = Portal(self._url, self._secret, timeout_s=self._timeout_s)
        try:
            yield own
        finally:
            for connection in own._made:
                connection.close()

    def json(self, method: str, path: str, body: object = None, **query: object) -> Any:
        """The JSON of an answer, which may take `SLOW_S`. Raises `PortalAway`, `PortalRefused`."""
        sent = None if body is None else json.dumps(body).encode()
        with self._answer(method, path, query, sent, "application/json", max(SLOW_S, self._timeout_s)) as answer:
            return self._json(answer)

    def send(self, method: str, path: str, body: bytes, **query: object) -> Any:
        """Send bytes; the JSON of the answer. Raises as `json`."""
        with self._answer(method, path, query, body, "application/octet-stream", self._timeout_s) as answer:
            return self._json(answer)

    def span(self, path: str, start: int, stop: int, **query: object) -> Iterator[bytes]:
        """The bytes `start` to `stop` of a file, as they come. Raises as `json`."""
        wanted = f"bytes={start}-{stop - 1}"
        with self._answer("GET", path, query, None, "", self._timeout_s, Range=wanted) as answer:
            if answer.status != http.HTTPStatus.PARTIAL_CONTENT:
                raise PortalAway(f"asked for a part, the portal answered {answer.status}")
            left = stop - start
            while left > 0 and (block := answer.read(min(READ_BYTES, left))):
                left -= len(block)
                yield block
            if left:
                raise PortalAway(f"the connection ended {left} bytes early")

    def _json(self, answer: http.client.HTTPResponse) -> Any:
        body = answer.read(ANSWER_BYTES_MAX)
        try:
            return json.loads(body) if body else None
        except ValueError as error:
            raise PortalAway("the server there is not a portal of the harness") from error

    @contextmanager
    def _answer(
        self,
        method: str,
        path: str,
        query: dict[str, object],
        body: bytes | None,
        kind: str,
        timeout_s: float,
        **headers: str,
    ) -> Iterator[http.client.HTTPResponse]:
        target = f"{self._root}{quote(path)}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Authorization": f"Bearer {self._secret}", "Accept-Encoding": "identity", **headers}
        if body is not None:
            headers |= {"Content-Type": kind, "Content-Length": str(len(body))}
        try:
            connection = self._connection(timeout_s)
            try:
                connection.request(method, target, body=None if body is None else _blocks(body), headers=headers)
            except _CUT:
                answer = _early_answer(connection)  # a proxy may refuse before it has read all, and hang up
            else:
                answer = connection.getresponse()
            if answer.status >= _MOVED_FROM:
                raise _refusal(answer)
            yield answer
            answer.read()  # what is left of it, so that the connection can be used again
        except (OSError, http.client.HTTPException) as error:
            self.drop()
            away = PortalCut if body and isinstance(error, _CUT) else PortalAway
            raise away(f"{self._host}: {error or type(error).__name__}") from error
        except BaseException:
            self.drop()
            raise

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        """This thread's, which waits so long from now on."""
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            maker = http.client.HTTPSConnection if self._https else http.client.HTTPConnection
            connection = self._local.connection = maker(self._host, timeout=min(CONNECT_S, self._timeout_s))
            self._made.append(connection)
        if connection.sock is None:  # new, or closed by the last answer
            connection.connect()
        connection.sock.settimeout(timeout_s)
        return connection

    def drop(self) -> None:
        """Close this thread's connection."""
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._made.remove(connection)
            self._local.connection = None


def _blocks(body: bytes) -> Iterator[memoryview]:
    view = memoryview(body)
    yield from (view[start : start + SEND_BYTES] for start in range(0, len(body), SEND_BYTES))


def _early_answer(connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
    """What was answered before all was sent. Raises what sending it raised, where nothing was."""
    cut = sys.exception()
    try:
        return connection.getresponse()
    except (OSError, http.client.HTTPException):
        assert cut is not None  # noqa: S101 - called where it is handled
        raise cut from None


def _refusal(answer: http.client.HTTPResponse) -> TransferError:
    """What an answer of 300 or more means."""
    if answer.status < _ERROR_FROM:
        place = str(answer.getheader("Location") or "another address")[:_PLACE_CHARS]
        return PortalMoved(f"what answers for the portal says {answer.status} and names {place}")
    try:
        told = json.loads(answer.read(ANSWER_BYTES_MAX))["error"]
        code, message, details = str(told["code"]), str(told["message"]), told.get("details")
    except (ValueError, KeyError, TypeError):
        if answer.status in _NOBODY_KNOWS:
            return PortalAway(f"what answers for the portal says {answer.status}")
        code, message, details = "", f"the portal answers {answer.status}", None
    if answer.status >= _SERVER_FROM or answer.status in _TRY_AGAIN:
        return PortalAway(message)
    return PortalRefused(answer.status, code, message, details)


def patiently(work: Callable[[], T], *, limit_s: float, stopped: Callable[[], bool] = lambda: False) -> T:
    """Do it until the portal answers. Raises `PortalAway` after `limit_s`, `Stopped`, `PortalRefused`."""
    end_s, wait_s = time.monotonic() + limit_s, RETRY_FIRST_S
    while True:
        if stopped():
            raise Stopped("it is not wanted any more")
        try:
            return work()
        except PortalAway as away:
            if stopped():  # perhaps it was woken for that
                raise Stopped("it is not wanted any more") from away
            if time.monotonic() + wait_s > end_s:
                raise
        time.sleep(wait_s)
        wait_s = min(RETRY_MOST_S, wait_s * 2)
