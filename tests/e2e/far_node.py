"""A second machine for a stack: a network namespace behind a bridge, whose link can be cut and which can be rebooted.

The near side is a stack whose portal and broker listen on the bridge; both sides see one store. Needs root.
"""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil

from tests.e2e.people import DLH
from tests.e2e.stack import START_TIMEOUT_S, RunningStack, clean_environment, command_of, processes_of, wait_for
from tests.untested import untested

NO_NAMESPACES = untested("networks between machines that are cut", "needs root and `ip netns`")
_NTH = itertools.count()
AS_BOOTED = 'mount --bind "$1" /proc/sys/kernel/random/boot_id && shift && exec "$@"'
"""`ip netns exec` gives the command a mount namespace of its own."""


def ip(*arguments: str) -> bool:
    """Run `ip`; whether it did as told."""
    return subprocess.run(["ip", *arguments], capture_output=True, check=False).returncode == 0


class FarNode:
    """The namespace, and the node in it once it has joined."""

    name = "far"

    def __init__(self, folder: Path) -> None:
        """Raises `OSError` where this machine makes no namespaces."""
        number = (os.getpid() * 8 + next(_NTH)) % 100_000  # the link of one that is gone lives on for a moment
        self.space, self.bridge, self.link = f"dlhf{number}", f"dlhb{number}", f"dlhv{number}"
        subnet = f"10.{150 + number % 50}.{number // 50 % 250}"
        self.near_address, self.address = f"{subnet}.1", f"{subnet}.2"
        self.home, self.boots = folder / "far", folder
        if os.getuid() != 0 or shutil.which("ip") is None or not ip("netns", "add", self.space):
            raise OSError(NO_NAMESPACES)
        inside = ("-n", self.space)
        made = [
            ip("link", "add", self.bridge, "type", "bridge"),
            ip("addr", "add", f"{self.near_address}/24", "dev", self.bridge),
            ip("link", "set", self.bridge, "up"),
            ip("link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", self.space),
            ip("link", "set", self.link, "master", self.bridge, "up"),
            ip(*inside, "addr", "add", f"{self.address}/24", "dev", "eth0"),
            ip(*inside, "link", "set", "lo", "up"),
            ip(*inside, "link", "set", "eth0", "up"),
        ]
        if not all(made):
            self.close()
            raise OSError(NO_NAMESPACES)

    def near_environment(self) -> dict[str, str]:
        """Settings of the stack that this node joins."""
        port = next(port for port in range(20_000, 30_000) if _free(self.near_address, port))
        return {
            "DLH_HOST": self.near_address, "DLH_BROKER_HOST": self.near_address, "DLH_BROKER_PORT": str(port),
            "DLH_NODE_NAME": "near", "DLH_NODE_ADDRESS": self.near_address, "DLH_NODE_CORES": "1",
        }  # fmt: skip

    def join(self, stack: RunningStack) -> None:
        """Bring the far machine into the pool by `dlh node join`; it has one core."""
        stack.post("/pool/nodes", {"name": self.name})
        token = stack.post(f"/pool/nodes/{self.name}/token", {})["token"]
        self._start([*DLH, "node", "join", stack.url, token, "--home", str(self.home), "--address", self.address])
        self.wait_state(stack, "up")

    def wait_state(self, stack: RunningStack, state: str) -> None:
        """Until the pool shows the node so."""

        def there() -> bool:
            return any(node["name"] == self.name and node["state"] == state for node in stack.get("/pool")["nodes"])

        wait_for(there, timeout_s=START_TIMEOUT_S, what=f"the far node is {state}")

    def supervisors(self) -> list[psutil.Process]:
        """Of attempts, on this machine."""
        return [process for process in processes_of(self.home) if "worker.supervisor" in command_of(process)]

    def cut(self) -> None:
        """Nothing gets through any more; neither side is told."""
        assert ip("link", "set", self.link, "down")

    def mend(self) -> None:
        """The network is back."""
        assert ip("link", "set", self.link, "up")

    def slow_down(self, mbit: int) -> bool:
        """So much gets through per second, each way; whether this machine can do that."""
        shape = ["root", "tbf", "rate", f"{mbit}mbit", "burst", "32kb", "latency", "400ms"]
        near = ["tc", "qdisc", "add", "dev", self.link, *shape]
        there = ["ip", "netns", "exec", self.space, "tc", "qdisc", "add", "dev", "eth0", *shape]
        return all(shutil.which("tc") and subprocess.run(line, check=False).returncode == 0 for line in (near, there))

    def lose(self) -> None:
        """The machine is gone: everything of it ends at once."""
        supervisors = processes_of(self.home)
        inside = [child for process in supervisors for child in _below(process)]
        for process in [*supervisors, *inside]:
            _kill(process)

    def reboot(self) -> None:
        """The machine is gone and its agent starts anew, as on another boot of the kernel."""
        self.lose()
        boot = self.boots / f"boot-{uuid.uuid4()}"
        boot.write_text(f"{uuid.uuid4()}\n")
        self._start(["sh", "-c", AS_BOOTED, "sh", str(boot), *DLH, "node", "start", "--home", str(self.home)])

    def close(self) -> None:
        """End it and take the namespace away."""
        self.lose()
        ip("netns", "del", self.space)
        ip("link", "del", self.bridge)

    def _start(self, command: list[str]) -> None:
        env = clean_environment(self.home, DLH_NODE_CORES="1")
        with (self.boots / "far.txt").open("ab") as output:
            subprocess.Popen(
                ["ip", "netns", "exec", self.space, *command], env=env, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip


def reserve_near(stack: RunningStack) -> str:
    """Keep the near node's devices, so that jobs go to the far one; id of the reservation."""
    until = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    made: dict[str, Any] = stack.post("/pool/reservations", {"node": "near", "ends_at": until, "purpose": "test"})
    return str(made["id"])


def _free(address: str, port: int) -> bool:
    """Below the ports that ranks may connect to; the broker listens on loopback too."""
    for host in (address, "127.0.0.1"):
        try:
            socket.create_server((host, port)).close()
        except OSError:
            return False
    return True


def _below(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.Error:
        return
