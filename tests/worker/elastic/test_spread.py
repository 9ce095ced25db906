"""Runs over two nodes: two agents with real supervisors, sandboxes and ranks, that meet through a real broker.

On a machine that allows it (root, `ip netns`) the nodes are two network namespaces joined by a bridge; everywhere also
two loopback addresses of this one machine, which proves the protocol but no network.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.broker import broker
from tests.worker.conftest import TELL, wait_for
from worker import sandbox
from worker.events import Event
from worker.home import REPOSITORY
from worker.plan import Limits, RankPlan, RunPaths, RunPlan

pytestmark = pytest.mark.ranks
NODES = ("left", "right")
SPACES = {node: f"d{os.getpid() % 10_000_000}-{node}" for node in NODES}
"""Names of the nodes' namespaces and links: this process's own, since another copy of these tests may run."""
BRIDGE = f"d{os.getpid() % 10_000_000}-0"
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
FOREVER = (
    SUM
    + """
import torch, horovod.torch as hvd
while True:
    hvd.allreduce(torch.ones(8), name="beat")
    time.sleep(0.02)
"""
)
REACH = (
    SUM
    + """
import socket
def reach(port, kind=socket.SOCK_STREAM, protocol=0, quick=False):
    try:
        with socket.socket(socket.AF_INET, kind, protocol) as probe:
            if quick:
                probe.sendto(b"x", socket.MSG_FASTOPEN, ("127.0.0.1", port))
            else:
                probe.connect(("127.0.0.1", port))
        return "reached"
    except OSError as error:
        return type(error).__name__
print("service", reach(PORT), "datagram", reach(PORT, socket.SOCK_DGRAM))
print("mptcp", reach(PORT, protocol=262), "fast open", reach(PORT, quick=True), flush=True)
"""
)


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
        self.paths.program.mkdir(parents=True, exist_ok=True)
        (self.paths.program / "train.py").write_text(TELL + body)
        data = self.folder / "store" / "data"
        data.mkdir(parents=True, exist_ok=True)
        plan = RunPlan(
            job_id="job1", token=1, mode="sync", job_dir=str(self.paths.root), dataset_dir=str(data),
            ranks=tuple(
                RankPlan(rank=rank, node=node, local_rank=0, device="cpu", threads=1) for rank, node in enumerate(NODES)
            ),
            limits=Limits(memory_bytes=2 << 30, disk_bytes=1 << 30), minimum_sandbox_level=0, own_code=False,
            addresses=dict(zip(NODES, self.addresses, strict=True)), **changes,
        )  # fmt: skip
        file = self.folder / "plan.json"
        file.write_text(plan.to_json())
        for node in nodes or NODES:
            self.call(node, START, str(file))

    def ended(self, node: str) -> Event:
        file = self.of(node).exit_file(1)
        wait_for(file.exists, 180.0)
        return Event.from_json(file.read_text())

    def log(self, rank: int) -> str:
        file = self.paths.rank_log(1, rank)
        return file.read_text() if file.exists() else ""

    def logs(self) -> str:
        texts = [self.log(rank) for rank in (0, 1)]
        return "\n".join([*texts, *(self.of(node).exit_file(1).read_text() for node in NODES)])

    def close(self) -> None:
        for node in NODES:
            self.call(node, "from worker import agent; agent.stop_all()")


def ip(*arguments: str) -> bool:
    return subprocess.run(["ip", *arguments], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def bridge() -> Iterator[tuple[str, tuple[str, str]]]:
    """Two namespaces at a bridge of this machine: (address of the bridge, addresses of the nodes)."""
    if os.getuid() != 0 or shutil.which("ip") is None or not ip("netns", "add", SPACES["left"]):
        pytest.skip("NO NAMESPACES: needs root and `ip netns`; runs over several nodes are tried on loopback alone")
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
            ip("netns", "del", SPACES[node])
        ip("link", "del", BRIDGE)


@pytest.fixture
def loopback(tmp_path: Path) -> Iterator[Pair]:
    """Two addresses of this machine."""
    with broker(tmp_path) as url:
        pair = Pair(tmp_path, url, ("127.0.0.2", "127.0.0.3"), lambda _: [])
        yield pair
        pair.close()


@pytest.fixture
def namespaces(tmp_path: Path, bridge: tuple[str, tuple[str, str]]) -> Iterator[Pair]:
    """Two network namespaces."""
    with broker(tmp_path, bridge[0]) as url:
        pair = Pair(tmp_path, url, bridge[1], lambda node: ["ip", "netns", "exec", SPACES[node]])
        yield pair
        pair.close()


@pytest.fixture(params=["loopback", "namespaces"])
def pair(request: pytest.FixtureRequest) -> Pair:
    return request.getfixturevalue(request.param)


def test_ranks_on_two_nodes_meet_and_every_sandbox_has_its_own_host_name(pair: Pair) -> None:
    pair.start(SUM, *reversed(NODES))  # the first node comes last: the other waits for its port
    assert [pair.ended(node).data["outcome"] for node in NODES] == ["succeeded", "succeeded"], pair.logs()
    assert "rank 0 sum 3.0 on dlh-left" in pair.log(0)
    assert "rank 1 sum 3.0 on dlh-right" in pair.log(1)
    assert [pair.ended(node).rank for node in NODES] == [-1, -2]


def test_the_twin_backend_meets_in_the_same_way(loopback: Pair) -> None:
    loopback.start(SUM, backend="torch")
    assert [loopback.ended(node).data["outcome"] for node in NODES] == ["succeeded", "succeeded"], loopback.logs()


def test_a_killed_rank_ends_the_other_node_which_knows_that_it_is_not_to_blame(pair: Pair) -> None:
    import psutil

    pair.start(FOREVER)
    wait_for(lambda: "sum" in pair.log(0) and "sum" in pair.log(1), 180.0)
    work = str(pair.of("right").work)
    victims = [process for process in psutil.process_iter() if _works_in(process, work)]
    assert victims
    for victim in victims:
        victim.kill()
    right, left = pair.ended("right"), pair.ended("left")
    assert (right.data["outcome"], right.data["failure"].get("suffered")) == ("lost", None), pair.logs()
    assert (left.data["outcome"], left.data["failure"].get("suffered")) == ("lost", True), pair.logs()


def _works_in(process: Any, work: str) -> bool:
    import psutil

    try:
        return process.environ().get("DLH_WORK") == work and "RANK" in str(process.environ())
    except psutil.Error:
        return False


def test_a_cancel_ends_a_node_that_waits_for_the_other_in_vain(loopback: Pair) -> None:
    loopback.start(SUM, "left")
    loopback.call("left", STOP, "cancel")
    assert loopback.ended("left").data["outcome"] == "cancelled"


@pytest.mark.skipif(sandbox.host().landlock_abi < sandbox.PORTS_ABI, reason="the kernel's landlock knows no ports")
def test_ranks_that_share_the_network_reach_no_service_of_the_host(loopback: Pair) -> None:
    port = next(port for port in range(20000, 30000) if _binds(port))
    with socket.create_server(("127.0.0.1", port)):
        loopback.start(REACH.replace("PORT", str(port)))
        assert loopback.ended("left").data["outcome"] == "succeeded", loopback.logs()
    assert "service PermissionError datagram OSError" in loopback.log(0), loopback.logs()
    assert "mptcp OSError fast open OSError" in loopback.log(0), loopback.logs()


def _binds(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def test_two_nodes_write_and_own_nothing_in_common(loopback: Pair) -> None:
    loopback.start(SUM + "\nopen(os.environ['DLH_WORK'] + '/mine', 'w').write(str(rank))")
    assert [loopback.ended(node).data["outcome"] for node in NODES] == ["succeeded", "succeeded"], loopback.logs()
    assert [(loopback.of(node).work / "mine").read_text() for node in NODES] == ["0", "1"]
    assert json.loads(loopback.of("right").plan(1).read_text())["job_id"] == "job1"
