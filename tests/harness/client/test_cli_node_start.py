"""`dlh node start`: what has joined begins its agent, which would take this process, unless its portal disowns it."""

from __future__ import annotations

import json
import os
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest

from tests.harness.client.conftest import Dlh
from tests.harness.client.joining import acl_taken, token

__all__ = ["acl_taken", "token"]


def test_what_has_not_joined_cannot_start(dlh: Dlh, tmp_path: Path) -> None:
    refused = dlh("node", "start", "--home", tmp_path)
    assert refused.code == 2 and "dlh node join" in refused.err


@pytest.fixture
def joined(
    dlh: Dlh, portal: SimpleNamespace, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SimpleNamespace:
    """A home that has joined: `home`, `became` (what its agent was started as), and `move(url)` of its portal."""
    became: list[str] = []
    monkeypatch.setattr(os, "execve", lambda *words: became.append(words[0]))  # the agent would take this process
    home = tmp_path / "node"
    assert dlh("node", "join", portal.url, token, "--home", home, "--no-start").code == 0

    def move(url: str) -> None:
        kept = json.loads((home / "node.json").read_text())
        (home / "node.json").write_text(json.dumps({**kept, "url": url}))

    return SimpleNamespace(home=home, became=became, move=move)


def test_a_node_that_was_removed_says_so_instead_of_calling_in_vain_and_its_home_may_join_again(
    dlh: Dlh, joined: SimpleNamespace, portal: SimpleNamespace
) -> None:
    from harness.pool.models import Node

    assert dlh("node", "start", "--home", joined.home).code == 0 and len(joined.became) == 1
    Node.objects.filter(name="node-2").update(state="down")
    removed = dlh("pool", "rm", "node-2")
    assert removed.code == 0, removed.err
    refused = dlh("node", "start", "--home", joined.home)
    assert refused.code == 2 and len(joined.became) == 1
    assert "was removed from the pool" in refused.err and "dlh pool add node-2" in refused.err
    anew = dlh("pool", "add", "node-2", "--json").json["token"]
    again = dlh("node", "join", portal.url, anew, "--home", joined.home, "--no-start")
    assert again.code == 0, again.err
    assert dlh("node", "start", "--home", joined.home).code == 0 and len(joined.became) == 2


def test_a_node_starts_while_the_portal_is_away(
    dlh: Dlh, joined: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.client import transport

    monkeypatch.setattr(transport, "_RETRY_WAITS_S", ())
    joined.move("http://127.0.0.1:1")
    assert dlh("node", "start", "--home", joined.home).code == 0 and joined.became


def test_a_node_starts_while_the_portal_takes_calls_and_does_not_answer(
    dlh: Dlh, joined: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.client import transport
    from harness.client.cli import node_known

    monkeypatch.setattr(transport, "_RETRY_WAITS_S", ())
    monkeypatch.setattr(node_known, "ANSWER_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        joined.move(url)
        assert dlh("node", "start", "--home", joined.home).code == 0 and joined.became


def test_a_node_starts_where_a_proxy_before_the_portal_refuses_in_its_own_words(
    dlh: Dlh, joined: SimpleNamespace
) -> None:
    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(401)

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        Thread(target=proxy.serve_forever, daemon=True).start()
        joined.move(f"http://127.0.0.1:{proxy.server_port}")
        assert dlh("node", "start", "--home", joined.home).code == 0 and joined.became
        proxy.shutdown()


def test_with_json_nothing_but_json_is_printed_before_the_agent_runs(
    dlh: Dlh, portal: SimpleNamespace, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    became: list[list[str]] = []
    monkeypatch.setattr(
        os, "execve", lambda _path, argv, _env: became.append(argv)
    )  # the agent would take this process
    home = tmp_path / "node"
    joined = dlh("node", "join", portal.url, token, "--home", home, "--json")
    assert joined.code == 0 and joined.json["node"] == "node-2"
    started = dlh("node", "start", "--home", home, "--json")
    assert started.json == {"node": "node-2", "home": str(home), "url": portal.url}
    assert "Starting the agent of node-2" in dlh("node", "start", "--home", home).out
    assert [argv[1:] for argv in became] == [["-P", "-m", "worker.agent"]] * 3
