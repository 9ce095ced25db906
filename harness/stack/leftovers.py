"""What a stack leaves behind: children of a killed stack, and the detached supervisors of running jobs.

A supervisor lives in a session of its own and outlives its node's Celery worker on purpose. Stopping the whole
stack ends the supervisors too, once their ranks have saved; their jobs go on from there at the next start.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import psutil

from harness.stack.home import StackHome
from harness.stack.process import began

CREATED_TOLERANCE_S = 1.5
STOP_TIMEOUT_S = 30.0
"""How long all of a stack takes to end at most, in addition to the time in which its runs may save."""
CHILD_GRACE_S = SUPERVISOR_GRACE_S = 8.0
"""Between SIGTERM and SIGKILL; supervisors have the time in which their ranks may save in addition."""
KILL_WAIT_S = 3.0


def stale_children(state: dict[str, Any]) -> list[psutil.Process]:
    """Processes of an earlier stack that still live; a reused process id is told apart by when its process began."""
    found = []
    for record in state.get("children", []):
        process = process_find(record)
        if process is not None:
            found.append(process)
    return found


def process_find(record: Mapping[str, Any]) -> psutil.Process | None:
    """The process of a `process_record`, if it lives."""
    pid = record.get("pid")
    if not isinstance(pid, int) or pid <= 1:
        return None
    try:
        process = psutil.Process(pid)
        return process if _is_same(process, record) and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.Error:
        return None


def _is_same(process: psutil.Process, record: Mapping[str, Any]) -> bool:
    if record.get("began"):
        return bool(record["began"] == began(process.pid))
    created_s = record.get("created_s")  # of an earlier state of the sources, or a system that tells nothing else
    return isinstance(created_s, (int, float)) and abs(process.create_time() - created_s) < CREATED_TOLERANCE_S


def supervisors(home: StackHome, node: str) -> list[psutil.Process]:
    """Live supervisors that the node of this home's stack started, by their command line (`-m worker.supervisor JOB_DIR
    TOKEN`) and by home and node that they were started with: a node that joined may share machine and store."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        of_store = "worker.supervisor" in command and any(part.startswith(f"{home.jobs}/") for part in command)
        if of_store and _started_with(process) == (str(home.root), node):
            found.append(process)
    return found


def _started_with(process: psutil.Process) -> tuple[str, str]:
    """(`DLH_HOME`, `DLH_NODE_NAME`) of a process; empty where they cannot be read, as of another person's."""
    try:
        given = process.environ()
    except psutil.Error:
        return "", ""
    return given.get("DLH_HOME", ""), given.get("DLH_NODE_NAME", "")


def family(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """The processes and all their descendants."""
    members: dict[int, psutil.Process] = {}
    for process in processes:
        try:
            for member in [process, *process.children(recursive=True)]:
                members[member.pid] = member
        except psutil.Error:
            continue
    return list(members.values())


def end_processes(processes: list[psutil.Process], grace_s: float) -> int:
    """SIGTERM to the given ones, then SIGKILL to them and their descendants. Returns how many were there."""
    members = family(processes)
    for process in processes:
        try:
            process.terminate()
        except psutil.Error:
            continue
    _, alive = psutil.wait_procs(processes, timeout=grace_s)
    for process in {*family(alive), *members}:
        try:
            process.kill()
        except psutil.Error:
            continue
    psutil.wait_procs(members, timeout=KILL_WAIT_S)
    return len(processes)


def end_supervisors(home: StackHome, node: str, *, save_s: float) -> int:
    """End the runs of the stack's own node, which may save for so long. Returns how many there were."""
    running = supervisors(home, node)
    return end_processes(running, save_s + SUPERVISOR_GRACE_S) if running else 0


def supervisors_hurry(home: StackHome, node: str) -> None:
    """Have them end at once: a person does not want to wait until they have saved."""
    for process in supervisors(home, node):
        with suppress(psutil.Error):
            process.send_signal(signal.SIGINT)


def end_stale_children(home: StackHome) -> int:
    """End what a killed stack left behind. Returns how many there were."""
    stale = stale_children(home.state_read())
    return end_processes(stale, CHILD_GRACE_S) if stale else 0


def wait_gone(record: Mapping[str, Any], timeout_s: float) -> bool:
    """Wait until the process of a record is gone."""
    end_s = time.monotonic() + timeout_s
    while time.monotonic() < end_s:
        if process_find(record) is None:
            return True
        time.sleep(0.1)
    return False


def shown(state: dict[str, Any]) -> dict[str, Any]:
    """The record of a stack without its secrets; of each process whether it lives."""
    children = [{**_told(record), "alive": process_find(record) is not None} for record in state.get("children", [])]
    return {**_told(state), "children": children}


def _told(record: Mapping[str, Any]) -> dict[str, Any]:
    """What is for people and programs."""
    return {key: value for key, value in record.items() if key not in {"redis_url", "began"}}
