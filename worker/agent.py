"""The agent of a node: starts and stops supervisors, and cleans up after the dead. `worker.heartbeat` reports for it.

`python -m worker.agent` runs the node, a Celery worker; `python -m worker.agent stop` ends every supervisor of this
node, and so does an agent that is stopped where `DLH_RUNS_END_WITH_NODE` is 1.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

from worker import exits, registry, sandbox
from worker.cause import broken, failure
from worker.celery_app import app
from worker.elastic.rescue import RESCUE_FILE
from worker.events import FailureCode, Outcome
from worker.full_disk import FULL, is_own
from worker.home import node_name, run_dir, stop_save_s
from worker.launch import CANCEL_FILE, END_FILE
from worker.one_agent import AgentRuns, agent_lock
from worker.plan import RunPaths, RunPlan
from worker.queues import node_queue_name
from worker.transfer.depot import depot_here

STOP_WAIT_S = 8.0
"""How much longer than its ranks may save a supervisor is waited for, where the node is shut down."""
STALE_WAIT_S = 3.0
_log = logging.getLogger("worker.agent")
_children: list[subprocess.Popen[bytes]] = []


def attempt_start(plan: RunPlan, job_dir: RunPaths) -> bool:
    """Start the supervisor of an attempt, once. False where the attempt is stale, stopped, running or over."""
    with contextlib.ExitStack() as locks:
        try:
            locks.enter_context(registry.locked(job_dir))
            if not _prepare(plan, job_dir):
                return False
            entry = _spawn(plan, job_dir)
        except OSError as error:
            attempt_refuse(plan, job_dir, error)
            return False
        try:
            registry.add(entry)
        except OSError as error:  # the supervisor enters itself, too; where it cannot, it tells so and ends
            _log.warning("job %s: attempt %d cannot be entered: %s", plan.job_id, plan.token, error)
        if _tombstone(plan.job_id, plan.token).exists():
            # Stopped while it was being started; whoever did saw no supervisor and has told control so.
            _request(job_dir, plan.token, CANCEL_FILE)
    return True


def attempt_refuse(plan: RunPlan, job_dir: RunPaths, error: OSError) -> None:
    """A full disk, say, keeps it from being started: control is told at once, instead of asking in vain six times.

    Not where it runs here already, and was only asked for again.
    """
    _log.warning("job %s: attempt %d cannot be prepared: %s", plan.job_id, plan.token, error)
    with contextlib.suppress(OSError):  # of the home, where nothing can be looked up either
        if _living(plan.job_id, plan.token) is not None:
            return
    exits.exited_send(plan.job_id, plan.token, *_unprepared(error, job_dir), plan.event_stream)


def _unprepared(error: OSError, paths: RunPaths) -> tuple[Outcome, dict[str, Any]]:
    """What it means that a run's folder could not be made, or its plan not be written."""
    if error.errno in FULL:
        return broken(error, node_name(), own_disk=is_own(paths.root, error))
    text = f"The node {node_name()} could not prepare the run: {error.strerror}."
    return Outcome.LOST, failure(FailureCode.START_FAILED, text)


def _prepare(plan: RunPlan, paths: RunPaths) -> bool:
    """Write down what the supervisor reads; False where it is not to be started. Raises `OSError`."""
    if not registry.fence_raise(paths, plan.token):
        _log.warning("job %s: refused attempt %d, a newer one was seen", plan.job_id, plan.token)
        return False
    if _tombstone(plan.job_id, plan.token).exists() or paths.exit_file(plan.token).exists():
        return False
    entry = registry.find(paths, plan.token)
    if entry is not None:
        if entry.process() is None and not _is_interrupted(entry):
            exits.lost_record(entry)
        return False
    _end_older(plan)
    paths.attempt(plan.token).mkdir(parents=True, exist_ok=True)
    registry.write_json(paths.plan(plan.token), plan.to_json())
    return True


def _request(paths: RunPaths, token: int, name: str) -> None:
    folder = paths.requests(token)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).touch()


def _spawn(plan: RunPlan, paths: RunPaths, module: str = "") -> registry.Entry:
    module = module or ("worker.supervisor" if depot_here() is None else "worker.transfer.supervisor")
    argv = [sys.executable, "-P", "-m", module, str(paths.root), str(plan.token), paths.part]
    with (paths.attempt(plan.token) / "supervisor.log").open("ab") as log:
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    _children.append(child)
    return registry.Entry(
        job_id=plan.job_id, token=plan.token, job_dir=str(paths.root), pid=child.pid,
        created_s=registry.process_created_s(child.pid), part=paths.part,
    )  # fmt: skip


def _end_older(plan: RunPlan) -> None:
    """Supervisors of older attempts of the same job: told to end, then killed (their sandbox dies with them)."""
    older = [entry for entry in registry.entries() if entry.job_id == plan.job_id and entry.token < plan.token]
    _end([process for entry in older if (process := entry.process())])
    for entry in older:
        sandbox.remove_leftovers(entry.sandbox_name)
        registry.remove(entry.job_id, entry.token)


def _tell(processes: list[psutil.Process], how: signal.Signals) -> None:
    """`how`: as `worker.leaving` tells."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(how)


def _end(processes: list[psutil.Process]) -> None:
    """Nobody wants their runs any more."""
    _tell(processes, signal.SIGINT)
    _wait(processes, STALE_WAIT_S)


def _wait(processes: list[psutil.Process], wait_s: float) -> None:
    """Until they have ended; those that have not by then are killed."""
    _, alive = psutil.wait_procs(processes, timeout=wait_s)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(alive, timeout=STALE_WAIT_S)
    _reap()


def attempt_stop(job_id: str, token: int, how: str, stream: int = 0) -> bool:
    """Ask an attempt to pause, to end, or to save and end. False where it does not run here: control is told that.

    It is told in the `stream` of the attempt's events: where it has ended here, what it said comes first.
    """
    if _ask(job_id, token, how):
        return True
    sweep()  # whose supervisor was killed has not left as it is asked to: that is told first, and counts
    stone = _tombstone(job_id, token)
    if not stone.exists():
        stone.touch()
        if _ask(job_id, token, how):  # it was started between the two looks
            return True
        exits.exited_send(job_id, token, Outcome.PAUSED if how == "pause" else Outcome.CANCELLED, None, stream)
    return False


def _ask(job_id: str, token: int, how: str) -> bool:
    """Leave the request with the attempt's supervisor; False where none lives here."""
    entry = _living(job_id, token)
    if entry is None:
        return False
    _request(entry.paths, token, how if how in {CANCEL_FILE, END_FILE, RESCUE_FILE} else "pause")
    return True


def _living(job_id: str, token: int) -> registry.Entry | None:
    """The attempt's supervisor, where one lives on this node."""
    own = (entry for entry in registry.entries() if entry.job_id == job_id and entry.token == token)
    return next((entry for entry in own if entry.process() is not None), None)


def _tombstone(job_id: str, token: int) -> Path:
    """Mark of an attempt that was stopped before it was started: a late start message must not revive it."""
    return run_dir("stopped", node_name()) / f"{job_id}-{token}"


def job_purge(job_id: str) -> None:
    """Forget a job: end what runs of it and remove what this node keeps about it. Files in the store are control's."""
    entries = [entry for entry in registry.entries() if entry.job_id == job_id]
    _end([process for entry in entries if (process := entry.process())])
    for entry in entries:
        sandbox.remove_leftovers(entry.sandbox_name)
        registry.remove(entry.job_id, entry.token)
    for stone in run_dir("stopped", node_name()).glob(f"{job_id}-*"):
        stone.unlink(missing_ok=True)
    if (depot := depot_here()) is not None:
        depot.forget(job_id)


def stop_begin() -> list[psutil.Process]:
    """Tell every supervisor of this node that it is shut down. Returns who was told."""
    processes = [process for entry in registry.entries() if (process := entry.process())]
    _tell(processes, signal.SIGTERM)
    return processes


def stop_all() -> int:
    """End every supervisor of this node once its ranks have saved; their attempts are recorded as lost and go on
    from there."""
    processes = stop_begin()
    _wait(processes, stop_save_s() + STOP_WAIT_S)
    sweep(resume=False)
    return len(processes)


def _reap() -> None:
    """Collect supervisors that were our children."""
    _children[:] = [child for child in _children if child.poll() is None]


def sweep(*, resume: bool = True) -> list[registry.Entry]:
    """Entries of live supervisors. A dead one without a record of its end is recorded as lost; one that only returned
    what its run had made is started again, unless the node stops."""
    _reap()
    alive = []
    for entry in registry.entries():
        if entry.process() is not None:
            alive.append(entry)
            continue
        try:
            alive += _bury(entry, resume=resume)
        except OSError as error:  # the disk of its folder: the others, and the node's report, do not wait for that
            _log.warning("job %s: attempt %d cannot be looked at now: %s", entry.job_id, entry.token, error)
    return alive


def _bury(entry: registry.Entry, *, resume: bool) -> list[registry.Entry]:
    """See to an entry whose supervisor is dead; what was started for it. Raises `OSError`."""
    if _is_interrupted(entry):
        return _go_on(entry) if resume else []
    if entry.paths.root.exists():
        if not entry.paths.exit_file(entry.token).exists():
            with registry.locked(entry.paths):
                exits.lost_record(entry)
    elif not entry.paths.root.parent.exists():
        return []  # nor are other jobs: it lies on a disk that is not mounted yet
    registry.remove(entry.job_id, entry.token)
    return []


def _is_interrupted(entry: registry.Entry) -> bool:
    """Whether what is left to do is to return what its run made, and no newer attempt has begun."""
    if registry.fence_read(entry.paths) > entry.token:
        return False
    there = entry.paths.returning_file(entry.token).exists() and depot_here() is not None
    return there and not entry.paths.exit_file(entry.token).exists() and exits.plan_of(entry) is not None


def _go_on(entry: registry.Entry) -> list[registry.Entry]:
    """Have the rest returned, by one process; nothing where none can be started now."""
    plan = exits.plan_of(entry)
    try:
        with registry.locked(entry.paths):
            found = registry.find(entry.paths, entry.token)
            if found is not None and found.process() is not None:
                return [found]
            if plan is None or not _is_interrupted(entry):  # it has ended, or a newer attempt has begun meanwhile
                return []
            made = _spawn(plan, entry.paths, "worker.transfer.again")
            registry.add(made)
    except OSError as error:
        _log.warning("job %s: attempt %d cannot be returned now: %s", entry.job_id, entry.token, error)
        return []
    _log.info("job %s: attempt %d goes on returning what it made", entry.job_id, entry.token)
    return [made]


def main() -> int:
    """Run the node, or stop its supervisors."""
    if sys.argv[1:] == ["stop"]:
        stop_all()
        return 0
    name = node_name()
    try:
        stop_save_s()  # a wrong one is told now, not when the node is shut down
        lock = agent_lock()
    except (AgentRuns, ValueError) as told:
        sys.stderr.write(f"{told}\n")
        return 1
    with lock:
        app.worker_main(
            ["worker", "-Q", node_queue_name(name), "-n", f"node@{name}", "--without-gossip", "--without-mingle",
             "--loglevel", os.environ.get("DLH_LOG_LEVEL", "").strip() or "INFO"],
        )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
