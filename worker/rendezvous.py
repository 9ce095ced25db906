"""How the ranks of a run find each other: a rendezvous or a door on the first node, and variables for each rank.

Horovod is known only here, in `worker.elastic.rendezvous` and in `worker.runtime.collective`; its rendezvous server
(unauthenticated, with known pickle holes) listens inside the run's own sandbox and nowhere else.
"""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from worker.launch_config import LaunchConfig, LocalRank

CONNECT_LIMIT_S = 120.0


def rank_environments(config: LaunchConfig, port: int) -> dict[int, dict[str, str]]:
    """Variables by which each local rank finds the others, for the chosen backend."""
    if config.world_size == 1:
        return {rank.rank: {} for rank in config.ranks}
    if config.backend == "torch":
        return {rank.rank: _torch_environment(config, rank, port) for rank in config.ranks}
    from horovod.runner.common.util.hosts import HostInfo, get_host_assignments

    hosts = [HostInfo(name, slots) for name, slots in config.hosts]
    slots = {slot.rank: slot for slot in get_host_assignments(hosts, config.world_size, config.world_size)}
    return {rank.rank: _horovod_environment(config, slots[rank.rank], port) for rank in config.ranks}


def _horovod_environment(config: LaunchConfig, slot: Any, port: int) -> dict[str, str]:
    return {
        "HOROVOD_HOSTNAME": slot.hostname,
        "HOROVOD_RANK": str(slot.rank),
        "HOROVOD_SIZE": str(slot.size),
        "HOROVOD_LOCAL_RANK": str(slot.local_rank),
        "HOROVOD_LOCAL_SIZE": str(slot.local_size),
        "HOROVOD_CROSS_RANK": str(slot.cross_rank),
        "HOROVOD_CROSS_SIZE": str(slot.cross_size),
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": config.address,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
        "HOROVOD_GLOO_IFACE": config.interface,
    }


def _torch_environment(config: LaunchConfig, rank: LocalRank, port: int) -> dict[str, str]:
    return {
        "MASTER_ADDR": config.address,
        "MASTER_PORT": str(port),
        "RANK": str(rank.rank),
        "WORLD_SIZE": str(config.world_size),
        "LOCAL_RANK": str(rank.local_rank),
        "LOCAL_WORLD_SIZE": str(len(config.ranks)),
        "GLOO_SOCKET_IFNAME": config.interface,
    }


def open_rendezvous(config: LaunchConfig, tell: Callable[[dict[str, Any]], None]) -> int:
    """Port of the rendezvous: opened here on the first node; on several nodes known when all of them are there."""
    if config.world_size == 1:
        return 0
    port = 0
    if config.first:
        port = _serve_horovod(config) if config.backend == "horovod" else _port_held()
        tell({"port": _serve_door(config, port) if config.port_file and config.backend == "torch" else port})
    if config.port_file is None:
        return port
    met = await_port(config, config.port_file)
    return port if config.first else met


def _serve_horovod(config: LaunchConfig) -> int:
    from horovod.runner.common.util.hosts import HostInfo, get_host_assignments
    from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

    server = RendezvousHTTPServer((config.address, 0), RendezvousHandler, 0)
    hosts = [HostInfo(name, slots) for name, slots in config.hosts]
    server.init(get_host_assignments(hosts, config.world_size, config.world_size))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return int(server.server_address[1])


def _serve_door(config: LaunchConfig, port: int) -> int:
    """Where other nodes see that they reach this one, and are told `port`: there the twin's store opens only when the
    first rank has read its data, which may take long."""

    class Door(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(str(port).encode())

    server = socketserver.ThreadingTCPServer((config.address, 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return int(server.server_address[1])


def _port_held() -> int:
    """A port where the twin's store can open, and nobody else by chance: the first rank reads its data before.

    It is bound for as long as this process lives, and nobody listens at it yet.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the store does: so both may have it
    held.bind(("", 0))  # the store listens at all addresses
    port = int(held.getsockname()[1])
    held.detach()
    return port


def await_port(config: LaunchConfig, port_file: str) -> int:
    """The port in the file, or that its door tells, once it answers: Horovod's clients try only for a second. Raises
    `TimeoutError`."""
    while not Path(port_file).exists():  # others may fetch their data still; control sees to those that never come
        time.sleep(0.05)
    deadline = time.monotonic() + CONNECT_LIMIT_S
    problem: Exception | None = None
    while time.monotonic() < deadline:
        try:
            port = int(Path(port_file).read_text())
            if config.first:
                return port
            with socket.create_connection((config.address, port), timeout=2.0) as line:
                return int(line.makefile().read()) if config.backend == "torch" else port
        except (OSError, ValueError) as error:
            problem = error
        time.sleep(0.05)
    message = f"The first node's rendezvous at {config.address} cannot be reached from here: {problem}"
    raise TimeoutError(f"{message}. {config.hint}".rstrip(" ."))
