"""HTTP with the portal: one place that sends requests and turns answers into values or errors."""

from __future__ import annotations

import math
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from harness.client.errors import ApiError, BadInput, Unreachable

API = "/api/v1"
CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 60.0
_RETRY_WAITS_S = (0.3, 1.0, 2.0, 4.0)
"""Only for requests that change nothing: a portal that restarts is back in seconds."""
_RETRY_STATUS = frozenset({502, 503, 504})


def segment(text: str) -> str:
    """A name as one part of a path, whatever letters it has. Raises `ApiError` 404 for what would be several."""
    if "/" in text or text in (".", ".."):
        told = f"{text!r} is no id or name: it reads as a path."
        raise ApiError(404, {"code": "not_found", "message": told, "hint": "Give it as the lists print it."})
    return quote(text, safe="") or "-"


class Transport:
    """Sends requests below `<url>/api/v1`. Raises `ApiError`, `Unreachable`."""

    def __init__(self, url: str, token: str = "", *, timeout_s: float = READ_TIMEOUT_S) -> None:
        if not _is_address(url):
            raise BadInput(f"{url!r} is not the address of a portal.", hint="Write it like http://127.0.0.1:8000.")
        if not token.isascii() or not token.isprintable() or " " in token:
            raise BadInput(
                "This is not a valid token: it contains spaces or other characters that no token has.",
                hint="Copy it again.",
            )
        self.url = url.rstrip("/")
        self.has_answered = False
        headers = {"Accept": "application/json", "User-Agent": "dlh-client"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        # To read all authorities of the machine takes longer than most answers; plain HTTP, never sent on, needs none.
        verify: ssl.SSLContext | bool = True
        if self.url.startswith("http:"):
            verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        timeout = httpx.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S)
        try:
            self.http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout, verify=verify)
        except (ImportError, ValueError, httpx.InvalidURL) as error:
            raise BadInput(
                f"The proxy that the environment names cannot be used: {str(error).partition('. ')[0].rstrip('.')}.",
                hint="Correct HTTP_PROXY, HTTPS_PROXY, ALL_PROXY or NO_PROXY, or unset them.",
            ) from error

    def close(self) -> None:
        """Close the connections."""
        self.http.close()

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One request; GETs are tried again while the portal restarts.

        Where nobody has listened yet, nobody restarts: a wrong address is told at once.
        """
        if name := _not_finite(options.get("json")):
            raise BadInput(f"{name} must be a finite number.", hint="Correct it and try again.", field=name)
        waits = (*_RETRY_WAITS_S, None) if method in {"GET", "HEAD"} else (None,)
        for wait_s in waits:
            try:
                response = self.http.request(method, API + path, **options)
            except httpx.InvalidURL as error:
                raise BadInput(f"This cannot be asked for: {error}.", hint="Shorten it.") from error
            except httpx.HTTPError as error:
                is_wrong = isinstance(error, httpx.ConnectError) and not self.has_answered
                if wait_s is None or is_wrong:
                    raise self._unreachable(error) from error
                time.sleep(wait_s)
                continue
            self.has_answered = True
            if response.status_code in _RETRY_STATUS and wait_s is not None and not _is_ours(response):
                time.sleep(wait_s)
                continue
            return self.checked(response)
        raise AssertionError("the last try answers or raises")

    def json(self, method: str, path: str, **options: Any) -> Any:
        """One request, its answer read as JSON."""
        response = self.request(method, path, **options)
        try:
            return response.json()
        except ValueError as error:
            raise self._no_portal(response) from error

    def checked(self, response: httpx.Response) -> httpx.Response:
        """The response, or the error that it tells."""
        if response.is_success:
            return response
        if response.is_redirect:
            raise self._no_portal(response)
        try:
            body = response.json()["error"]
            if not isinstance(body, dict):
                raise TypeError
        except (ValueError, KeyError, TypeError) as error:
            if response.status_code in _RETRY_STATUS:
                raise self._away(response) from error
            if response.status_code >= 500 or response.status_code in {404, 405}:
                raise self._no_portal(response) from error
            body = {"message": f"The portal answered {response.status_code}."}
        raise ApiError(response.status_code, body)

    @contextmanager
    def stream(self, path: str, *, root: str = API, **options: Any) -> Iterator[httpx.Response]:
        """An open GET whose body is read as it arrives."""
        try:
            with self.http.stream("GET", root + path, **options) as response:
                if not response.is_success:
                    response.read()
                yield self.checked(response)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: httpx.HTTPError) -> Unreachable:
        return Unreachable(
            f"The portal at {self.url} does not answer: {error or type(error).__name__}.",
            hint="Is it running? Check the address, `dlh login URL --token TOKEN` sets it.",
        )

    def _away(self, response: httpx.Response) -> Unreachable:
        """What a proxy before the portal says of it: a change that it was sent may have been made."""
        may_be_done = response.request.method not in {"GET", "HEAD"}
        look = " Look before you send it again: the portal may have done it." if may_be_done else ""
        return Unreachable(
            f"The portal at {self.url} does not answer: a proxy before it says {response.status_code}.",
            hint=f"It may be restarting; try again in a minute.{look}",
        )

    def _no_portal(self, response: httpx.Response) -> Unreachable:
        return Unreachable(
            f"The server at {self.url} is not a portal of the harness (status {response.status_code}).",
            hint="Check the address.",
        )


def _not_finite(value: Any, name: str = "The value") -> str:
    """Name of a number of a body that JSON has no word for, such as nan; empty where there is none."""
    if isinstance(value, float) and not math.isfinite(value):
        return name
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return next((found for key, item in inside if (found := _not_finite(item, str(key)))), "")


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        httpx.URL(url)
        (parts.hostname or "").encode("idna")  # which nobody does before a connection
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except (ValueError, httpx.InvalidURL):
        return False


Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all; 0 if not known)."""


def _is_ours(response: httpx.Response) -> bool:
    try:
        return isinstance(response.json().get("error"), dict)
    except (ValueError, AttributeError):
        return False
