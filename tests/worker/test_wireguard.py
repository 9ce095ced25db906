"""Encrypted networks of ranks: real tunnels between two namespaces, and what is seen of them from outside."""

from __future__ import annotations

import gc
import json
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import redis

from tests.untested import untested
from tests.waiting import wait_for
from tests.worker.ends import LISTEN, REACH, Ends, has_ended, helpers_of
from tests.worker.pairs import NODES, SPACES, SUM, Pair
from worker.attempt import network_note
from worker.meeting import Meeting, meeting_key
from worker.sandbox import Encryption, Overlay, SandboxError, overlay, wireguard
from worker.sandbox.namespace import Space
from worker.sandbox.overlay import inside_address
from worker.sandbox.wireguard import Peer, Tunnel

PORT = 21830
EVERY_PROTOCOL = 3
RECEIVE = """
import socket
with socket.create_server(("", 40000)) as server:
    print("listens")
    print(server.accept()[0].makefile().read())
"""
SEND = """
import socket, sys
with socket.create_connection((sys.argv[1], 40000), timeout=20.0) as stream:
    stream.sendall(sys.argv[2].encode())
"""
POSE = """
import socket, subprocess, sys
subprocess.run(["ip", "addr", "add", "198.18.7.7/32", "dev", "peers0"], check=True)
for source in ("198.18.0.1", "198.18.7.7"):
    try:
        socket.create_connection((sys.argv[1], 40000), timeout=2.0, source_address=(source, 0)).close()
        print("reached")
    except OSError as error:
        print(type(error).__name__)
"""


@pytest.fixture
def able() -> None:
    if overlay.encryption_problem():
        pytest.skip(untested("encrypted networks of ranks", overlay.encryption_problem()))


def captured(sniffer: socket.socket) -> bytes:
    """Every frame until now."""
    frames = []
    while True:
        try:
            frames.append(sniffer.recv(1 << 16))
        except BlockingIOError:
            return b"".join(frames)


@pytest.mark.ranks
@pytest.mark.usefixtures("able")
@pytest.mark.parametrize("port", [0, PORT], ids=["vxlan", "wireguard"])
def test_what_ranks_send_is_seen_between_the_hosts_in_a_vxlan_and_not_in_wireguard(ends: Ends, port: int) -> None:
    marker = secrets.token_hex(40)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERY_PROTOCOL)) as sniffer:
        sniffer.bind((SPACES["left"], EVERY_PROTOCOL))
        sniffer.setblocking(False)
        there, _ = ends.pair(5, RECEIVE, SEND, inside_address(1), marker, port=port)
        assert there.rest() == [marker]
        seen = captured(sniffer)
    assert socket.inet_aton(ends.addresses[0]) in seen
    assert (marker.encode() in seen) == (port == 0)


@pytest.mark.ranks
@pytest.mark.usefixtures("able")
@pytest.mark.parametrize("wrong", [0, 1])
def test_a_node_whose_key_is_not_the_one_that_was_told_reaches_nothing(ends: Ends, wrong: int) -> None:
    there = ends.open(1, 5, LISTEN, port=PORT)
    here = ends.open(0, 5, REACH, inside_address(1), port=PORT)
    keys = [here.key, there.key]
    keys[wrong] = subprocess.run(
        ["wg", "pubkey"], input=subprocess.check_output(["wg", "genkey"]), capture_output=True, check=True
    ).stdout.decode().strip()  # fmt: skip
    ends.join(1, there, keys[0])
    assert there.line() == "listens"
    ends.join(0, here, keys[1])
    assert here.rest() == ["TimeoutError"]


@pytest.mark.ranks
@pytest.mark.usefixtures("able")
def test_a_node_is_heard_by_the_address_of_its_own_ranks_alone(ends: Ends) -> None:
    _, here = ends.pair(5, LISTEN, POSE, inside_address(1), port=PORT)
    assert here.rest() == ["reached", "TimeoutError"]


@pytest.mark.ranks
@pytest.mark.usefixtures("able")
@pytest.mark.skipif(not overlay.encryption_problem(by_kernel=True), reason="the kernel holds the tunnel itself")
def test_the_process_of_a_tunnel_ends_with_a_supervisor_that_is_killed(ends: Ends) -> None:
    end = ends.open(0, 5, "import time; time.sleep(600)", port=PORT)
    helpers = helpers_of(end.process.pid)
    assert len(helpers) == 1
    os.kill(end.process.pid, signal.SIGKILL)
    wait_for(lambda: has_ended(helpers[0]), 30.0)
    assert not list(Path("/var/run/wireguard").glob("dlh*"))
    ends.open(0, 5, "pass", port=PORT)  # its port is free again


@pytest.mark.ranks
@pytest.mark.usefixtures("able")
@pytest.mark.skipif(not overlay.encryption_problem(by_kernel=True), reason="the kernel holds the tunnel itself")
def test_the_process_of_a_tunnel_ends_with_its_namespace() -> None:
    network = overlay.make(at_loopback(wireguard.PORTS[-1]))
    [helper] = helpers_of(os.getpid())
    network.space.close()
    wait_for(lambda: has_ended(helper), 30.0)
    assert network.tunnel
    network.tunnel.close()
    assert not psutil.pid_exists(helper.pid)


def at_loopback(port: int) -> Overlay:
    return Overlay(number=1, local="127.0.0.1", device="lo", inside=inside_address(0), peers=(), port=port)


@pytest.mark.usefixtures("able")
def test_a_port_that_is_taken_is_named_and_nothing_is_left_behind() -> None:
    gc.collect()  # what earlier tests left open is not to be closed meanwhile
    open_before, interfaces = len(list(Path("/proc/self/fd").iterdir())), socket.if_nameindex()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("", 0))
        port = taken.getsockname()[1]
        with pytest.raises(
            SandboxError, match="in use.*" + (str(port) if overlay.encryption_problem(by_kernel=True) else "")
        ):
            overlay.make(at_loopback(port))
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before
    assert socket.if_nameindex() == interfaces and not helpers_of(os.getpid())


@pytest.mark.ranks
@pytest.mark.usefixtures("able")
@pytest.mark.parametrize("backend", ["horovod", "torch"])
def test_ranks_on_two_nodes_train_in_an_encrypted_network(namespaces: Pair, backend: str) -> None:
    namespaces.start(SUM, network=77, network_port=PORT, backend=backend)
    ended = [namespaces.ended(node) for node in NODES]
    assert [end.data["outcome"] for end in ended] == ["succeeded", "succeeded"], namespaces.logs()
    for rank, node in enumerate(NODES):
        assert f"rank {rank} sum 3.0 on dlh-{node}" in namespaces.log(rank), namespaces.logs()


@pytest.mark.ranks
@pytest.mark.usefixtures("able")
def test_nothing_of_an_encrypted_run_is_left_on_a_node_whose_supervisor_is_killed(namespaces: Pair) -> None:
    body = "tell('progress', step=1, phase='train')\nprint('runs', flush=True)\ntime.sleep(600)\n"
    namespaces.start(body, network=77, network_port=PORT)
    wait_for(lambda: "runs" in namespaces.log(0), what="the first rank runs")
    supervisor = json.loads(namespaces.paths.pid_file(1).read_text())["pid"]
    below = psutil.Process(supervisor).children(recursive=True)
    assert len(below) > 1
    os.kill(supervisor, signal.SIGKILL)
    wait_for(lambda: all(map(has_ended, below)), 60.0)


@pytest.mark.ranks
@pytest.mark.usefixtures("able")
@pytest.mark.skipif(not overlay.encryption_problem(by_kernel=True), reason="the kernel holds the tunnel itself")
def test_a_run_whose_tunnel_has_ended_is_no_fault_of_the_program_and_says_so(namespaces: Pair) -> None:
    body = "tell('progress', step=1, phase='train')\nprint('runs', flush=True)\ntime.sleep(600)\n"
    namespaces.start(body, network=77, network_port=PORT)
    wait_for(lambda: "runs" in namespaces.log(0), what="the first rank runs")
    [helper] = helpers_of(json.loads(namespaces.paths.pid_file(1).read_text())["pid"])
    helper.kill()
    told = namespaces.ended(NODES[0]).data
    assert told["outcome"] == "lost" and "wireguard-go, which held the network" in told["failure"]["message"]


@pytest.mark.parametrize(
    ("encryption", "words"),
    [(Encryption.KERNEL, "(here by the kernel)"), (Encryption.PROGRAM, "(here in a process of its own)")],
)
def test_a_jobs_history_says_what_encrypts(encryption: Encryption, words: str) -> None:
    tunnel = Tunnel(encryption=encryption, port=PORT, key="", _set=lambda *_: None)
    process: Any = SimpleNamespace(network=overlay.Network(Space(-1), tunnel))
    assert f"UDP port {PORT} between these hosts, encrypted by WireGuard {words}." in network_note(NODES, process)
    process = SimpleNamespace(network=overlay.Network(Space(-1)))
    assert "UDP port 4789 between these hosts, not encrypted." in network_note(NODES, process)


@pytest.mark.parametrize("key", ["", "short", "A" * 43 + "=\nPrivateKey=x", "A" * 43 + "=\n"])
def test_what_is_no_key_never_gets_into_a_configuration(key: str) -> None:
    taken: list[tuple[str, str]] = []
    tunnel = Tunnel(encryption=Encryption.PROGRAM, port=1, key="", _set=lambda *words: taken.append(words))
    with pytest.raises(SandboxError, match=r"10\.0\.0\.2 sent no WireGuard key"):
        tunnel.add([Peer(key=key, address="10.0.0.2", inside="198.18.0.2")])
    assert not taken


def test_a_kernel_that_can_holds_the_tunnel_and_the_hosts_socket_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[list[str], str]] = []

    def run(argv: Sequence[str], text: str = "") -> str:
        ran.append(([Path(argv[0]).name, *argv[1:]], text))
        return "KEY\n"

    monkeypatch.setattr(wireguard, "run", run)
    monkeypatch.setattr(wireguard, "tool", lambda name, packages="": name)
    monkeypatch.setattr("worker.sandbox.namespace.tool", lambda name, packages="": name)
    tunnel = wireguard.make(Space(7), "peers0", port=PORT, local="fd00::1", device="lo")
    tunnel.add([Peer(key="A" * 43 + "=", address="fd00::2", inside="198.18.0.2")])
    space, commands = f"/proc/{os.getpid()}/fd/7", [argv for argv, _ in ran]
    assert tunnel.encryption is Encryption.KERNEL and tunnel.key == "KEY"
    added = ["ip", "link", "add", "peers0", "mtu", "8920", "netns", space, "type", "wireguard"]
    assert commands[0] == added  # made from the host's side: its socket stays there
    inside = ["nsenter", f"--net={space}", "wg"]
    assert [*inside, "setconf", "peers0", "/dev/stdin"] in commands
    assert ran[-1] == (
        [*inside, "addconf", "peers0", "/dev/stdin"],
        f"[Peer]\nPublicKey={'A' * 43}=\nEndpoint=[fd00::2]:{PORT}\nAllowedIPs=198.18.0.2/32\n",
    )


def test_the_first_node_is_seen_only_once_it_has_let_the_others_in(broker_url: str) -> None:
    place = meeting_key(secrets.token_hex(6), 1)
    client = redis.Redis.from_url(broker_url, decode_responses=True)
    told: dict[str, dict[str, str]] = {}

    def first(keys: dict[str, str]) -> None:
        told["left"] = {**keys, "seen": ",".join(client.hkeys(place))}

    left = Meeting(broker_url, place, NODES, "left", "LEFT", first)
    right = Meeting(broker_url, place, NODES, "right", "RIGHT", lambda keys: told.update(right=dict(keys)))
    for meeting in (left, right):
        meeting.start()
    left.tell(45_000)
    wait_for(lambda: left.port == right.port == 45_000, 30.0)
    assert told == {"left": {"right": "RIGHT", "seen": "right"}, "right": {"left": "LEFT"}}


def test_a_node_that_cannot_let_the_others_in_says_so(broker_url: str) -> None:
    def refuse(keys: object) -> None:
        raise SandboxError("no key")

    meeting = Meeting(broker_url, meeting_key(secrets.token_hex(6), 1), ["left"], "left", "LEFT", refuse)
    meeting.tell(45_000)
    meeting.start()
    wait_for(lambda: str(meeting.problem) == "no key" and meeting.port is None, 30.0)
