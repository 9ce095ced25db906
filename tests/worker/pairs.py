"""Two agents with real supervisors, sandboxes and ranks, that meet through a real broker, and programs for them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.waiting import wait_for
from worker.events import Event
from worker.home import REPOSITORY
from worker.plan import Limits, RankPlan, RunPaths, RunPlan

NODES = ("left", "right")
SPACES = {node: f"d{os.getpid() % 10_000_000}-{node}" for node in NODES}
"""Names of the nodes' namespaces and links: this process's own, since another copy of these tests may run."""
BRIDGE = f"d{os.getpid() % 10_000_000}-0"
TELL = """
import json, os, sys, time
def tell(kind, **data):
    with open(os.environ["DLH_EVENTS"], "a") as file:
        file.write(json.dumps({"kind": kind, "job_id": "x", "token": 99, "rank": 42, "seq": 7,
                               "time_s": time.time(), "data": data}) + "\\n")
open(os.environ["DLH_EVENTS"], "a").close()
def paused():
    return os.path.exists(os.environ["DLH_REQUESTS"] + "/pause")
"""
"""Before each stand-in program: `tell(kind, **data)` and `paused()` are there for it, and its events have begun."""
DROP = """
import signal
from worker import agent, registry
for entry in registry.entries():
    if (process := entry.process()) is not None:
        process.send_signal(signal.SIGINT)
agent.stop_all()
"""
"""End what runs on the node, without time to save."""
START = """
import json, sys
from pathlib import Path
from worker import agent
from worker.home import node_name
from worker.plan import RunPaths, RunPlan
plan = RunPlan.from_dict(json.loads(Path(sys.argv[1]).read_text()))
assert agent.attempt_start(plan, RunPaths(Path(plan.job_dir), plan.part(node_name())))
"""
STOP = """
import sys
from worker import agent
agent.attempt_stop("job1", 1, sys.argv[1])
"""
SUM = """
import torch
if os.environ["DLH_BACKEND"] == "horovod":
    import horovod.torch as hvd
    hvd.init()
    rank, total = hvd.rank(), float(hvd.allreduce(torch.tensor([hvd.rank() + 1.0]), op=hvd.Sum))
else:
    import torch.distributed as dist
    dist.init_process_group("gloo")
    tensor = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(tensor)
    rank, total = dist.get_rank(), float(tensor)
    dist.destroy_process_group()  # else the interpreter may end while Gloo's threads run, which aborts
tell("progress", step=1, phase="train")
print("rank", rank, "sum", total, "on", __import__("socket").gethostname(), flush=True)
"""


@dataclass
class Pair:
    """Two nodes and a job that spans them."""

    folder: Path
    broker: str
    addresses: tuple[str, str]
    enter: Callable[[str], list[str]]
    """What to put before a command to run it on a node."""

    @property
    def paths(self) -> RunPaths:
        return RunPaths(self.folder / "store" / "jobs" / "job1")

    def of(self, node: str) -> RunPaths:
        return RunPaths(self.paths.root, "" if node == NODES[0] else node)

    def call(self, node: str, code: str, *arguments: str) -> None:
        env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("DLH_")},
            "DLH_HOME": str(self.folder / node), "DLH_NODE_NAME": node, "DLH_REDIS_URL": self.broker,
            "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        command = [*self.enter(node), sys.executable, "-c", code, *arguments]
        subprocess.run(command, env=env, check=True, timeout=180)

    def start(self, body: str, *nodes: str, **changes: Any) -> None:
        """A stand-in program without data."""
        self.paths.program.mkdir(parents=True, exist_ok=True)
        (self.paths.program / "train.py").write_text(TELL + body)
        data = self.folder / "store" / "data"
        data.mkdir(parents=True, exist_ok=True)
        self.begin(*nodes, dataset_dir=str(data), **changes)

    def begin(
        self, *nodes: str, token: int = 1, mode: str = "sync", stall_s: float = 300.0, dataset_dir: str, **changes: Any
    ) -> None:
        """An attempt of the program that is there."""
        plan = RunPlan(
            job_id="job1", token=token, mode=mode, job_dir=str(self.paths.root), dataset_dir=dataset_dir,
            ranks=tuple(
                RankPlan(rank=rank, node=node, local_rank=0, device="cpu", threads=1) for rank, node in enumerate(NODES)
            ),
            limits=Limits(memory_bytes=2 << 30, disk_bytes=1 << 30, stall_s=stall_s), minimum_sandbox_level=0,
            own_code=False, addresses=dict(zip(NODES, self.addresses, strict=True)), **changes,
        )  # fmt: skip
        file = self.folder / "plan.json"
        file.write_text(plan.to_json())
        for node in nodes or NODES:
            self.call(node, START, str(file))

    def ended(self, node: str, token: int = 1) -> Event:
        file = self.of(node).exit_file(token)
        wait_for(file.exists, 180.0)
        return Event.from_json(file.read_text())

    def log(self, rank: int, token: int = 1) -> str:
        file = self.paths.rank_log(token, rank)
        return file.read_text() if file.exists() else ""

    def events(self, node: str) -> str:
        """What its rank has told."""
        file = self.of(node).rank_events(1, NODES.index(node))
        return file.read_text() if file.exists() else ""

    def logs(self, token: int = 1) -> str:
        texts = [self.log(rank, token) for rank in (0, 1)]
        return "\n".join([*texts, *(self.of(node).exit_file(token).read_text() for node in NODES)])

    def close(self) -> None:
        for node in NODES:
            self.call(node, DROP)


def ip(*arguments: str) -> bool:
    """Change the host's links and addresses; whether that was allowed."""
    return subprocess.run(["ip", *arguments], capture_output=True, check=False).returncode == 0


@contextmanager
def cut(node: str) -> Iterator[None]:
    """Without the node's link."""
    assert ip("link", "set", SPACES[node], "down")
    try:
        yield
    finally:
        ip("link", "set", SPACES[node], "up")


@contextmanager
def cut_between() -> Iterator[None]:
    """Without a way from node to node; both still reach the broker."""
    for node in NODES:
        assert ip("link", "set", SPACES[node], "type", "bridge_slave", "isolated", "on")
    try:
        yield
    finally:
        for node in NODES:
            ip("link", "set", SPACES[node], "type", "bridge_slave", "isolated", "off")


KNOCK = """
import socket, sys
try: socket.create_connection((sys.argv[1], 9), timeout=10)
except ConnectionRefusedError: pass
"""


def is_reached(address: str) -> bool:
    """Whether what the first node sends gets to an address of the second: a firewall may drop what crosses a bridge."""
    command = ["ip", "netns", "exec", SPACES["left"], sys.executable, "-c", KNOCK, address]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@contextmanager
def bridged() -> Iterator[tuple[str, tuple[str, str]]]:
    """The second namespace beside that of the first node, which is there, at a bridge; takes all of it away again."""
    subnet = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 250}"
    addresses = (f"{subnet}.11", f"{subnet}.12")
    try:
        assert ip("netns", "add", SPACES["right"]) and ip("link", "add", BRIDGE, "type", "bridge")
        assert ip("addr", "add", f"{subnet}.1/24", "dev", BRIDGE) and ip("link", "set", BRIDGE, "up")
        for node, address in zip(NODES, addresses, strict=True):
            assert ip("link", "add", SPACES[node], "type", "veth", "peer", "name", "eth0", "netns", SPACES[node])
            assert ip("link", "set", SPACES[node], "master", BRIDGE, "up")
            inside = ("-n", SPACES[node])
            assert ip(*inside, "addr", "add", f"{address}/24", "dev", "eth0") and ip(*inside, "link", "set", "lo", "up")
            assert ip(*inside, "link", "set", "eth0", "up")
        yield f"{subnet}.1", addresses
    finally:
        for node in NODES:
            # A deleted namespace takes its end of the link away some time later, and the next test wants the name.
            ip("link", "del", SPACES[node])
            ip("netns", "del", SPACES[node])
        ip("link", "del", BRIDGE)
