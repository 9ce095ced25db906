"""Processes in networks of ranks, one on each of two nodes, and programs for them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict

import psutil

from tests.worker.pairs import NODES, SPACES
from worker.sandbox import Overlay
from worker.sandbox.overlay import inside_address
from worker.sandbox.wireguard import Peer

OPEN = """
import json, os, subprocess, sys
from worker.sandbox import Overlay, overlay
from worker.sandbox.wireguard import Peer
network = overlay.make(Overlay(**json.loads(sys.argv[1])))
print("made", network.key, flush=True)
if network.key:
    network.join([Peer(**json.loads(sys.stdin.readline()))])
    print("joined", flush=True)
raise SystemExit(subprocess.run(network.entered([sys.executable, "-u", "-c", sys.argv[2], *sys.argv[3:]])).returncode)
"""
LISTEN = """
import socket
with socket.create_server(("", 40000)) as server:
    print("listens")
    while True:
        server.accept()[0].close()
"""
REACH = """
import socket, sys
for host in sys.argv[1:]:
    try:
        socket.create_connection((host, 40000), timeout=2.0).close()
        print("reached")
    except OSError as error:
        print(type(error).__name__)
"""


def helpers_of(pid: int) -> list[psutil.Process]:
    """Processes that hold tunnels for this one."""
    return [one for one in psutil.Process(pid).children(recursive=True) if "wireguard-go" in one.name()]


def has_ended(process: psutil.Process) -> bool:
    """Whoever is its parent by then may not have asked yet."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class End:
    """A process that has made one end, and waits for the other's key where there is one."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.key = self.line().removeprefix("made ")

    def line(self) -> str:
        """The next that it prints."""
        assert self.process.stdout
        return self.process.stdout.readline().rstrip("\n")

    def rest(self) -> list[str]:
        """Words that it prints until it has ended."""
        told = self.process.communicate(timeout=60.0)[0].split()
        assert self.process.returncode == 0, f"it ended with {self.process.returncode} after {told}"
        return told


class Ends:
    """All of them, at the two addresses of the nodes."""

    def __init__(self, addresses: tuple[str, str]) -> None:
        self.addresses = addresses
        self.running: list[subprocess.Popen[str]] = []

    def start(self, node: int, *command: str) -> subprocess.Popen[str]:
        """A Python program of a node, outside of networks of ranks."""
        on_node = ["ip", "netns", "exec", SPACES[NODES[node]], sys.executable, "-u", "-c", *command]
        process = subprocess.Popen(
            on_node, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self.running.append(process)
        return process

    def end(self, node: int, number: int, port: int = 0) -> Overlay:
        """What a node is told; `port`: of WireGuard."""
        peers, own = (self.addresses[1 - node],), self.addresses[node]
        inside = inside_address(node)
        return Overlay(number=number, local=own, device="eth0", inside=inside, peers=peers, port=port)

    def open(self, node: int, number: int, code: str, *arguments: str, port: int = 0) -> End:
        """A program in a node's end."""
        return End(self.start(node, OPEN, json.dumps(asdict(self.end(node, number, port))), code, *arguments))

    def join(self, node: int, end: End, key: str) -> None:
        """Let the other node in at this one's end, by a key that may be the wrong one."""
        peer = Peer(key=key, address=self.addresses[1 - node], inside=inside_address(1 - node))
        assert end.process.stdin
        end.process.stdin.write(json.dumps(asdict(peer)) + "\n")
        end.process.stdin.flush()
        assert end.line() == "joined"

    def pair(self, number: int, listen: str, code: str, *arguments: str, port: int = 0) -> tuple[End, End]:
        """A program on the second node that says when it listens, and one on the first that starts only then.

        Where the network is encrypted, each has the other's key.
        """
        there = self.open(1, number, listen, port=port)
        if not port:
            assert there.line() == "listens"
        here = self.open(0, number, code, *arguments, port=port)
        if port:
            self.join(1, there, here.key)
            assert there.line() == "listens"
            self.join(0, here, there.key)
        return there, here

    def close(self) -> None:
        """End all of them."""
        for process in self.running:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
