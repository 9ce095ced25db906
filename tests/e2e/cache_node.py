"""A second node of a stack, on this machine, that has a cache of its own in place of the store's folder."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil

from tests.e2e.people import DLH
from tests.e2e.stack import START_TIMEOUT_S, RunningStack, clean_environment, processes_of, wait_for

SPEC: dict[str, Any] = {
    "resources": {"device": "cpu", "count": 1},
    "model": {"family": "cnn", "size": "small"},
    "training": {"epochs": 1, "batch_size": 64, "seed": 7, "patience": 0},
    "checkpoints": {"every_epochs": 1},
}


def node_of(stack: RunningStack, name: str) -> dict[str, Any]:
    """The node as the pool shows it."""
    return next(node for node in stack.get("/pool")["nodes"] if node["name"] == name)


def words_of(stack: RunningStack, job: str) -> str:
    """All that the job's history says."""
    return " ".join(row["message"] for row in stack.get(f"/jobs/{job}/events")["items"])


def lose(home: Path) -> None:
    """The machine is gone: whatever works in this home ends, some of it with its parent."""
    for process in processes_of(home):
        with suppress(psutil.NoSuchProcess):
            process.kill()


def node_lose(stack: RunningStack, job: str) -> None:
    """Agent, supervisor and ranks at once; the stack starts the agent again, as a machine that comes back does."""
    agent = psutil.Process(stack.child("node"))
    doomed = [agent, *agent.children(recursive=True), *stack.run_processes(job)]
    for act in (psutil.Process.suspend, psutil.Process.kill):  # none sees another one go
        for process in doomed:
            with suppress(psutil.NoSuchProcess):
                act(process)
    psutil.wait_procs(doomed)


@contextmanager
def second_node(
    first: RunningStack, folder: Path, before: Sequence[str] = (), *, name: str = "second", beside: bool = False,
    url: str = "", settings: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Path]:  # fmt: skip
    """The home, called as the node, of one that has joined.

    `before`: what its command follows; `url`: of the portal, as it reaches it; `settings`: more of its environment. The
    first one takes no more jobs, unless the second is to work `beside` it.
    """
    home = folder / name
    first.post("/pool/nodes", {"name": name})
    token = first.post(f"/pool/nodes/{name}/token", {})["token"]
    command = [*DLH, "node", "join", url or first.url, token, "--home", str(home), "--cache", str(home / "cache")]
    with (folder / f"{name}.txt").open("wb") as output:
        agent = subprocess.Popen(
            [*before, *command, "--address", "127.0.0.3", "--json"],
            env=clean_environment(home, **{"DLH_NODE_CORES": "1", **settings}),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    wait_for(lambda: node_of(first, name)["state"] == "up", timeout_s=START_TIMEOUT_S, what=f"the node {name} is up")
    if not beside:
        first.post("/pool/nodes/first/drain")
    try:
        yield home
    finally:
        lose(home)
        agent.kill()
        agent.wait()
