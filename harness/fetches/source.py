"""A file at a web address: asked for at an address that was checked, hop by hop, and read piece by piece."""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from harness.fetches.answers import Answer, answer_read
from harness.fetches.trouble import FetchRefused, FetchTrouble
from harness.outward.address import (
    AddressRefused,
    IPAddress,
    Resolve,
    Rules,
    Target,
    addresses_for,
    resolve,
    url_read,
)
from harness.outward.connection import connected, cut_after, secured
from harness.release import release

HOPS_MAX = 6
"""Requests in a row, the redirects among them."""
ANSWER_S = 30.0
"""From the connection to the answer's headers, however slowly they come."""
HOPS_S = 45.0
"""For all requests in a row: who fetches must say that they are still at it before `claims.STALE` has passed."""
SILENT_S = 30.0
"""For the next piece, however little it is."""
PAUSE_S = 600.0
"""While nothing is read: a slow disk of ours is not the server's fault."""
PIECE_BYTES = 256 << 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is wanted of an address."""

    url: str
    rules: Rules
    offset: int = 0
    """Bytes that are there already, of the file that `validator` names."""
    validator: str = ""
    by: Resolve = resolve
    context: ssl.SSLContext | None = None


class Source:
    """An answer whose bytes can be read. Close it, or use it in `with`."""

    def __init__(self, asked: Asked) -> None:
        """Ask, and follow where it leads. Raises `FetchTrouble`."""
        self._stack = ExitStack()
        self._answer_by_s = time.monotonic() + HOPS_S
        url = asked.url
        for _ in range(HOPS_MAX):
            response = self._ask(asked, url)
            if response.status not in _REDIRECTS:
                break
            self.close()
            url = _next_url(url, response, asked.rules)
        else:
            raise FetchRefused("redirects", f"The address redirects more than {HOPS_MAX - 1} times.")
        self._response = response
        try:
            self.answer: Answer = answer_read(response, asked_url=asked.url, url=url, offset=asked.offset)
        except FetchTrouble:
            self.close()
            raise
        self._left = self.answer.body_bytes

    def _ask(self, asked: Asked, url: str) -> http.client.HTTPResponse:
        self._target, addresses = _where(asked, url)
        try:
            with told(self._target.host):
                return self._exchange(asked, addresses)
        except BaseException:
            self.close()
            raise

    def _exchange(self, asked: Asked, addresses: Sequence[IPAddress]) -> http.client.HTTPResponse:
        target = self._target
        raw = self._stack.enter_context(connected(addresses, target.port, silent_s=SILENT_S))
        self._cut = self._stack.enter_context(cut_after(raw, min(ANSWER_S, self._answer_by_s - time.monotonic())))
        connection = http.client.HTTPConnection(target.host, target.port)
        self._stack.callback(connection.close)
        with self._in_time():
            connection.sock = secured(raw, target, asked.context)
            connection.request("GET", target.path, headers=_headers(asked, target))
            response = connection.getresponse()
        self._stack.callback(response.close)
        return response

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        """What was cut looks like a broken connection, or like the end: it is neither."""
        try:
            yield
        except (OSError, http.client.HTTPException):
            if not self._cut.was_cut:
                raise
        if self._cut.was_cut:
            raise TimeoutError

    def read(self) -> bytes:
        """The next bytes as they are sent, at most `PIECE_BYTES`; none at the end. Raises `FetchTrouble`."""
        wanted = PIECE_BYTES if self._left is None else min(PIECE_BYTES, self._left)
        if not wanted:
            return b""
        self._cut.renew(SILENT_S)
        with told(self._target.host), self._in_time():
            piece = self._response.read1(wanted)
        self._cut.renew(PAUSE_S)
        if self._left is not None:
            if not piece:
                raise _cut_off(self._target.host)
            self._left -= len(piece)
        return piece

    def close(self) -> None:
        """End the connection."""
        self._stack.close()

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _where(asked: Asked, url: str) -> tuple[Target, list[IPAddress]]:
    """Host by host anew: each is looked up once, and what was found is connected to."""
    try:
        target = url_read(url, asked.rules)
    except AddressRefused as error:
        raise FetchRefused("refused_address", str(error)) from error
    try:
        return target, addresses_for(target, asked.rules, asked.by)
    except AddressRefused as error:
        raise FetchRefused("refused_address", f"{target.host}: {str(error)[0].lower()}{str(error)[1:]}") from error
    except (OSError, UnicodeError) as error:
        hint = "Check how the host is written."
        raise FetchTrouble("no_address", f"There is no address for the host {target.host}.", hint) from error


def _headers(asked: Asked, target: Target) -> dict[str, str]:
    """Nothing that signs anybody in: where an address leads is up to who answers."""
    headers = {
        "Host": urlsplit(target.origin).netloc,
        "User-Agent": f"deep-learning-harness/{release()}",
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        "Connection": "close",
    }
    if asked.offset and asked.validator:
        headers |= {"Range": f"bytes={asked.offset}-", "If-Range": asked.validator}
    return headers


def _next_url(url: str, response: http.client.HTTPResponse, rules: Rules) -> str:
    where = response.headers.get("Location", "")
    try:
        found = urljoin(url, where)
        is_less_safe = urlsplit(url).scheme == "https" and urlsplit(found).scheme == "http"
    except ValueError as error:
        raise FetchRefused("redirects", "The address redirects to something that is not a URL.") from error
    if not where:
        raise FetchRefused("redirects", f"The server answered {response.status} without saying where to go.")
    if is_less_safe:
        hint = "Give that address, if you trust it."
        raise FetchRefused("redirects", f"The address leads from https to {found.partition('?')[0]}.", hint)
    return found


def _cut_off(host: str) -> FetchTrouble:
    return FetchTrouble("cut_off", f"The connection to {host} broke before the whole file arrived.")


@contextmanager
def told(host: str) -> Iterator[None]:
    """Name what broke a connection. Raises `FetchTrouble`."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        message = f"The certificate of {host} is not valid: {error.verify_message}."
        raise FetchRefused("tls", message, "Whoever runs the server has to fix it.") from error
    except ssl.SSLError as error:
        raise FetchTrouble("tls", f"No secure connection to {host}: {error.reason or 'it broke off'}.") from error
    except TimeoutError as error:
        raise FetchTrouble("too_slow", f"{host} did not answer in time.") from error
    except ConnectionRefusedError as error:
        raise FetchTrouble("connection_refused", f"{host} refused the connection.") from error
    except http.client.IncompleteRead as error:
        raise _cut_off(host) from error
    except (OSError, http.client.HTTPException) as error:
        raise FetchTrouble("broken", f"The connection to {host} broke: {_words(error)}.") from error


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[0].lower() + error.strerror[1:]
    return "the answer makes no sense"
