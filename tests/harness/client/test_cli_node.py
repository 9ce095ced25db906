"""`dlh pool add`, `dlh node join`, `dlh doctor` against a running portal; the agent itself is not started."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings

from tests.harness.client.conftest import Dlh
from tests.harness.client.joining import acl_taken, token

__all__ = ["acl_taken", "token"]


def test_a_machine_joins_with_one_command_and_its_secret_is_for_its_owner_alone(
    dlh: Dlh, portal: SimpleNamespace, token: str, tmp_path: Path, acl_taken: list[Any]
) -> None:
    from harness.pool.models import Node

    home = tmp_path / "node"
    joined = dlh("node", "join", portal.url, token, "--home", home, "--no-start", "--json")
    assert joined.code == 0, joined.err
    file = home / "node.json"
    kept = json.loads(file.read_text())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (kept["node"], kept["url"], kept["store"]) == ("node-2", portal.url, str(settings.STORE.root))
    node = Node.objects.get(name="node-2")
    assert kept["secret"] not in joined.out and node.secret_digest in str(acl_taken)
    names = {line["name"] for line in node.check_result["findings"]}
    assert {"portal", "clock", "bandwidth", "disk of the store", "sandbox"} <= names
    assert joined.json["facts"]["devices"]

    again = dlh("node", "join", portal.url, token, "--home", tmp_path / "other", "--no-start")
    assert again.code == 2 and "has been used" in again.err and "dlh pool add" in again.err
    twice = dlh("node", "join", portal.url, token, "--home", home, "--no-start")
    assert twice.code == 2 and "already joined, as node-2" in twice.err


def test_a_long_way_to_the_portal_is_not_taken_for_a_clock_that_is_off(
    dlh: Dlh, portal: SimpleNamespace, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.pool import joining

    look_up, slow = socket.getaddrinfo, [4.0]

    def looked_up(host: Any, port: Any, *more: Any, **options: Any) -> Any:
        if str(port) == portal.url.rpartition(":")[2] and slow:
            time.sleep(slow.pop())  # as where the first of two name servers is away
        return look_up(host, port, *more, **options)

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    monkeypatch.setattr(joining, "CLOCK_LIMIT_S", 2.0)
    joined = dlh("node", "join", portal.url, token, "--home", tmp_path / "node", "--no-start")
    assert joined.code == 0 and not slow, joined.err


def test_a_home_joins_the_portal_that_moved_though_nobody_answers_at_its_old_address(
    dlh: Dlh, portal: SimpleNamespace, token: str, tmp_path: Path
) -> None:
    """What the home holds of its runs is for the installation that moved, so it has to be this home."""
    nowhere = "http://127.0.0.1:1"
    (tmp_path / "node.json").write_text(json.dumps({"node": "node-2", "url": nowhere, "secret": "dlhn_of_before"}))
    waits = dlh("node", "join", nowhere, token, "--home", tmp_path, "--no-start")
    assert waits.code == 2 and "already joined, as node-2" in waits.err, "its portal may only be away"
    joined = dlh("node", "join", portal.url, token, "--home", tmp_path, "--no-start", "--json")
    assert joined.code == 0, joined.err
    assert json.loads((tmp_path / "node.json").read_text())["url"] == portal.url
    asked, left = (
        " ".join(joined.err.split()).find(words) for words in (f"Asking the portal at {nowhere}", "leaves it")
    )
    assert -1 < asked < left, "who typed the address of another portal sees what becomes of the runs"


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_no_other_portal_takes_a_home_whose_own_portal_is_only_away(
    dlh: Dlh, portal: SimpleNamespace, token: str, tmp_path: Path, status: int
) -> None:
    asked: list[str] = []

    class Away(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(status)

    with ThreadingHTTPServer(("127.0.0.1", 0), Away) as away:
        Thread(target=away.serve_forever, daemon=True).start()
        kept = json.dumps({"node": "node-9", "url": f"http://127.0.0.1:{away.server_port}", "secret": "dlhn_of_before"})
        (tmp_path / "node.json").write_text(kept)
        refused = dlh("node", "join", portal.url, token, "--home", tmp_path, "--no-start")
        away.shutdown()
    assert refused.code == 2 and "already joined, as node-9" in refused.err
    assert (tmp_path / "node.json").read_text() == kept and len(asked) == 1


@pytest.mark.parametrize("held", [{"node": "node-9"}, {"node": "node-9", "url": "http://127.0.0.1:1"}])
def test_a_home_that_can_ask_no_portal_is_still_the_node_that_it_says(
    dlh: Dlh, portal: SimpleNamespace, token: str, tmp_path: Path, held: dict[str, str]
) -> None:
    (tmp_path / "node.json").write_text(json.dumps(held))
    refused = dlh("node", "join", portal.url, token, "--home", tmp_path, "--no-start")
    assert refused.code == 2 and "already joined, as node-9." in refused.err


def test_a_machine_that_is_off_is_asked_once_and_not_for_long(
    dlh: Dlh, portal: SimpleNamespace, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import httpx

    from harness.client.cli import node_known

    tried: list[float] = []

    class Silent(httpx.Client):
        def get(self, url: Any, **options: Any) -> Any:
            tried.append(options["timeout"])
            raise httpx.ConnectTimeout("timed out")

        def request(self, method: str, url: Any, **options: Any) -> Any:
            tried.append(0.0)
            raise httpx.ConnectTimeout("timed out")

    class SilentTransport(node_known.Transport):
        def __init__(self, url: str, secret: str = "", **options: Any) -> None:
            super().__init__(url, secret, **options)
            self.http = Silent()

    monkeypatch.setattr(node_known, "Transport", SilentTransport)
    (tmp_path / "node.json").write_text(json.dumps({"node": "node-2", "url": "http://10.9.9.9", "secret": "dlhn_x"}))
    joined = dlh("node", "join", portal.url, token, "--home", tmp_path, "--no-start")
    assert joined.code == 0, joined.err
    assert tried == [node_known.ANSWER_S]


def test_another_store_under_the_same_path_is_noticed(
    dlh: Dlh, portal: SimpleNamespace, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.client.cli import node

    monkeypatch.setattr(node, "STORE_MARK", ".dlh-store-of-nobody")
    refused = dlh("node", "join", portal.url, token, "--home", tmp_path / "node", "--no-start")
    assert refused.code == 2 and "does not see the store" in refused.err
    assert not (tmp_path / "node" / "node.json").exists()


def test_a_machine_with_a_cache_of_its_own_need_not_see_the_store(
    dlh: Dlh, portal: SimpleNamespace, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.client.cli import node

    monkeypatch.setattr(node, "STORE_MARK", ".dlh-store-of-nobody")
    home, cache = tmp_path / "node", tmp_path / "cache"
    wish = ("--cache", cache, "--cache-gib", 1.5)
    joined = dlh("node", "join", portal.url, token, "--home", home, *wish, "--no-start", "--json")
    assert joined.code == 0, joined.err
    told = node.environment(home, node.node_read(home))
    assert (told["DLH_CACHE"], told["DLH_CACHE_GIB"], told["DLH_URL"]) == (str(cache), "1.5", portal.url)
    assert told["DLH_NODE_SECRET"] and told.get("DLH_STORE") != str(settings.STORE.root)
    assert "disk of the cache" in {line["name"] for line in joined.json["findings"]}


def test_how_many_cores_it_offers_is_kept_from_joining_on_unless_it_is_set_again(
    dlh: Dlh, portal: SimpleNamespace, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.client.cli import node

    home = tmp_path / "node"
    monkeypatch.setenv("DLH_NODE_CORES", "1")
    joined = dlh("node", "join", portal.url, token, "--home", home, "--no-start", "--json")
    assert joined.code == 0, joined.err
    monkeypatch.delenv("DLH_NODE_CORES")
    assert node.environment(home, node.node_read(home))["DLH_NODE_CORES"] == "1"
    monkeypatch.setenv("DLH_NODE_CORES", "2")
    assert node.environment(home, node.node_read(home))["DLH_NODE_CORES"] == "2"


@pytest.mark.parametrize(
    ("variable", "value", "option", "field", "kept"),
    [
        ("DLH_NODE_ADDRESS", "127.0.0.2", (), "address", "127.0.0.2"),
        ("DLH_NODE_ADDRESS", "127.0.0.2", ("--address", "127.0.0.3"), "address", "127.0.0.3"),
        ("DLH_CACHE_GIB", "3", (), "cache_gib", 3.0),
        ("DLH_CACHE_GIB", "3", ("--cache-gib", "1.5"), "cache_gib", 1.5),
    ],
)
def test_address_and_cache_size_are_kept_from_joining_on_and_an_option_goes_before_its_variable(
    dlh: Dlh, portal: SimpleNamespace, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    variable: str, value: str, option: tuple[str, ...], field: str, kept: object,
) -> None:  # fmt: skip
    from harness.client.cli import node

    home = tmp_path / "node"
    monkeypatch.setenv(variable, value)
    wish = ("--home", home, "--cache", tmp_path / "cache", *option, "--no-start", "--json")
    joined = dlh("node", "join", portal.url, token, *wish)
    assert joined.code == 0, joined.err
    assert node.node_read(home)[field] == kept
    if field == "address":
        (found,) = (line["text"] for line in joined.json["findings"] if line["name"] == "address")
        assert found.startswith(f"{kept} on ")
    monkeypatch.delenv(variable, raising=False)
    assert node.environment(home, node.node_read(home))[variable] == str(kept)


def test_a_portal_that_does_not_answer_at_the_join_is_looked_for_at_the_address_that_was_given(
    dlh: Dlh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.client import transport

    monkeypatch.setattr(transport, "_RETRY_WAITS_S", ())
    refused = dlh("node", "join", "http://127.0.0.1:1", "dlhj_x", "--home", tmp_path / "node", "--no-start")
    assert refused.code == 4 and "http://127.0.0.1:1 does not answer" in refused.err
    assert "dlh login" not in refused.err and "Check the address" in refused.err


@pytest.mark.parametrize(("name", "field"), [("DLH_NODE_ADDRESS", "address"), ("DLH_CACHE_GIB", "cache_gib")])
def test_what_was_wrong_at_the_join_is_put_right_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, field: str
) -> None:
    from harness.client.cli import node

    monkeypatch.delenv(name, raising=False)
    assert node.environment(tmp_path, {field: "17"})[name] == "17"
    monkeypatch.setenv(name, "18")
    assert node.environment(tmp_path, {field: "17"})[name] == "18"


def test_a_look_that_takes_too_long_is_not_taken_for_a_missing_harness(monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.client.cli import node

    monkeypatch.setattr(node, "DOCTOR_TIMEOUT_S", 0.01)
    with pytest.raises(node.NodeBroken, match="did not end within") as told:
        node.program_json("worker.doctor", dict(os.environ))
    assert "slow" in told.value.hint and "installed" not in told.value.hint


def test_a_look_that_breaks_off_after_the_join_leaves_the_node_joined_and_says_how_to_look_again(
    dlh: Dlh, portal: SimpleNamespace, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.client.cli import node

    became: list[list[str]] = []
    monkeypatch.setattr(os, "execve", lambda _path, argv, _env: became.append(argv))
    program_json = node.program_json

    def broken(module: str, env: dict[str, str]) -> Any:
        if module == "worker.doctor":
            raise node.NodeBroken("worker.doctor did not end within 180 s.", hint="Something here is slow.")
        return program_json(module, env)

    monkeypatch.setattr(node, "program_json", broken)
    home = tmp_path / "[lab]" / "node"
    joined = dlh("node", "join", portal.url, token, "--home", home)
    assert joined.code == 0 and became, joined.err
    words = " ".join(joined.out.split())
    assert "node-2 has joined. Its home is" in words and "did not end within 180 s" in words
    assert f"node-2 has joined, but was not looked over. Do it later: dlh doctor --home '{home}'" in joined.err


def test_words_for_people_name_devices_links_and_what_is_to_be_done(
    dlh: Dlh, portal: SimpleNamespace, token: str, tmp_path: Path
) -> None:
    joined = dlh("node", "join", portal.url, token, "--home", tmp_path / "node", "--no-start")
    assert joined.code == 0, joined.err
    for word in ("node-2 has joined", "Devices", "Links", "Sandbox", "dlh node service", "clock"):
        assert word in joined.out


def test_the_unit_of_a_joined_node_starts_its_agent_and_leaves_its_runs_alone(
    dlh: Dlh, portal: SimpleNamespace, token: str, tmp_path: Path
) -> None:
    home = tmp_path / "a node"
    assert dlh("node", "service", "--home", home).code == 2
    assert dlh("node", "join", portal.url, token, "--home", home, "--no-start").code == 0
    lines = dlh("node", "service", "--home", home).out.splitlines()
    assert {"Restart=always", "KillMode=process", "WantedBy=multi-user.target"} < set(lines)
    (start,) = (line for line in lines if line.startswith("ExecStart="))
    assert start.endswith(f'"node" "start" "--home" "{home}"')
    assert dlh("node", "service", "--home", home, "--json").json["unit"].splitlines() == lines


def test_the_unit_of_a_node_carries_its_settings_and_nothing_that_is_secret_or_of_the_person(
    tmp_path: Path, dlh: Dlh, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.client.cli.node_unit import SETTINGS

    (tmp_path / "node.json").write_text('{"node": "node-2"}')
    given = dict.fromkeys(SETTINGS, "7")
    others = ("DLH_TOKEN", "DLH_URL", "DLH_NODE_SECRET", "DLH_REDIS_URL", "DLH_SECRET_KEY", "DLH_S3_SECRET")
    for name, value in {**given, **dict.fromkeys(others, "x")}.items():
        monkeypatch.setenv(name, value)
    lines = dlh("node", "service", "--home", tmp_path).out.splitlines()
    told = [line for line in lines if line.startswith("Environment=")]
    assert told == [f'Environment="{name}=7"' for name in sorted(SETTINGS)]
    monkeypatch.setenv("DLH_SANDBOX_UIDS", "1\nUser=root")
    refused = dlh("node", "service", "--home", tmp_path)
    assert refused.code == 2 and "line breaks" in refused.err


def test_a_unit_carries_every_setting_of_nodes_in_the_guide_that_joining_does_not_give() -> None:
    from harness.client.cli.node_unit import SETTINGS

    guide = (Path(__file__).resolve().parents[3] / "docs" / "operator-guide.md").read_text()
    rows = guide.partition("| **Nodes** |")[2].partition("| **Client**")[0].splitlines()
    named = {name for row in rows if row.startswith("| `") for name in re.findall(r"DLH_[A-Z_]+", row.split("|")[1])}
    assert named == {*SETTINGS, "DLH_NODE_NAME", "DLH_CACHE", "DLH_NODE_SECRET"} - {"DLH_LOG_LEVEL"}


def test_pool_add_of_a_living_node_is_refused(
    dlh: Dlh, portal: SimpleNamespace, node_make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLH_TOKEN", portal.token_of("admin"))
    node_make("node-2")
    refused = dlh("pool", "add", "node-2")
    assert refused.code == 2 and "alive" in refused.err


@pytest.mark.parametrize("hours", ["0.01", "721", "-1", "nan", "inf"])
def test_no_node_is_added_for_a_token_that_cannot_be(
    dlh: Dlh, portal: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, hours: str
) -> None:
    from harness.pool.models import Node

    monkeypatch.setenv("DLH_TOKEN", portal.token_of("admin"))
    refused = dlh("pool", "add", "node-2", "--hours", hours)
    assert refused.code == 2 and ("valid for 60 s to 30 days" in refused.err or f"--hours is {hours}" in refused.err)
    assert not Node.objects.exists()
    assert dlh("pool", "add", "node-2", "--hours", "0.017").code == 0


def test_the_doctor_finds_the_stack_of_this_clone_without_being_told_where(
    dlh: Dlh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.client.cli import node

    stack, joined = tmp_path / "var", tmp_path / "joined"
    looked: list[tuple[Path, str]] = []
    report = {"ok": True, "findings": []}
    monkeypatch.setattr(node, "STACK_HOME", stack)
    monkeypatch.setattr(node, "doctor_run", lambda home, known: looked.append((home, known["url"])) or report)
    monkeypatch.setenv("DLH_HOME", "")
    monkeypatch.setattr(node, "node_home", lambda given: given or joined)
    monkeypatch.setenv("DLH_URL", "http://told")
    dlh("doctor")
    (stack / "run").mkdir(parents=True)
    (stack / "run" / "stack.json").write_text('{"url": "http://stack"}')
    dlh("doctor")
    dlh("doctor", "--home", tmp_path)
    joined.mkdir()
    (joined / "node.json").write_text('{"url": "http://joined", "node": "node-2"}')
    dlh("doctor")
    assert looked == [
        (joined, "http://told"), (stack, "http://stack"), (tmp_path, "http://told"), (joined, "http://joined")
    ]  # fmt: skip
