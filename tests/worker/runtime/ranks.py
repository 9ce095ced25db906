"""Starts real ranks of a program on this machine: loopback, one thread each, rendezvous in this process."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.waiting import wait_for
from tests.worker.runtime.apart import Script
from tests.worker.runtime.samples import BARE, PROJECT


def rank_environments(size: int, backend: str) -> list[dict[str, str]]:
    """Variables of each rank; for Horovod a rendezvous server is started in this process."""
    if backend == "torch":
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size)}
        return [{**meet, "RANK": str(rank), "LOCAL_RANK": str(rank), "DLH_BACKEND": "torch"} for rank in range(size)]
    from horovod.runner.common.util.hosts import HostInfo, get_host_assignments
    from horovod.runner.http.http_server import RendezvousServer

    server = RendezvousServer()
    port = server.start()
    server.init(get_host_assignments([HostInfo("localhost", size)], size, size))
    common = {
        "HOROVOD_SIZE": str(size),
        "HOROVOD_LOCAL_SIZE": str(size),
        "HOROVOD_CROSS_RANK": "0",
        "HOROVOD_CROSS_SIZE": "1",
        "HOROVOD_HOSTNAME": "localhost",
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
        "HOROVOD_GLOO_IFACE": "lo",
        "DLH_BACKEND": "horovod",
    }
    return [{**common, "HOROVOD_RANK": str(rank), "HOROVOD_LOCAL_RANK": str(rank)} for rank in range(size)]


class Ranks:
    """A running program. `wait` gives the exit codes by rank; output goes to `rank-N.log` in the work folder."""

    def __init__(
        self,
        program: Path,
        size: int,
        *,
        backend: str = "horovod",
        arguments: tuple[str, ...] = (),
        own: Sequence[dict[str, str]] = (),
        **more: str,
    ) -> None:
        """`own`: variables of single ranks, in rank order; `more`: of all."""
        self.program = program
        self.work = Path(more.get("DLH_WORK", program / "work"))
        self.work.mkdir(parents=True, exist_ok=True)
        self.processes: list[Script] = []
        ranks: list[dict[str, str]] = rank_environments(size, backend) if size > 1 else [{}]
        common = BARE | {"PYTHONPATH": str(PROJECT), "DLH_THREADS": "1"}
        for rank, environment in enumerate(ranks):
            surroundings = common | environment | more | (own[rank] if rank < len(own) else {})
            log = self.work / f"rank-{rank}.log"
            script = Script(program, ("train.py", *arguments), surroundings, log, log, brief=rank > 0)
            self.processes.append(script)

    def until(self, condition: Callable[[], Any]) -> Any:
        """Wait for something; the first rank must not end before."""

        def there() -> Any:
            found = condition()
            assert found or self.processes[0].poll() is None, self.log()
            return found

        return wait_for(there, 300.0)

    def wait(self, limit_s: float = 300.0) -> list[int]:
        """Exit codes; kills what is left at the limit."""
        try:
            return [process.wait(limit_s) for process in self.processes]
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL to all."""
        for process in self.processes:
            process.kill()
            process.wait()

    def log(self, rank: int = 0) -> str:
        """What a rank printed."""
        return (self.work / f"rank-{rank}.log").read_text()


def events(work: Path, rank: int = 0) -> list[dict[str, Any]]:
    """All events a rank has written so far below its work folder."""
    path = work / "events" / f"rank-{rank}.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def steps_told(work: Path) -> int:
    """Step of the newest progress event."""
    return max((event["data"]["step"] for event in events(work) if event["kind"] == "progress"), default=0)
