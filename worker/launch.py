"""The node process inside the sandbox: rendezvous on the first node, the local ranks, the gang rule.

Started by the supervisor as `python -m worker.launch CONFIG`; ends when its ranks have ended. At the first bad
exit it ends the others. Horovod is known only here and in `worker.runtime.collective`; its rendezvous server
(unauthenticated, with known pickle holes) listens inside the run's own sandbox and nowhere else.

Exit codes: 0 all ranks done, 75 all paused or done, otherwise the code of the rank that ended badly first
(128 + number for a signal). What each rank did goes to the status pipe as JSON lines:
`{"rank", "pid"}` when started, `{"rank", "code", "own"}` when ended (`own`: not ended by this process). On several
nodes the first one says `{"port"}` once its rendezvous, or with the twin its door, is open; its supervisor brings it
to the others', and each supervisor writes the port file when all nodes are there (`worker.meeting`).
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from worker.plan import EXIT_PAUSED, EXIT_PEER_LOST

POLL_S = 0.03
SIBLING_GRACE_S = 1.0
"""After a bad exit the others may end by themselves (and say why) for this long."""
CONNECT_LIMIT_S = 120.0
_PR_SET_PDEATHSIG = 1
CANCEL_FILE = "cancel"
STACKS_FILE = "stacks"
"""Request of the supervisor that every rank prints where it stands (`worker.runtime.control`)."""


@dataclass(frozen=True, kw_only=True)
class LocalRank:
    """One rank this node starts."""

    rank: int
    local_rank: int
    stdout_fd: int
    stderr_fd: int
    environment: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class LaunchConfig:
    """What the supervisor tells the node process."""

    argv: list[str]
    """Command line of a rank."""
    workdir: str
    requests: str
    status_fd: int
    backend: str
    hosts: list[tuple[str, int]]
    """(host name, ranks) in rank order over all nodes."""
    hostname: str
    address: str
    """Where the rendezvous listens; the first node's address for all."""
    interface: str
    ranks: list[LocalRank]
    port: int = 0
    """Port of the rendezvous; 0: a free one (first node only)."""
    port_file: str | None = None
    """Where the port stands as soon as all nodes are there; None for a run on one node."""
    least: int = 0
    """Number of ranks the run goes on with when others are lost; 0: all of them live and die together."""
    started: int = 0
    """So many of the ranks are started at first, the others when asked for (`worker.elastic.width`); 0: all."""
    word: str = ""
    """What the nodes of one elastic run show each other (`worker.elastic.remote_nodes`)."""
    hint: str = ""
    """What to look at where the first node cannot be reached."""

    def to_json(self) -> str:
        """JSON text."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> LaunchConfig:
        """Inverse of `to_json`."""
        body = json.loads(text)
        body["ranks"] = [LocalRank(**rank) for rank in body["ranks"]]
        body["hosts"] = [(str(name), int(slots)) for name, slots in body["hosts"]]
        return LaunchConfig(**body)

    @property
    def world_size(self) -> int:
        """Ranks over all nodes."""
        return sum(slots for _, slots in self.hosts)

    @property
    def first(self) -> bool:
        """Whether this node runs the rendezvous."""
        return self.hosts[0][0] == self.hostname


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
        port = _serve_horovod(config) if config.backend == "horovod" else config.port or _free_port(config.address)
        tell({"port": _serve_door(config, port) if config.port_file and config.backend == "torch" else port})
    if config.port_file is None:
        return port
    met = await_port(config, config.port_file)
    return port if config.first else met


def _serve_horovod(config: LaunchConfig) -> int:
    from horovod.runner.common.util.hosts import HostInfo, get_host_assignments
    from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

    server = RendezvousHTTPServer((config.address, config.port), RendezvousHandler, 0)
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


def _free_port(address: str) -> int:
    with socket.socket() as free:
        free.bind((address, 0))
        return int(free.getsockname()[1])


def await_port(config: LaunchConfig, port_file: str) -> int:
    """The port in the file, or that its door tells, once it answers: Horovod's clients try only for a second."""
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


def die_with_parent() -> None:
    """In a new process: its end is that of this one."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Gang:
    """The local ranks and the rule that they live and die together."""

    def __init__(self, config: LaunchConfig) -> None:
        self.config = config
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.codes: dict[int, int] = {}
        self._kill_at_s: float | None = None
        self._killed = False

    def start(self) -> None:
        """Start the local ranks."""
        environments = rank_environments(self.config, open_rendezvous(self.config, self._tell))
        for rank in self.config.ranks:
            environment = {**os.environ, **rank.environment, **environments[rank.rank]}
            process = subprocess.Popen(
                self.config.argv, cwd=self.config.workdir, env=environment, stdin=subprocess.DEVNULL,
                stdout=rank.stdout_fd, stderr=rank.stderr_fd, preexec_fn=die_with_parent,
            )  # fmt: skip
            os.close(rank.stdout_fd)
            os.close(rank.stderr_fd)
            self.running[rank.rank] = process
            self._tell({"rank": rank.rank, "pid": process.pid})

    def run(self) -> int:
        """Until all have ended; the exit code of this process."""
        cancel, stacks = Path(self.config.requests, CANCEL_FILE), Path(self.config.requests, STACKS_FILE)
        asked = False
        while self._is_busy():
            self._reap()
            if not asked and stacks.exists():
                asked = True
                self._signal(signal.SIGUSR1)
            if cancel.exists() and self._kill_at_s is None:
                self._signal(signal.SIGTERM)
                self._kill_at_s = time.monotonic() + SIBLING_GRACE_S
            if self._kill_at_s is not None and time.monotonic() >= self._kill_at_s and not self._killed:
                self._killed = True
                self._signal(signal.SIGKILL)
            time.sleep(POLL_S)
        return self._exit_code()

    def _is_busy(self) -> bool:
        return bool(self.running)

    def _reap(self) -> None:
        for rank, process in list(self.running.items()):
            code = process.poll()
            if code is None:
                continue
            del self.running[rank]
            self.codes[rank] = code
            self._tell({"rank": rank, "code": code, "own": not self._killed})
            if code not in (0, EXIT_PAUSED) and self._kill_at_s is None:
                self._kill_at_s = time.monotonic() + SIBLING_GRACE_S

    def _signal(self, number: int) -> None:
        for process in self.running.values():
            process.send_signal(number)

    def _tell(self, body: dict[str, Any]) -> None:
        os.write(self.config.status_fd, json.dumps(body).encode() + b"\n")

    def _exit_code(self) -> int:
        bad = [code for code in self.codes.values() if code not in (0, EXIT_PAUSED)]
        cause = [code for code in bad if code != EXIT_PEER_LOST] or bad
        if cause:
            return cause[0] if cause[0] > 0 else 128 - cause[0]
        return EXIT_PAUSED if EXIT_PAUSED in self.codes.values() else 0


def main() -> int:
    """Run the gang that the configuration file named on the command line describes."""
    config = LaunchConfig.from_json(Path(sys.argv[1]).read_text())
    os.set_inheritable(config.status_fd, False)
    gang = _gang(config)
    gang.start()
    return gang.run()


def _gang(config: LaunchConfig) -> Gang:
    if not config.least:
        return Gang(config)
    from worker.elastic.gang import ElasticGang
    from worker.elastic.remote_gang import RemoteGang  # they build on this module

    return ElasticGang(config) if config.first else RemoteGang(config)


if __name__ == "__main__":
    sys.exit(main())
