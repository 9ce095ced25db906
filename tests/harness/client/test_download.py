"""Downloads that are cut, gone on with, damaged and refused."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from harness.client.download import Damaged, Download
from harness.client.errors import ApiError, Unreachable
from harness.client.transport import Transport

BODY = bytes(range(256)) * 40


class Portal(httpx.BaseTransport):
    """Serves `body` in parts, and cuts each answer after `cut` bytes as often as told."""

    def __init__(self) -> None:
        self.body, self.cut, self.cuts, self.etag = BODY, 0, 0, '"one"'
        self.digest: bytes | None = None
        self.ranges: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        headers = {"ETag": self.etag} if self.etag else {}
        if request.method == "HEAD":
            if request.headers.get("If-Match") != self.etag:
                return httpx.Response(412)
            digest = base64.b64encode(self.digest or hashlib.sha256(self.body).digest()).decode()
            return httpx.Response(200, headers={**headers, "Repr-Digest": f"sha-256=:{digest}:"})
        wanted = request.headers.get("Range", "") if request.headers.get("If-Range") == self.etag else ""
        self.ranges.append(wanted)
        start = int(wanted.removeprefix("bytes=").rstrip("-") or 0)
        if wanted and start >= len(self.body):
            return httpx.Response(416, headers=headers)
        rest = self.body[start:]
        return httpx.Response(
            206 if wanted else 200, headers={**headers, "Content-Length": str(len(rest))}, stream=self.sent(rest)
        )

    def sent(self, rest: bytes) -> httpx.SyncByteStream:
        portal = self

        class Stream(httpx.SyncByteStream):
            def __iter__(self) -> Iterator[bytes]:
                if not portal.cuts:
                    yield rest
                    return
                portal.cuts -= 1
                yield rest[: portal.cut]
                raise httpx.ReadError("cut")

        return Stream()


@pytest.fixture
def portal() -> Portal:
    return Portal()


@pytest.fixture
def fetch(portal: Portal, tmp_path: Path) -> Callable[..., Download]:
    def make(path: str = "/jobs/x/weights") -> Download:
        transport = Transport("http://portal.test")
        transport.http = httpx.Client(transport=portal, base_url=transport.url)
        return Download(transport, path, tmp_path / "x.safetensors", sleep=lambda _: None)

    return make


def left(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_a_cut_download_goes_on_where_it_stopped(fetch: Callable[..., Download], portal: Portal) -> None:
    portal.cut, portal.cuts = 1000, 8  # as often as it gets on
    moves: list[tuple[int, int]] = []
    target = fetch().run(lambda done, total: moves.append((done, total)))
    assert target.read_bytes() == BODY and left(target.parent) == [target.name]
    assert portal.ranges == ["", *(f"bytes={number * 1000}-" for number in range(1, 9))]
    assert moves[-1] == (len(BODY), len(BODY)) and {total for _, total in moves} == {len(BODY)}


def test_the_next_command_goes_on_where_a_killed_one_stopped(
    fetch: Callable[..., Download], portal: Portal, tmp_path: Path
) -> None:
    portal.cut, portal.cuts = 0, 100
    with pytest.raises(Unreachable, match="cut") as caught:
        fetch().run()
    assert "Run the same command again" in caught.value.hint
    portal.cut, portal.cuts = 700, 1

    def kill(done: int, _: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch().run(kill)
    portal.ranges.clear()
    assert fetch().run().read_bytes() == BODY
    assert portal.ranges == ["bytes=700-"] and left(tmp_path) == ["x.safetensors"]


def test_a_file_that_changed_meanwhile_is_fetched_from_its_beginning(
    fetch: Callable[..., Download], portal: Portal
) -> None:
    portal.cut, portal.cuts = 700, 1
    with pytest.raises(KeyboardInterrupt):
        fetch().run(lambda done, _: (_ for _ in ()).throw(KeyboardInterrupt) if done else None)
    portal.body, portal.etag, portal.cuts = BODY[::-1], '"two"', 0
    assert fetch().run().read_bytes() == BODY[::-1]


def test_what_began_at_another_address_is_not_gone_on_with(fetch: Callable[..., Download], portal: Portal) -> None:
    portal.cut, portal.cuts = 700, 1
    with pytest.raises(KeyboardInterrupt):
        fetch().run(lambda done, _: (_ for _ in ()).throw(KeyboardInterrupt) if done else None)
    portal.cuts = 0
    fetch("/jobs/y/weights").run()
    assert portal.ranges == ["", ""]


def test_a_cut_after_the_last_byte_costs_nothing(fetch: Callable[..., Download], portal: Portal) -> None:
    portal.cut, portal.cuts = len(BODY), 1
    assert fetch().run().read_bytes() == BODY


def test_bytes_that_arrive_changed_are_not_kept(fetch: Callable[..., Download], portal: Portal, tmp_path: Path) -> None:
    portal.digest = bytes(32)
    with pytest.raises(Damaged, match="was damaged in transit"):
        fetch().run()
    assert left(tmp_path) == []
    portal.digest = None
    assert fetch().run().read_bytes() == BODY


def test_what_cannot_be_gone_on_with_leaves_nothing(
    fetch: Callable[..., Download], portal: Portal, tmp_path: Path
) -> None:
    portal.etag, portal.cut, portal.cuts = "", 700, 1
    with pytest.raises(Unreachable):
        fetch().run()
    assert left(tmp_path) == []


def test_a_refusal_is_told_and_what_came_before_stays(fetch: Callable[..., Download], portal: Portal) -> None:
    portal.cut, portal.cuts = 700, 1
    with pytest.raises(KeyboardInterrupt):
        fetch().run(lambda done, _: (_ for _ in ()).throw(KeyboardInterrupt) if done else None)
    portal.cuts = 0
    again = fetch()
    serve = portal.handle_request
    portal.handle_request = lambda _: httpx.Response(401, json={"error": {"message": "who?"}})  # type: ignore[method-assign]
    with pytest.raises(ApiError):
        again.run()
    portal.handle_request = serve  # type: ignore[method-assign]
    portal.ranges.clear()
    again.run()
    assert portal.ranges == ["bytes=700-"]
