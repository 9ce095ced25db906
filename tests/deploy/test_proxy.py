"""The example of a proxy, run for real before a small upstream: TLS, HTTP/2, live streams at once, honest addresses."""

import http.client
import http.server
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from harness.stack.commands import portal_command
from tests.deploy.conftest import DEPLOY

CADDYFILE = DEPLOY / "proxy" / "Caddyfile"
WAIT_S = 60.0


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Upstream(http.server.BaseHTTPRequestHandler):
    """Streams one event, and the second only when told to; else says what headers came."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        if self.path == "/stream":
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(b"data: first\n\n")
            assert self.server.go_on.wait(WAIT_S)
            self.wfile.write(b"data: second\n\n")
            self.close_connection = True
            return
        body = f"{self.headers['X-Forwarded-For']} {self.headers['X-Forwarded-Proto']}".encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        left = int(self.headers["Content-Length"])
        while left and (chunk := self.rfile.read(min(left, 1 << 20))):
            left -= len(chunk)
        if left:
            self.close_connection = True
            return
        self.server.bodies.append(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def upstream():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    server.go_on, server.bodies = threading.Event(), []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


@pytest.fixture(scope="module")
def proxy(upstream, tmp_path_factory):
    """Port of the proxy, with a certificate of its own authority: there is no public name here."""
    folder = tmp_path_factory.mktemp("caddy")
    port = free_port()
    options = ("admin off", "local_certs", "skip_install_trust", "auto_https disable_redirects", "grace_period 1s")
    text = "\n\t".join(["{", *options, f"http_port {free_port()}"])
    (folder / "Caddyfile").write_text(f"{text}\n}}\n{CADDYFILE.read_text()}")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
        "DLH_PUBLIC_URL": f"https://localhost:{port}",
        "DLH_UPSTREAM": f"127.0.0.1:{upstream.server_address[1]}",
    }
    command = [Path(sys.executable).parent / "caddy", "run", "--config", folder / "Caddyfile", "--adapter", "caddyfile"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        end_s = time.monotonic() + WAIT_S
        while True:
            try:
                connect(port, "http/1.1").close()
                break
            except OSError:
                assert time.monotonic() < end_s and process.poll() is None, (folder / "log").read_text()
                time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(30)


def connect(port, protocol):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), 10), server_hostname="localhost")


def ask(port, method, path, body=None, headers=None):
    connection = http.client.HTTPSConnection("localhost", port, timeout=WAIT_S)
    connection.sock = connect(port, "http/1.1")
    connection.request(method, path, body, headers or {})
    return connection.getresponse()


def test_the_portal_keeps_idle_connections_for_longer_than_the_proxy_uses_them():
    (proxy_s,) = re.findall(r"keepalive (\d+)s", CADDYFILE.read_text())
    command = portal_command("--port", "8000")
    assert int(command[command.index("--timeout-keep-alive") + 1]) > int(proxy_s)


def test_http_2_is_spoken_over_tls(proxy):
    with connect(proxy, "h2") as stream:
        assert stream.selected_alpn_protocol() == "h2"


def test_an_event_arrives_before_the_next_one_is_sent(proxy, upstream):
    upstream.go_on.clear()
    answer = ask(proxy, "GET", "/stream", headers={"Accept-Encoding": "gzip"})
    assert answer.readline() == b"data: first\n"
    upstream.go_on.set()
    assert b"data: second" in answer.read()


def test_the_portal_is_told_the_scheme_and_the_clients_own_address_whatever_it_claims(proxy):
    answer = ask(proxy, "GET", "/", headers={"X-Forwarded-For": "8.8.8.8", "X-Forwarded-Proto": "http"})
    assert answer.read() == b"127.0.0.1 https"


def test_a_chunk_of_an_upload_passes_and_a_huge_body_does_not(proxy, upstream):
    assert ask(proxy, "POST", "/", b"x" * (8 << 20)).status == 200
    try:
        status = ask(proxy, "POST", "/", b"x" * (80 << 20)).status
    except OSError:  # refused while it was still being sent
        status = 413
    assert status == 413
    assert upstream.bodies == [8 << 20]
