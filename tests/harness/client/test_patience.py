"""Whoever waits for something outlasts a portal that is away."""

from __future__ import annotations

import httpx
import pytest

from harness.client import Client, Unreachable
from harness.client.errors import ApiError, ClientError
from harness.client.patience import AWAY_S, outlasting
from harness.client.transport import _RETRY_WAITS_S
from tests.harness.client.test_live import FULL


class Portal(httpx.BaseTransport):
    """Has read the dataset once it is back; `away` requests find nobody."""

    def __init__(self, away: int) -> None:
        self.away, self.asked = away, 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        if self.asked == 1:
            return httpx.Response(200, json={"state": "profiling", "progress": 0.5})
        if self.away:
            self.away -= 1
            raise httpx.ConnectError("refused", request=request)
        return httpx.Response(200, json={"state": "ready", "progress": 1.0})


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[ClientError]:
    monkeypatch.setattr("harness.client.transport.time.sleep", lambda _: None)
    monkeypatch.setattr("harness.client.patience.AGAIN_S", 0.0)
    return []


def client_of(portal: httpx.BaseTransport, told: list[ClientError]) -> Client:
    client = Client("http://portal.test", away=told.append)
    client.transport.http = httpx.Client(transport=portal, base_url="http://portal.test")
    return client


def test_a_wait_outlasts_a_portal_that_is_away_for_longer_than_a_request_is_repeated(told: list[ClientError]) -> None:
    portal = Portal(away=3 * (len(_RETRY_WAITS_S) + 1))
    assert client_of(portal, told).dataset_wait("d")["state"] == "ready"
    assert portal.away == 0 and len(told) == 1


def test_a_wait_with_a_limit_outlasts_no_portal_beyond_it(told: list[ClientError]) -> None:
    with pytest.raises(Unreachable):
        client_of(Portal(away=10**9), told).dataset_wait("d", timeout_s=0.01)


def test_nobody_is_waited_for_where_nobody_has_ever_answered(told: list[ClientError]) -> None:
    portal = Portal(away=10**9)
    portal.asked = 1
    with pytest.raises(Unreachable):
        client_of(portal, told).dataset_wait("d")
    assert portal.asked == 2 and not told


@pytest.mark.parametrize("error", [Unreachable("nobody listens"), FULL], ids=["away", "its disk is full"])
def test_what_lasts_longer_than_five_minutes_is_an_error(error: ClientError) -> None:
    now_s, told = [0.0], list[ClientError]()

    def ask() -> None:
        raise error

    def sleep(seconds: float) -> None:
        now_s[0] += seconds

    with pytest.raises(type(error)):
        outlasting(ask, told.append, sleep=sleep, clock_s=lambda: now_s[0])
    assert AWAY_S <= now_s[0] < AWAY_S + 10 and told == [error]


def test_what_is_refused_is_told_at_once() -> None:
    def ask() -> None:
        raise ApiError(404, {"message": "There is no such job."})

    with pytest.raises(ApiError):
        outlasting(ask, sleep=lambda _: pytest.fail("it waits for what is not there"))
