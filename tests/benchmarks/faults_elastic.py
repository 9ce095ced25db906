"""Machines of a run over two of them that can do without one; see `bench_faults`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.fault_lab import LONG, Fault, Lab, Row, attempts, restarted, seconds_after
from tests.e2e.cache_node import lose, node_lose, second_node
from tests.e2e.stack import JOB_TIMEOUT_S, RunningStack, items, wait_for

COMMIT_STEPS = 10
BEGUN_STEP = 60


@contextmanager
def _on_both(lab: Lab, name: str) -> Iterator[tuple[RunningStack, Path, str]]:
    """A job that trains on two nodes of a core each: (stack, home of the second, job)."""
    stack = lab.own_stack(DLH_NODE_NAME="first", DLH_NODE_ADDRESS="127.0.0.2", DLH_NODE_CORES="1")
    stack.request("PATCH", "/pool/settings", json={"span_nodes": True})
    folder = lab.folder / name.replace(" ", "-")
    folder.mkdir()
    resources = {"device": "cpu", "count": 2, "least": 1}
    commits = {"every_epochs": 1000, "commit_steps": COMMIT_STEPS}
    with second_node(stack, folder, beside=True) as home:
        spec = {"name": name, **LONG, "mode": "sync", "resources": resources, "checkpoints": commits}
        job = stack.job_submit(lab.upload(stack), spec)
        stack.job_wait_step(job, BEGUN_STEP)
        assert attempts(stack, job)[0]["nodes"] == ["first", "second"]
        yield stack, home, job
        lab.cancel(job, stack)


def _note(stack: RunningStack, job: str, words: str) -> re.Match[str] | None:
    """(when, from which step) a line of the history that matches; groups `at` and `step`."""
    lines = (f"{row['at']} {row['message']}" for row in items(stack.get(f"/jobs/{job}/events")))
    found = (re.match(rf"(?P<at>\S+) {words}", line) for line in lines)
    return next((match for match in found if match), None)


def another_machine_is_lost(lab: Lab) -> Row:
    """All processes of the second machine end at once: the first goes on in the same attempt."""
    fault = "a machine is lost, and `resources.least` ranks are left"
    with _on_both(lab, "another is lost") as (stack, home, job):
        step, hurt_s = int(stack.job(job)["step"]), time.time()
        lose(home)
        told = wait_for(
            lambda: _note(stack, job, r"A rank was lost: .* from step (?P<step>\d+)"), timeout_s=JOB_TIMEOUT_S,
            what="it is missed",
        )  # fmt: skip
        wait_for(lambda: stack.job(job)["step"] > step, timeout_s=JOB_TIMEOUT_S, what="the others make a new step")
        restart_s = time.time() - hurt_s
        free = wait_for(
            lambda: _note(stack, job, "Continues with 1 of 2 ranks"), timeout_s=JOB_TIMEOUT_S, what="verdict"
        )
        same = len(attempts(stack, job)) == 1 and stack.job(job)["restarts"] == 0
    return Row(
        fault=fault, outcome="goes on without it, same attempt", good=same, detect_s=seconds_after(told["at"], hurt_s),
        lost_steps=max(0, step - int(told["step"])), restart_s=restart_s,
        figures={"elastic_node_restart_s": restart_s, "elastic_node_cores_free_s": seconds_after(free["at"], hurt_s)},
    )  # fmt: skip


def the_first_machine_is_lost(lab: Lab) -> Row:
    """All processes of the machine that writes for all end at once: the other saves its copy."""
    with _on_both(lab, "the first is lost") as (stack, _, job):
        return restarted(stack, job, "the first machine of such a run is lost", lambda: node_lose(stack, job))


FAULTS: tuple[Fault, ...] = (another_machine_is_lost, the_first_machine_is_lost)
