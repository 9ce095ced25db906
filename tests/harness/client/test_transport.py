"""Requests to a portal that goes away and comes back."""

from __future__ import annotations

import ssl

import httpx
import pytest

from harness.client import Unreachable
from harness.client.errors import BadInput
from harness.client.transport import _RETRY_WAITS_S, Transport


class Portal(httpx.BaseTransport):
    """Answers, but for `away` requests when told so."""

    def __init__(self) -> None:
        self.away = self.asked = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        if self.away:
            self.away -= 1
            raise httpx.ConnectError("refused", request=request)
        return httpx.Response(200, json={"state": "running"})


@pytest.fixture
def portal() -> Portal:
    return Portal()


@pytest.fixture
def transport(portal: Portal, monkeypatch: pytest.MonkeyPatch) -> Transport:
    monkeypatch.setattr("harness.client.transport.time.sleep", lambda _: None)
    made = Transport("http://portal.test")
    made.http = httpx.Client(transport=portal, base_url=made.url)
    return made


def test_a_portal_that_restarts_is_asked_again(transport: Transport, portal: Portal) -> None:
    transport.request("GET", "/me")
    portal.away = len(_RETRY_WAITS_S)
    assert transport.json("GET", "/jobs/x") == {"state": "running"}


def test_one_that_does_not_come_back_is_told(transport: Transport, portal: Portal) -> None:
    transport.request("GET", "/me")
    portal.away = len(_RETRY_WAITS_S) + 1
    with pytest.raises(Unreachable):
        transport.request("GET", "/jobs/x")
    assert portal.away == 0


def test_what_changes_something_is_sent_once(transport: Transport, portal: Portal) -> None:
    transport.request("GET", "/me")
    portal.away = 1
    with pytest.raises(Unreachable):
        transport.request("POST", "/jobs")
    assert portal.asked == 2


def test_an_address_where_nobody_ever_listened_is_told_at_once(transport: Transport, portal: Portal) -> None:
    portal.away = 1
    with pytest.raises(Unreachable):
        transport.request("GET", "/me")
    assert portal.asked == 1


@pytest.mark.parametrize(
    "url",
    [
        "",
        "portal",
        "ftp://portal",
        "http://",
        "http://[::1",
        "http://portal:99999",
        "http://a\0b",
        "http://portal..test",
    ],
)
def test_what_is_no_address_is_told_as_such(url: str) -> None:
    with pytest.raises(BadInput, match="not the address of a portal"):
        Transport(url)


@pytest.mark.parametrize(
    ("name", "value"), [("ALL_PROXY", "socks5://127.0.0.1:1080"), ("HTTP_PROXY", "x://y"), ("NO_PROXY", "[::1]")]
)
def test_a_proxy_that_cannot_be_used_is_told(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(BadInput, match="The proxy that the environment names cannot be used") as told:
        Transport("http://portal.test")
    assert name in told.value.hint


def test_what_is_too_long_for_an_address_is_told(transport: Transport) -> None:
    with pytest.raises(BadInput, match="too long"):
        transport.request("GET", "/jobs", params={"query": "x" * 70_000})


def test_authorities_are_read_where_the_portal_speaks_tls_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    default = ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda **given: read.append("all") or default(**given))
    Transport("http://portal.test").close()
    assert read == []
    Transport("https://portal.test").close()
    assert read == ["all"]


@pytest.mark.parametrize(("method", "look"), [("GET", False), ("POST", True), ("DELETE", True)])
@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_proxy_whose_portal_is_away_is_not_taken_for_another_server(
    transport: Transport, portal: Portal, monkeypatch: pytest.MonkeyPatch, method: str, status: int, look: bool
) -> None:
    def proxy(request: httpx.Request) -> httpx.Response:
        return httpx.Response(status, html="<h1>Bad Gateway</h1>", request=request)

    monkeypatch.setattr(portal, "handle_request", proxy)
    with pytest.raises(Unreachable, match=f"does not answer: a proxy before it says {status}") as told:
        transport.request(method, "/jobs")
    assert ("may have done it" in told.value.hint) == look and "not a portal" not in told.value.message
