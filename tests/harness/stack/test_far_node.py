"""A node with a cache, started by its part: what it is given, its own login, and when it would rather not start."""

from __future__ import annotations

import http.server
import json
import os
import threading
import time

import pytest

from harness.release import release
from harness.stack import far_node, part

SECRET = "dlhn_" + "k7Qw3ZxP9aLd" * 5


class Portal(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append((self.path, self.headers["Authorization"]))
        status, body = self.server.answer
        text = json.dumps(body() if callable(body) else body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


@pytest.fixture
def portal():
    """Answers as `GET /api/v1/node` would; `.answer` may be changed."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Portal)
    server.asked, server.answer = [], (200, lambda: told())
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def node(monkeypatch, portal, tmp_path):
    """The environment of a container that becomes a node with a cache."""
    for name in [name for name in os.environ if name.startswith("DLH_")]:
        monkeypatch.delenv(name)
    (tmp_path / "node_secret").write_text(f"{SECRET}\n")
    given = {
        "DLH_HOME": str(tmp_path), "DLH_STORE": "/store", "DLH_REDIS_URL": "redis://broker:6379/0",
        "DLH_URL": portal.url, "DLH_NODE_NAME": "far-0", "DLH_NODE_SECRET_FILE": str(tmp_path / "node_secret"),
        "DLH_CACHE": "/cache", "DLH_CACHE_GIB": "7",
    }  # fmt: skip
    for name, value in given.items():
        monkeypatch.setenv(name, value)


def told(**changes):
    return {"name": "far-0", "version": release(), "time_s": time.time(), "peers": [], **changes}


def refusal(portal):
    return far_node.refusal(portal.url, SECRET, "far-0")


def test_it_signs_in_at_the_broker_as_itself_and_has_no_store():
    settled = part.environment("node")
    assert settled["DLH_REDIS_URL"] == f"redis://node-far-0:{SECRET}@broker:6379/0"
    assert (settled["DLH_CACHE"], settled["DLH_CACHE_GIB"]) == ("/cache", "7")
    assert settled["DLH_NODE_SECRET"] == SECRET and "DLH_STORE" not in settled
    assert not any(SECRET in word for word in part.command("node", []))


def test_where_the_shared_password_is_given_it_is_taken(monkeypatch):
    monkeypatch.setenv("DLH_REDIS_PASSWORD", "shared")
    assert part.environment("node")["DLH_REDIS_URL"] == "redis://:shared@broker:6379/0"


@pytest.mark.parametrize("missing", ["DLH_URL", "DLH_NODE_SECRET_FILE", "DLH_REDIS_URL"])
def test_what_it_needs_is_named(monkeypatch, capsys, missing):
    monkeypatch.delenv(missing)
    assert part.main(["node"]) == part.EXIT_REFUSED
    assert missing.removesuffix("_FILE") in capsys.readouterr().err


def test_a_node_that_the_portal_knows_may_start(portal):
    assert refusal(portal) == ""
    assert portal.asked == [("/api/v1/node", f"Bearer {SECRET}")]


def test_a_portal_that_is_away_for_now_keeps_no_node_from_starting(portal):
    portal.answer = (503, {"error": {"code": "database_away", "message": "The database is away."}})
    assert refusal(portal) == ""
    assert far_node.refusal("http://127.0.0.1:1", SECRET, "far-0") == ""


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            (401, {"error": {"code": "unauthenticated", "message": "This is not a node of the pool."}}),
            "DLH_NODE_SECRETS",
        ),
        ((400, "Bad Request"), "DLH_ALLOWED_HOSTS"),
        ((308, None), "the address at which the portal itself answers"),
        ((200, lambda: told(name="far-1")), "that of node far-1"),
        ((200, lambda: told(version="9.9")), "the portal 9.9"),
        ((200, lambda: told(time_s=time.time() - 60)), "ahead of"),
        ((200, lambda: told(time_s=time.time() + 600)), "behind"),
    ],
)
def test_a_node_that_would_do_no_good_says_why_and_does_not_start(portal, capsys, answer, words):
    portal.answer = answer
    assert words in refusal(portal)
    assert part.main(["node"]) == part.EXIT_REFUSED
    assert words in capsys.readouterr().err


def test_what_is_no_address_is_told(capsys, monkeypatch):
    monkeypatch.setenv("DLH_URL", "portal:8000")
    assert part.main(["node"]) == part.EXIT_REFUSED
    assert "portal:8000" in capsys.readouterr().err


def test_prepare_is_told_where_the_secrets_of_nodes_are(monkeypatch):
    assert "--node-secrets" not in part.command("prepare", [])
    monkeypatch.setenv("DLH_NODE_SECRETS", "/run/node-secrets")
    assert part.command("prepare", [])[-2:] == ["--node-secrets", "/run/node-secrets"]


def test_prepare_reaches_the_broker_with_its_password_where_one_is_named(monkeypatch):
    for name, value in (("DLH_DATABASE_URL", "postgres://a@b/c"), ("DLH_SECRET_KEY", "k" * 40)):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DLH_REDIS_PASSWORD", "p")
    assert part.environment("prepare")["DLH_REDIS_URL"] == "redis://:p@broker:6379/0"
    monkeypatch.delenv("DLH_REDIS_URL")
    assert "DLH_REDIS_URL" not in part.environment("prepare")
