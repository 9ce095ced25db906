"""How large a request body may be, and how slow."""

from __future__ import annotations

import asyncio
import errno
import json
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import Client

from harness.api.limits import JSON_LIMIT_BYTES, BodyLimit
from tests.harness.api.conftest import API, is_error


def test_a_body_above_its_limit_is_413_unread(caller: Client) -> None:
    answer = caller.post(f"{API}/projects", b" " * (JSON_LIMIT_BYTES + 1), "application/json")
    assert answer.status_code == 413 and is_error(answer)


@pytest.fixture
def everybody_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any token or session is somebody's."""

    async def known(_: Any) -> bool:
        return True

    monkeypatch.setattr("harness.api.limits.is_known", known)


async def body_read(scope: Any, receive: Any, send: Any) -> None:
    """A portal that reads all of a body, and answers 200."""
    while (await receive())["more_body"]:
        pass
    await receive()
    await send({"type": "http.response.start", "status": 200})


def of_one_mib_each(parts: int) -> Any:
    """What a client sends: so many parts of a body, then that it has left."""
    left = [{"type": "http.request", "body": bytes(1 << 20), "more_body": n > 0} for n in range(parts)]
    messages = [{"type": "http.disconnect"}, *left]

    async def receive() -> Any:
        return messages.pop()

    return receive


@pytest.mark.parametrize(
    ("headers", "parts", "status"),
    [
        ([], 1, 200),
        ([], 2, 413),
        ([(b"content-length", b"1048577")], 1, 413),
        ([(b"cookie", b"other=1; csrftoken=2")], 2, 413),
        ([(b"cookie", b"other=1; SESSION=2")], 2, 200),
        ([(b"cookie", b"other=1"), (b"cookie", b"SESSION=2")], 2, 200),
        ([(b"authorization", b"Bearer x")], 2, 200),
        ([(b"authorization", b"bearer x")], 2, 200),
        ([(b"authorization", b"Basic eDp5")], 2, 413),
    ],
)
@pytest.mark.parametrize("path", ["/login", f"{API}/uploads", f"{API}/projects"])
async def test_of_nobody_a_body_has_one_mib_at_most(
    headers: Any, parts: int, status: int, path: str, everybody_known: None
) -> None:
    name = django_settings.SESSION_COOKIE_NAME.encode()
    headers = [(key, value.replace(b"SESSION", name)) for key, value in headers]
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await BodyLimit(body_read)({"type": "http", "path": path, "headers": headers}, of_one_mib_each(parts), send)
    assert sent[0]["status"] == status
    assert status == 200 or b"larger than 1 MiB, and nobody is signed in" in sent[1]["body"]


@pytest.mark.parametrize("path", ["/login", f"{API}/uploads"])
async def test_a_claim_that_is_not_true_is_worth_no_more_than_none(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    async def nobody(scope: Any) -> bool:
        asked.append(scope["headers"])
        return False

    monkeypatch.setattr("harness.api.limits.is_known", nobody)
    headers, statuses = [(b"authorization", b"Bearer made-up")], []
    for parts in (1, 2):
        sent: list[Any] = []

        async def send(message: Any, sent: list[Any] = sent) -> None:
            sent.append(message)

        await BodyLimit(body_read)({"type": "http", "path": path, "headers": headers}, of_one_mib_each(parts), send)
        statuses.append(sent[0]["status"])
    assert statuses == [200, 401] and asked == [headers]
    assert b"is unknown, has expired or was ended" in sent[1]["body"]


async def test_a_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def nothing() -> Any:
        await asyncio.Event().wait()

    async def trickle() -> Any:
        return {"type": "http.request", "body": b"x", "more_body": True}

    monkeypatch.setattr("harness.api.limits.PART_LIMIT_S", 0.0)
    monkeypatch.setattr("harness.api.limits.LEAST_BYTES_PER_S", 1e12)
    for receive in (nothing, trickle):
        sent.clear()
        await BodyLimit(body_read)({"type": "http", "path": f"{API}/projects", "headers": []}, receive, send)
        assert sent[0]["status"] == 408 and json.loads(sent[1]["body"])["error"]["code"] == "too_slow"


async def test_a_body_that_there_is_no_room_for_is_told() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def full(scope: Any, receive: Any, send: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    scope = {"type": "http", "path": f"{API}/projects", "headers": []}
    await BodyLimit(full)(scope, of_one_mib_each(1), send)
    assert sent[0]["status"] == 507 and json.loads(sent[1]["body"])["error"]["code"] == "disk_full"
    with pytest.raises(OSError, match="Input/output"):
        await BodyLimit(broken)(scope, of_one_mib_each(1), send)


async def test_who_waits_for_an_answer_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.api.limits.PART_LIMIT_S", 5.0)
    heard: list[Any] = []

    async def stream(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        monkeypatch.setattr("harness.api.limits.PART_LIMIT_S", 0.0)
        heard.append(await receive())

    messages = of_one_mib_each(1)

    async def receive() -> Any:
        await asyncio.sleep(0)
        return await messages()

    await BodyLimit(stream)({"type": "http", "path": "/live", "headers": []}, receive, lambda _: None)
    assert heard == [{"type": "http.disconnect"}]


@pytest.mark.parametrize(
    ("path", "most_mib"),
    [
        (f"{API}/uploads/abc", 64),
        (f"{API}/projects", 4),
        ("/login", 64),
        ("/jobs/abc/predict/", 33),
        ("/pool/calibration/import/", 68),
        ("/no/such/page/api/v1/uploads", 64),
        ("/api/v1/jobs/api/v1/uploads", 4),
    ],
)
async def test_the_asgi_guard_stops_a_body_without_a_length(path: str, most_mib: int, everybody_known: None) -> None:
    sent: list[Any] = []
    served = 0

    async def receive() -> Any:
        nonlocal served
        served += 1
        assert served < 100, "nobody stops it"
        return {"type": "http.request", "body": bytes(1 << 20), "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"authorization", b"Bearer x")]
    await BodyLimit(body_read)({"type": "http", "path": path, "headers": headers}, receive, send)
    assert sent[0]["status"] == 413 and served == most_mib + 1
    text = sent[1]["body"].decode()
    assert (json.loads(text)["error"]["code"] if path.startswith("/api/") else "too_large") == "too_large"
    assert f"larger than {most_mib} MiB" in text
