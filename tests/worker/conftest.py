"""A home of its own, and helpers that build the folders of a job around a stand-in program."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

from tests.broker import broker
from tests.untested import untested
from tests.waiting import wait_for
from tests.worker.ends import Ends
from tests.worker.pairs import SPACES, TELL, Pair, bridged, ip, is_reached
from worker.events import Event
from worker.plan import Limits, RankPlan, RunPaths, RunPlan
from worker.sandbox import overlay

NODE = "testnode"
JOB_ID = "job1" + os.environ.get("PYTEST_XDIST_WORKER", "")
"""Control groups of the host are named after it: test processes side by side must not end each other's runs."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broker_url: str) -> Path:
    """`DLH_HOME` of this test, with the broker and the node's name set and the broker empty."""
    redis.Redis.from_url(broker_url).flushall()
    monkeypatch.setenv("DLH_HOME", str(tmp_path / "var"))
    monkeypatch.setenv("DLH_REDIS_URL", broker_url)
    monkeypatch.setenv("DLH_NODE_NAME", NODE)
    monkeypatch.setenv("DLH_READERS", "0")  # tests/worker/readers alone has some
    return tmp_path / "var"


@dataclass
class JobFixture:
    """One job on disk and its stand-in program."""

    paths: RunPaths
    dataset: Path
    url: str
    job_id: str = JOB_ID

    def program(self, body: str) -> None:
        """Write train.py; `tell(kind, **data)` and `paused()` are there for it."""
        self.paths.program.mkdir(parents=True, exist_ok=True)
        (self.paths.program / "train.py").write_text(TELL + body)

    def plan(self, token: int = 1, ranks: int = 1, **changes: Any) -> RunPlan:
        """A plan for this node."""
        limits = changes.pop("limits", {})
        return RunPlan(
            job_id=self.job_id, token=token, mode="sync" if ranks > 1 else "single",
            ranks=tuple(RankPlan(rank=r, node=NODE, local_rank=r, device="cpu", threads=1) for r in range(ranks)),
            job_dir=str(self.paths.root), dataset_dir=str(self.dataset),
            limits=Limits(**{"memory_bytes": 2 << 30, "disk_bytes": 1 << 30, **limits}),
            minimum_sandbox_level=changes.pop("minimum_sandbox_level", 0), own_code=False, **changes,
        )  # fmt: skip

    def start(self, plan: RunPlan) -> bool:
        """As the agent does."""
        from worker import agent

        return agent.attempt_start(plan, self.paths)

    def exited(self, token: int = 1, limit_s: float = 180.0) -> Event:
        """Wait for the record of the end."""
        file = self.paths.exit_file(token)
        wait_for(file.exists, limit_s, f"attempt {token} ends")
        return Event.from_json(file.read_text())

    def run(self, body: str, **changes: Any) -> Event:
        """Write the program, run it to its end, return the EXITED event."""
        self.program(body)
        plan = self.plan(**changes)
        assert self.start(plan)
        return self.exited(plan.token)

    def events(self) -> list[Event]:
        """What arrived on the job's stream so far."""
        entries = redis.Redis.from_url(self.url).xrange(f"dlh:job:{self.job_id}")
        return [Event.from_json(fields[b"event"]) for _, fields in entries]

    def kinds(self) -> list[str]:
        """Kinds of these events."""
        return [str(event.kind) for event in self.events()]

    def log(self, rank: int = 0, token: int = 1) -> str:
        """Log file of a rank."""
        file = self.paths.rank_log(token, rank)
        return file.read_text() if file.exists() else ""

    def processes(self) -> list[psutil.Process]:
        """Live processes that were started with this job's id."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.status() != psutil.STATUS_ZOMBIE and process.environ().get("DLH_WORK") == str(
                    self.paths.work
                ):
                    found.append(process)
            except psutil.Error:
                continue
        return found


@pytest.fixture
def job(home: Path, broker_url: str) -> Iterator[JobFixture]:
    """A job with an empty dataset; whatever it started is ended afterwards, without time to save."""
    from worker import agent, registry

    dataset = home / "store" / "datasets" / "d" / "packed"
    dataset.mkdir(parents=True)
    (dataset / "profile.json").write_text(json.dumps({"kind": "table"}))
    yield JobFixture(RunPaths(home / "store" / "jobs" / JOB_ID), dataset, broker_url)
    for entry in registry.entries():
        if (process := entry.process()) is not None:
            process.send_signal(signal.SIGINT)
    agent.stop_all()


@pytest.fixture
def python() -> str:
    """The interpreter that sandboxed programs use."""
    assert os.access(sys.executable, os.X_OK)
    return sys.executable


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """What tasks of programs send to control; their work is done at once."""
    from worker import tasks

    sent: list[tuple[str, Any]] = []

    class AtOnce:
        def put(self, work: Any) -> None:
            work()

    monkeypatch.setattr(tasks, "send_to_control", lambda name, arguments: sent.append((name, arguments[0])))
    monkeypatch.setattr(tasks, "answer_to_control", lambda name, answer: sent.append((name, answer)))
    monkeypatch.setattr(tasks.programs, "queue", AtOnce)
    monkeypatch.setattr(tasks.programs, "measuring_queue", AtOnce)
    return sent


@pytest.fixture(scope="module")
def bridge() -> Iterator[tuple[str, tuple[str, str]]]:
    """Two namespaces at a bridge of this machine: (address of the bridge, addresses of the nodes)."""
    if os.getuid() != 0 or shutil.which("ip") is None or not ip("netns", "add", SPACES["left"]):
        pytest.skip(untested("runs over several nodes, but on loopback,", "needs root and `ip netns`"))
    with bridged() as found:
        if not is_reached(found[1][1]):
            why = "this machine's firewall drops what crosses a bridge, as Docker sets it: iptables -P FORWARD ACCEPT"
            pytest.skip(untested("runs over several nodes", why))
        yield found


@pytest.fixture
def ends(bridge: tuple[str, tuple[str, str]]) -> Iterator[Ends]:
    """Two nodes for networks of ranks."""
    if overlay.problem():
        pytest.skip(untested("networks of ranks", overlay.problem()))
    found = Ends(bridge[1])
    yield found
    found.close()


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
