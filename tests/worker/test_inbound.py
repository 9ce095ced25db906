"""Whether others get to this machine: the doctor listens, the portal tries, and what comes of it is put in words."""

from __future__ import annotations

import http.client
import io
import json
import re
import socket
import threading
import urllib.error
from typing import Any

import pytest

from worker import reach
from worker.doctor import inbound, portal
from worker.doctor.findings import Finding, State

OWN, WORD = "192.0.2.4", "0123456789abcdef" * 2


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict]:
    """What the portal is asked, by a machine that listens on the loopback address in place of its own."""
    bodies: list[dict] = []
    listening = inbound.listening
    monkeypatch.setattr(inbound, "listening", lambda _, word: listening("127.0.0.1", word))

    def post(url: str, secret: str, body: dict) -> dict:
        bodies.append(body)
        heard = [port for port in body["ports"] if reach.says("127.0.0.1", port, body["word"], 2.0)]
        return {"open": heard, "not_tried": ""}

    monkeypatch.setattr(inbound, "post", post)
    return bodies


def look(*, able: bool = False) -> Finding:
    return inbound.inbound(OWN, "http://portal", "dlhn_x", able=able)


def test_the_doctor_listens_on_ports_of_ranks_while_the_portal_tries_and_no_longer(asked: list[dict]) -> None:
    found = look()
    (body,) = asked
    assert found.state is State.OK and OWN in found.text
    assert body["address"] == OWN and re.fullmatch("[0-9a-f]{32}", body["word"])
    assert len(body["ports"]) == inbound.PORTS_TRIED
    assert all(port in reach.RANK_PORTS for port in body["ports"])
    assert not any(reach.says("127.0.0.1", port, body["word"], 1.0) for port in body["ports"])


@pytest.mark.parametrize("able", [False, True])
def test_a_port_that_the_portal_does_not_get_to_is_named_with_what_to_do(
    asked: list[dict], monkeypatch: pytest.MonkeyPatch, able: bool
) -> None:
    monkeypatch.setattr(inbound, "post", lambda _url, _secret, body: {"open": body["ports"][1:], "not_tried": ""})
    found = look(able=able)
    assert found.state is State.WARN
    assert "does not get to ports" in found.text and "firewall" in found.step and "hang" in found.meaning


def test_what_the_portal_did_not_try_is_told_with_its_reason_and_another_way(
    asked: list[dict], monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "The portal sees this machine at 10.0.0.9, not at 192.0.2.4."
    monkeypatch.setattr(inbound, "post", lambda *_: {"open": [], "not_tried": reason})
    found = look()
    assert found.state is State.SKIP
    assert f"not tried: {reason}" in found.text and "dlh doctor" in found.text


@pytest.mark.parametrize(
    ("status", "words"),
    [(404, "older release"), (405, "older release"), (429, "in this minute"), (503, "answers 503")],
)
def test_a_portal_that_refuses_is_no_firewall(
    asked: list[dict], monkeypatch: pytest.MonkeyPatch, status: int, words: str
) -> None:
    def refuse(*_: object) -> dict:
        raise urllib.error.HTTPError("http://portal", status, "no", {}, io.BytesIO())  # type: ignore[arg-type]

    monkeypatch.setattr(inbound, "post", refuse)
    found = look()
    assert found.state is State.SKIP and words in found.text


@pytest.mark.parametrize(
    ("own", "url", "secret"),
    [(OWN, "", ""), (OWN, "http://p", ""), ("", "http://p", "s"), ("127.0.0.1", "http://p", "s")],
)
def test_nothing_is_asked_where_there_is_nobody_to_ask_or_no_way_to_here(
    asked: list[dict], own: str, url: str, secret: str
) -> None:
    assert inbound.inbound(own, url, secret, able=False).state is State.SKIP
    assert asked == []


def test_a_port_says_a_word_or_something_else_or_nothing() -> None:
    def serve(said: bytes) -> int:
        server = socket.create_server(("127.0.0.1", 0))

        def answer() -> None:
            connection, _ = server.accept()
            with server, connection:
                connection.sendall(said)
                if not said:
                    connection.recv(1)

        threading.Thread(target=answer, daemon=True).start()
        return int(server.getsockname()[1])

    assert reach.says("127.0.0.1", serve(WORD.encode()), WORD, 2.0)
    assert reach.says("127.0.0.1", serve(WORD.encode() + b"more"), WORD, 2.0)
    assert not reach.says("127.0.0.1", serve(b"SSH-2.0-OpenSSH"), WORD, 2.0)
    assert not reach.says("127.0.0.1", serve(WORD[:-1].encode()), WORD, 2.0)
    assert not reach.says("127.0.0.1", serve(b""), WORD, 0.2)
    assert not reach.says("127.0.0.1", 1, WORD, 0.2)


def test_the_portal_is_posted_json_as_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []

    def urlopen(request, timeout: float) -> io.BytesIO:
        sent.append(request)
        return io.BytesIO(b'{"open": []}')

    monkeypatch.setattr(portal._DIRECT, "open", urlopen)
    assert portal.post("http://portal/x", "dlhn_x", {"ports": [1]}) == {"open": []}
    (request,) = sent
    assert request.get_method() == "POST" and json.loads(request.data) == {"ports": [1]}
    assert request.get_header("Authorization") == "Bearer dlhn_x"
    assert request.get_header("Content-type") == "application/json"


@pytest.mark.parametrize(("rate", "state"), [(200e6, State.OK), (1e6, State.WARN)])
def test_the_line_to_the_portal_is_timed_as_well(monkeypatch: pytest.MonkeyPatch, rate: float, state: State) -> None:
    now_s = iter((0.0, portal.MEASURED_BACK_BYTES / rate))
    monkeypatch.setattr(portal.time, "perf_counter", lambda: next(now_s))
    monkeypatch.setattr(portal._DIRECT, "open", lambda request, timeout: io.BytesIO(b"{}"))
    found = portal.bandwidth_back("http://portal", "dlhn_x")
    assert found.state is state and "to the portal" in found.text


@pytest.mark.parametrize(
    ("error", "small_pass", "state"),
    [
        (urllib.error.URLError(ConnectionResetError(104, "Connection reset by peer")), True, State.WARN),
        (http.client.RemoteDisconnected("Remote end closed connection without response"), True, State.WARN),
        (urllib.error.URLError(ConnectionResetError(104, "Connection reset by peer")), False, State.SKIP),
        (urllib.error.URLError(TimeoutError("timed out")), True, State.SKIP),
    ],
)
def test_what_cuts_off_large_requests_to_the_portal_is_told_with_what_to_set(
    monkeypatch: pytest.MonkeyPatch, error: Exception, small_pass: bool, state: State
) -> None:
    def urlopen(request: Any, timeout: float) -> io.BytesIO:
        if len(request.data) > 1024 or not small_pass:
            raise error
        return io.BytesIO(b"{}")

    monkeypatch.setattr(portal._DIRECT, "open", urlopen)
    found = portal.bandwidth_back("http://portal", "dlhn_x")
    assert found.state is state
    assert ("requests of 8 MiB are cut off" in found.text and "client_max_body_size" in found.step) is (
        state is State.WARN
    )


@pytest.mark.parametrize(
    ("body", "state"), [(b"<html>", State.WARN), (b'{"error": {"code": "too_large"}}', State.SKIP)]
)
def test_a_proxy_that_refuses_large_requests_is_not_the_portal(
    monkeypatch: pytest.MonkeyPatch, body: bytes, state: State
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise urllib.error.HTTPError("http://portal", 413, "no", {}, io.BytesIO(body))  # type: ignore[arg-type]

    monkeypatch.setattr(portal._DIRECT, "open", refuse)
    assert portal.bandwidth_back("http://portal", "dlhn_x").state is state


def test_a_portal_that_takes_no_bytes_to_time_is_an_older_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise urllib.error.HTTPError("http://portal", 405, "no", {}, io.BytesIO())  # type: ignore[arg-type]

    monkeypatch.setattr(portal._DIRECT, "open", refuse)
    found = portal.bandwidth_back("http://portal", "dlhn_x")
    assert found.state is State.SKIP and "not measured" in found.text
