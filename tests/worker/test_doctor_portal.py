"""What the doctor says of a portal and a broker that answer in part, slowly, or not at all."""

from __future__ import annotations

import http.server
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import redis

from worker.doctor import broker, portal
from worker.doctor.findings import Finding, State

Answer = Callable[[http.server.BaseHTTPRequestHandler], None]
HEALTH = {"version": "1", "time_s": 0.0, "database": True, "broker": True}
PEERS = {"peers": [{"name": "node-2"}]}


def says(status: int, body: bytes) -> Answer:
    """Answers so."""

    def answer(asked: http.server.BaseHTTPRequestHandler) -> None:
        asked.send_response(status)
        asked.send_header("Content-Length", str(len(body)))
        asked.end_headers()
        asked.wfile.write(body)

    return answer


def moved(place: str, asked_of: list[str]) -> Answer:
    """Sends elsewhere; `asked_of`: who asked, by what they show."""

    def answer(asked: http.server.BaseHTTPRequestHandler) -> None:
        asked_of.append(str(asked.headers["Authorization"]))
        asked.send_response(308)
        if place:
            asked.send_header("Location", f"{place}{asked.path}")
        asked.send_header("Content-Length", "0")
        asked.end_headers()

    return answer


def error_of(code: str) -> bytes:
    """The portal's own words of an error."""
    return json.dumps({"error": {"code": code, "message": "no"}}).encode()


def drips(asked: http.server.BaseHTTPRequestHandler) -> None:
    """Promises all and gives 64 KiB every tenth of a second."""
    asked.send_response(200)
    asked.send_header("Content-Length", str(portal.MEASURED_BYTES))
    asked.end_headers()
    with suppress(OSError):
        while True:
            asked.wfile.write(bytes(64 << 10))
            time.sleep(0.1)


def hangs(asked: http.server.BaseHTTPRequestHandler) -> None:
    """Begins and says no more."""
    asked.send_response(200)
    asked.send_header("Content-Length", str(portal.MEASURED_BYTES))
    asked.end_headers()
    asked.wfile.flush()
    time.sleep(2.0)


def closes(asked: http.server.BaseHTTPRequestHandler) -> None:
    """Gives a part of what it promised, and hangs up in peace."""
    asked.send_response(200)
    asked.send_header("Content-Length", str(portal.MEASURED_BYTES))
    asked.end_headers()
    asked.wfile.write(bytes(1 << 20))


def cuts(asked: http.server.BaseHTTPRequestHandler) -> None:
    """Hangs up within a chunk."""
    asked.send_response(200)
    asked.send_header("Transfer-Encoding", "chunked")
    asked.end_headers()
    asked.wfile.write(b"100000\r\n" + bytes(1 << 10))


def mumbles(asked: http.server.BaseHTTPRequestHandler) -> None:
    """Says what is no HTTP."""
    asked.wfile.write(b"220 ready\r\n")


def refuses_and_hangs(asked: http.server.BaseHTTPRequestHandler) -> None:
    """Refuses, and does not say why."""
    asked.send_response(401)
    asked.send_header("Content-Length", "100")
    asked.end_headers()
    asked.wfile.flush()
    time.sleep(2.0)


@pytest.fixture
def server() -> Iterator[Any]:
    """A portal; `.node` and `.probe` answer the node's own question and the measurement of the line."""

    class Portal(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.endswith("/health"):
                (made.health or says(200, json.dumps({**HEALTH, "time_s": time.time()}).encode()))(self)
            else:
                (made.probe if "/probe" in self.path else made.node)(self)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            made.back(self)

        def log_message(self, *_: object) -> None:
            pass

    made: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Portal)
    made.url = f"http://127.0.0.1:{made.server_address[1]}"
    made.node, made.probe = says(200, json.dumps(PEERS).encode()), says(200, bytes(portal.MEASURED_BYTES))
    made.health = None
    made.back = says(200, b"{}")
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def looked(server: Any) -> tuple[dict[str, Finding], list[dict[str, Any]]]:
    told = portal.portal(server.url, "dlhn_x")
    return {line.name: line for line in told.findings}, told.peers


def test_a_line_that_breaks_off_while_it_is_timed_is_no_portal_that_does_not_know_the_node(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(portal._open.__kwdefaults__, "timeout_s", 0.3)
    server.probe = hangs
    found, peers = looked(server)
    assert "credentials" not in found and peers == PEERS["peers"], "it knows it, and told of the others"
    assert found["bandwidth"].state is State.WARN and "broke off" in found["bandwidth"].text
    assert found["bandwidth back"].state is State.OK


@pytest.mark.parametrize("place", ["http://{}", ""], ids=["named", "nameless"])
def test_an_address_that_sends_elsewhere_is_not_the_portals_and_no_secret_goes_there(server: Any, place: str) -> None:
    shown: list[str] = []
    server.health = server.node = moved(place.format(server.url.removeprefix("http://") + "/there"), shown)
    line = looked(server)[0]["portal"]
    assert line.state is State.BAD and "what answers for the portal says 308 and names " in line.text
    assert ("/there." in line.step) is bool(place) and "address at which the portal itself answers" in line.step
    server.health = None
    line = looked(server)[0]["credentials"]
    assert line.state is State.BAD and "cannot be tried: what answers for the portal says 308" in line.text
    assert len(shown) == 2, "nobody went there"


def test_a_download_that_is_closed_early_is_no_slow_line(server: Any) -> None:
    server.probe = closes
    line = looked(server)[0]["bandwidth"]
    assert line.state is State.WARN and "broke off after 1 MiB from the portal: the connection was closed" in line.text
    assert "faster link" not in line.step


@pytest.mark.parametrize("answer", [cuts, mumbles])
def test_an_answer_that_is_none_of_http_keeps_no_other_line_from_the_report(server: Any, answer: Answer) -> None:
    server.probe = server.back = answer
    found, peers = looked(server)
    assert found["portal"].state is State.OK and peers == PEERS["peers"]
    assert found["bandwidth"].state is State.WARN and "broke off" in found["bandwidth"].text
    assert found["bandwidth back"].state is State.SKIP
    server.node = answer
    found, _ = looked(server)
    assert found["portal"].state is State.OK and "cannot be tried" in found["credentials"].text


def test_a_refusal_whose_words_do_not_come_is_not_taken_for_one_of_the_portal(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(portal._open.__kwdefaults__, "timeout_s", 0.3)
    server.node = refuses_and_hangs
    line = looked(server)[0]["credentials"]
    assert line.state is State.BAD and "cannot be tried" in line.text


def test_a_slow_line_is_timed_by_what_comes_and_keeps_the_report_from_nothing(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portal, "MEASURED_S", 0.5)
    server.probe = drips
    began_s = time.monotonic()
    found, _ = looked(server)
    assert time.monotonic() - began_s < 10.0, "all of it would take a minute"
    assert found["bandwidth"].state is State.WARN and "KiB/s from the portal" in found["bandwidth"].text


@pytest.mark.parametrize(
    ("answer", "is_unknown"),
    [
        (says(401, error_of("unauthenticated")), True),
        (says(401, b"<html>Sign in to the proxy</html>"), False),
        (says(503, error_of("database_away")), False),
        (says(200, b"<html>Maintenance</html>"), False),
    ],
    ids=["portal", "proxy", "away", "maintenance"],
)
def test_only_the_portal_itself_says_that_it_does_not_know_a_node(
    server: Any, answer: Answer, is_unknown: bool
) -> None:
    server.node = answer
    line = looked(server)[0]["credentials"]
    assert line.state is State.BAD
    assert ("does not know this node" in line.meaning and "Join again" in line.step) is is_unknown
    assert is_unknown or "cannot be tried" in line.text


def test_a_broker_that_nobody_reaches_has_refused_no_login() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        (line,) = broker.broker(f"redis://127.0.0.1:{free.getsockname()[1]}/0")
    assert line.state is State.BAD and "does not answer" in line.text and "firewalls" in line.step


def test_a_broker_that_refuses_the_login_is_not_looked_for_behind_a_firewall(broker_url: str) -> None:
    place = redis.connection.parse_url(broker_url)
    (line,) = broker.broker(f"redis://node-gone:wrong@{place['host']}:{place['port']}/0")
    assert line.state is State.BAD and "refuses our login" in line.text
    assert "dlh pool add" in line.step and "firewall" not in line.step
    assert line.step.index("within seconds after the broker was restarted") < line.step.index("joins again")
