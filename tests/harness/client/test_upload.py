"""Uploads that are cut, retried, resumed and refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from harness.client import ApiError, Client, Unreachable
from harness.client import upload as upload_module
from harness.client.errors import BadInput
from harness.client.upload import Upload, UploadMemory
from tests.harness.client.conftest import Dlh


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of several pieces."""
    monkeypatch.setattr(upload_module, "CHUNK_BYTES", 1000)
    path = tmp_path / "numbers.csv"
    path.write_text("a,b\n" + "".join(f"{row},{row * row}\n" for row in range(600)))
    return path


class Counting(httpx.BaseTransport):
    """Counts PATCHes and lets chosen ones fail, before or after the portal has seen them."""

    def __init__(
        self, inner: httpx.BaseTransport, before: set[int] | None = None, after: set[int] | None = None
    ) -> None:
        self.inner, self.before, self.after, self.patches = inner, before or set(), after or set(), 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method != "PATCH":
            return self.inner.handle_request(request)
        self.patches += 1
        if self.patches in self.before:
            raise httpx.ConnectError("cut before", request=request)
        response = self.inner.handle_request(request)
        if self.patches in self.after:
            response.read()
            raise httpx.ReadError("cut after", request=request)
        return response


def counted(client: Client, **failing: set[int]) -> Counting:
    transport = Counting(httpx.HTTPTransport(), **failing)
    http = client.transport.http
    client.transport.http = httpx.Client(transport=transport, base_url=http.base_url, headers=http.headers)
    return transport


def stored(dataset_id: str) -> bytes:
    from harness.datasets.content import content_source
    from harness.datasets.models import Dataset

    return content_source(Dataset.objects.get(pk=dataset_id).sha256).read_bytes()


def sender(client: Client, file: Path) -> Upload:
    return Upload(client.transport, file, {"project": client.project}, sleep=lambda _: None)


def test_a_file_goes_over_in_pieces_and_progress_never_falls(client: Client, file: Path) -> None:
    transport = counted(client)
    seen: list[tuple[int, int]] = []
    dataset_id = sender(client, file).run(lambda done, total: seen.append((done, total)))
    assert stored(dataset_id) == file.read_bytes()
    size = file.stat().st_size
    assert transport.patches == -(-size // 1000)
    assert seen == sorted(seen) and seen[-1] == (size, size)


def test_cuts_before_and_after_the_portal_saw_a_piece_are_survived(client: Client, file: Path) -> None:
    counted(client, before={2}, after={3, 5})
    assert stored(sender(client, file).run()) == file.read_bytes()


def test_the_last_answer_may_be_lost(client: Client, file: Path) -> None:
    pieces = -(-file.stat().st_size // 1000)
    counted(client, after={pieces})
    assert stored(sender(client, file).run()) == file.read_bytes()


def test_a_new_process_goes_on_where_the_old_one_was_cut(client: Client, file: Path) -> None:
    counted(client, before=set(range(4, 100)))
    with pytest.raises(Unreachable):
        sender(client, file).run()
    assert len(UploadMemory().read()) == 1
    transport = counted(client)
    assert stored(sender(client, file).run()) == file.read_bytes()
    assert transport.patches == -(-file.stat().st_size // 1000) - 3
    assert UploadMemory().read() == {}


def test_a_home_that_is_read_only_stops_no_upload(client: Client, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/proc/none")
    assert stored(sender(client, file).run()) == file.read_bytes()


def test_a_changed_file_is_not_mixed_with_what_was_sent_of_the_old_one(client: Client, file: Path) -> None:
    counted(client, before=set(range(4, 100)))
    with pytest.raises(Unreachable):
        sender(client, file).run()
    file.write_text(file.read_text().replace("a,b", "c,d"))
    counted(client)
    assert stored(sender(client, file).run()) == file.read_bytes()


def test_an_upload_that_expired_meanwhile_begins_again(client: Client, file: Path) -> None:
    from harness.datasets.models import Upload as Row
    from harness.datasets.uploads import upload_delete

    counted(client, before=set(range(4, 100)))
    with pytest.raises(Unreachable):
        sender(client, file).run()
    upload_delete(upload=Row.objects.get())
    counted(client)
    assert stored(sender(client, file).run()) == file.read_bytes()


def test_a_piece_that_was_damaged_on_the_way_is_sent_again(client: Client, file: Path, monkeypatch: Any) -> None:
    transport = counted(client)
    damaged = transport.inner.handle_request

    def damage(request: httpx.Request) -> httpx.Response:
        if request.method == "PATCH" and transport.patches == 2:
            body = request.read()
            request = httpx.Request("PATCH", request.url, headers=request.headers, content=body[:-1] + b"#")
        return damaged(request)

    monkeypatch.setattr(transport.inner, "handle_request", damage)
    assert stored(sender(client, file).run()) == file.read_bytes()
    assert transport.patches == -(-file.stat().st_size // 1000) + 1


def test_a_piece_that_came_too_slowly_is_sent_again(client: Client, file: Path, monkeypatch: Any) -> None:
    transport = counted(client)
    answer = transport.inner.handle_request
    slow: list[httpx.Request] = []

    def stalling(request: httpx.Request) -> httpx.Response:
        if request.method == "PATCH" and transport.patches == 2 and not slow:
            slow.append(request)
            told = {"code": "too_slow", "message": "The request body came too slowly.", "hint": ""}
            return httpx.Response(408, json={"error": told}, request=request)
        return answer(request)

    monkeypatch.setattr(transport.inner, "handle_request", stalling)
    assert stored(sender(client, file).run()) == file.read_bytes() and slow


def test_a_file_that_shrinks_meanwhile_is_told_of(client: Client, file: Path) -> None:
    upload = sender(client, file)
    file.write_bytes(file.read_bytes()[:1500])
    with pytest.raises(BadInput, match="became shorter"):
        upload.run()


@pytest.mark.parametrize("more", ["", "1,1\n"])
def test_a_file_that_is_written_anew_or_grows_while_it_is_sent_is_not_taken_half_and_half(
    client: Client, file: Path, more: str
) -> None:
    from harness.datasets.models import Dataset

    def written(done: int, total: int) -> None:
        if done == 2000:
            file.write_text(file.read_text().replace("a,b", "c,d") + more)

    with pytest.raises(BadInput, match="changed while it was being sent"):
        sender(client, file).run(written)
    assert not Dataset.objects.exists()
    assert stored(sender(client, file).run()) == file.read_bytes()


def test_a_portal_that_restarts_behind_a_proxy_is_waited_for(client: Client, file: Path, monkeypatch: Any) -> None:
    transport = counted(client, before={2})
    answer = transport.inner.handle_request
    heads: list[httpx.Request] = []

    def restarting(request: httpx.Request) -> httpx.Response:
        if request.method == "HEAD" and not heads:
            heads.append(request)
            return httpx.Response(502, request=request)
        return answer(request)

    monkeypatch.setattr(transport.inner, "handle_request", restarting)
    assert stored(sender(client, file).run()) == file.read_bytes()
    assert heads


def test_a_refusal_is_not_tried_again(portal: SimpleNamespace, file: Path) -> None:
    reader = Client(portal.url, portal.token_of("viewer"), project=portal.project)
    with pytest.raises(ApiError) as refused:
        sender(reader, file).run()
    assert refused.value.status == 403


@pytest.mark.parametrize("make", [lambda path: path / "none.csv", lambda path: path, lambda path: empty(path)])
def test_what_is_no_file_with_bytes_is_bad_input(client: Client, tmp_path: Path, make: Any) -> None:
    with pytest.raises(BadInput):
        sender(client, make(tmp_path))


def empty(folder: Path) -> Path:
    path = folder / "empty.csv"
    path.touch()
    return path


def test_unfinished_uploads_are_listed_and_given_up(dlh: Dlh, client: Client, file: Path) -> None:
    counted(client, before={2, 3, 4, 5, 6, 7, 8})
    with pytest.raises(Unreachable):
        Upload(
            client.transport, file, {}, memory=UploadMemory(file.with_name("memory.json")), sleep=lambda _: None
        ).run()
    (kept,) = dlh("data", "uploads", "--json").json
    assert (kept["filename"], kept["offset_bytes"]) == ("numbers.csv", 1000)
    assert kept["id"] in dlh("data", "uploads").out
    assert dlh("data", "uploads", "--give-up", kept["id"], "--json").json == []
    assert dlh("data", "uploads", "--give-up", kept["id"], "--json").code == 3


def test_a_file_that_is_there_is_used_however_it_is_read_by_now(dlh: Dlh, portal: SimpleNamespace, file: Path) -> None:
    add = ("data", "add", file, "--no-wait")
    first = dlh(*add, "--target", "b", "--json").json
    told = dlh(*add)
    assert f"already, as {first['name']} ({first['id']})" in told.err and "--fresh" in told.err
    for options in ((), ("--target", "b")):
        again = dlh(*add, *options, "--json").json
        assert (again["id"], again["uploaded"]) == (first["id"], False)
    as_it_is = dlh(*add, "--fresh", "--json").json
    assert as_it_is["name"] == f"{first['name']} (2)"
    assert f"{as_it_is['name']} ({as_it_is['id']})" in " ".join(dlh(*add, "--fresh").out.split())
    as_it_is = dlh(*add, "--fresh", "--json").json
    assert as_it_is["uploaded"] and dlh(*add, "--json").json["id"] == as_it_is["id"]


def test_a_second_dataset_of_a_name_is_told_with_the_id_of_the_first(
    dlh: Dlh, portal: SimpleNamespace, file: Path
) -> None:
    first = dlh("data", "add", file, "--no-wait", "--target", "b", "--json").json
    file.write_text("a,b\n" + "1,2\n" * 9)
    other = dlh("data", "add", file, "--no-wait", "--target", "a")
    assert other.code == 0 and f"is the name of {first['id']}, too" in other.err
    named = dlh("data", "add", file, "--no-wait", "--name", "squares")
    assert named.code == 0 and "too" not in named.err
