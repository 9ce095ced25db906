"""One attempt of a job on this node, from the start of its sandbox to the record of its end.

`python -m worker.supervisor JOB_DIR TOKEN`, in a session of its own: it outlives the agent that started it.
It trusts nothing the ranks write, keeps the run's files as the truth, and is the only one to talk to Redis.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

from worker import registry
from worker.attempt import Attempt, load, network_note
from worker.cause import Seen, broken, end_data, failure, judge
from worker.elastic.rescue import rescued
from worker.elastic.width import WidthWatch
from worker.events import Event, EventKind, FailureCode, Outcome
from worker.full_disk import is_own
from worker.home import cache_dir, node_name, redis_url
from worker.leaving import Leaving
from worker.meeting import Meeting
from worker.monitor import Monitor
from worker.ranks_meeting import ranks_meeting
from worker.sandbox import SandboxProcess, SandboxTooWeak, start
from worker.telemetry.channels import Channels
from worker.telemetry.forward import Forwarder
from worker.telemetry.logs import RankLog, StreamReader
from worker.telemetry.tail import EventTail
from worker.warden import Warden
from worker.watchdog import made_a_step

LOOP_S, BREATH_S = 0.1, 0.02
"""Longest wait and least length of a loop: the second bounds what a flood of output can cost."""
DRAIN_S, DRAIN_LIMIT_S = 0.5, 5.0
SAMPLE_S = 1.0
BROKER_WAIT_S = 120.0
"""How long to wait for an absent broker at the end; the exit record lies on disk anyway."""
SHUTDOWN_WAIT_S = 2.0
_log = logging.getLogger("worker.supervisor")


class Supervisor:
    """State of one attempt while it runs."""

    def __init__(self, attempt: Attempt, forwarder: Forwarder) -> None:
        self.attempt, self.plan, self.paths = attempt, attempt.plan, attempt.paths
        self.forwarder = forwarder
        self.started_s = time.monotonic()
        limits = attempt.limits
        ranks = [rank.rank for rank in attempt.slots]
        self.seen = Seen(
            limits.memory_bytes, limits.disk_bytes, ranks=len(ranks), node=attempt.node,
            own_disk=cache_dir() is not None, several_nodes=attempt.several_nodes,
            notices_cuts=self.plan.notices_cuts,
        )  # fmt: skip
        self.leaving = Leaving(self.seen)
        self.warden = Warden(attempt, self.seen, self.started_s, self._tails)
        self.monitor = Monitor(attempt.gpus)
        self.width = WidthWatch(self.paths.requests(self.plan.token))
        self.logs = {rank: RankLog(rank, self.paths.rank_log(self.plan.token, rank)) for rank in ranks}
        self.tails = [
            EventTail(self.paths.work, attempt.events_file(rank), self.plan.job_id, self.plan.token, rank)
            for rank in ranks
        ]
        self.sandbox: SandboxProcess | None = None
        self.meeting: Meeting | None = None
        self._channels = Channels(self._lines, self._status)
        self._seq = 0
        self._running = False
        self._next_sample_s = 0.0

    def emit(self, kind: EventKind, **data: Any) -> Event:
        """An event of the supervisor's own."""
        event = Event(
            kind=kind, job_id=self.plan.job_id, token=self.plan.token, rank=self.attempt.supervisor_rank, seq=self._seq,
            time_s=time.time(), data=data,
        )  # fmt: skip
        self._seq += 1
        if kind is not EventKind.EXITED:
            self.forwarder.send([event])
        return event

    def run(self) -> Outcome:
        """The whole attempt. Never raises: whatever happens ends in an exit record."""
        self.leaving.listen()
        try:
            self._start()
            while self.sandbox and self.sandbox.popen.poll() is None:
                self._turn()
            outcome, cause = self._ended()
        except SandboxTooWeak as error:
            hint = "Use a node with a stronger sandbox, or ask an admin to lower the pool's minimum level."
            outcome, cause = Outcome.FAILED, failure(FailureCode.SANDBOX_TOO_WEAK, str(error), hint)
        except Exception as error:
            _log.exception("attempt broke")
            outcome, cause = self._broken(error)
        self._record(outcome, cause)
        return outcome

    def refuse(self, error: OSError) -> None:
        """The node cannot keep in mind that the attempt is here: nobody could stop it."""
        self._record(*self._broken(error))

    def _broken(self, error: Exception) -> tuple[Outcome, dict[str, Any]]:
        return broken(error, self.attempt.node, own_disk=is_own(self.paths.root, error))

    def _start(self) -> None:
        attempt, token, pipe = self.attempt, self.plan.token, self._channels.rank_pipe
        attempt.make_folders()
        writers = {rank: (pipe("stdout", log), pipe("stderr", log)) for rank, log in self.logs.items()}
        status_writer, launcher_writer = self._channels.status_pipe(), self._channels.launcher_pipe()
        config_file = self.paths.attempt(token) / "launch.json"
        registry.write_json(config_file, attempt.launch_config(status_writer, writers).to_json())
        fds = (status_writer, *(fd for pair in writers.values() for fd in pair))
        try:
            spec = attempt.sandbox(config_file, fds)
            self.sandbox = start(spec, stdout=launcher_writer, stderr=launcher_writer)
        finally:
            for fd in (*fds, launcher_writer):
                os.close(fd)
        self.emit(
            EventKind.STARTED, sandbox_level=int(self.sandbox.level), node=attempt.node, pid=os.getpid(),
            world_size=self.plan.world_size,
        )  # fmt: skip
        if attempt.several_nodes:
            self._look_for_others(self.sandbox)

    def _look_for_others(self, sandbox: SandboxProcess) -> None:
        self.meeting = ranks_meeting(self.attempt, sandbox.network)
        self.meeting.start()
        if self.attempt.first:
            self.emit(EventKind.NOTE, message=network_note(self.plan.nodes, sandbox))

    def _turn(self) -> None:
        """One round: output, events, requests, and once a second the rest."""
        began_s = time.monotonic()
        self._channels.read(LOOP_S)
        self._meet()
        self._follow()
        now_s = time.monotonic()
        self._requests(now_s)
        if now_s >= self._next_sample_s:
            self._next_sample_s = now_s + SAMPLE_S
            self._each_second(now_s)
        time.sleep(max(0.0, BREATH_S - (time.monotonic() - began_s)))

    def _lines(self, reader: StreamReader, line_start: int, lines: list[str]) -> None:
        self.emit(EventKind.LOG, rank=reader.log.rank, stream=reader.stream, line_start=line_start, lines=lines)

    def _status(self, line: bytes) -> None:
        self.seen.status(line, self.logs.keys())
        self.width.heard(line)
        if self.meeting is not None and self.seen.port:
            self.meeting.tell(self.seen.port)

    def _meet(self) -> None:
        """Let the ranks start once all nodes are there."""
        if self.meeting is None:
            return
        if self.meeting.problem is not None:
            raise self.meeting.problem
        if self.meeting.port is None:
            self.warden.waits(time.monotonic())  # others may be fetching their data still
            return
        self.attempt.let_meet(self.meeting.port)
        self.meeting.close()
        self.meeting = None

    def _follow(self) -> None:
        events: list[Event] = []
        now_s = time.monotonic()
        for tail in self.tails:
            for event in tail.poll():
                self.warden.saw(event, now_s)
                events += self._accept(event)
        self.forwarder.send(events)

    def _accept(self, event: Event) -> list[Event]:
        self.seen.event(event)
        if not self._running and made_a_step(event):
            self._running = True
            self.emit(EventKind.RUNNING, start_s=round(time.monotonic() - self.started_s, 3))
        return [] if event.kind is EventKind.RUNNING else [event]

    def _tails(self) -> dict[int, list[str]]:
        """Last log lines of each rank."""
        return {rank: list(log.tail) for rank, log in self.logs.items()}

    def _notice(self) -> None:
        if told := self.warden.notice(time.monotonic()):
            self.emit(EventKind.NOTE, message=told)

    def _requests(self, now_s: float) -> None:
        assert self.sandbox  # noqa: S101 - only called while it runs
        self._notice()
        if self.seen.leaves:
            needed = not self.attempt.is_dispensable(self.seen.elsewhere)
            self.warden.leave(gains=self._running and needed, overdue=self.leaving.is_overdue)
        if self.warden.ends(now_s, fenced=self.forwarder.fenced.is_set()):
            self.sandbox.kill()

    def _each_second(self, now_s: float) -> None:
        assert self.sandbox  # noqa: S101
        if self.sandbox.network is not None:
            self.sandbox.network.check()
        sample = self.monitor.sample(self.sandbox.processes())
        self.emit(EventKind.SAMPLE, **sample, **({"node": self.attempt.node} if self.attempt.several_nodes else {}))
        if told := self.width.due(self.monitor.ranks):
            self.emit(EventKind.WIDTH, **told)
        # where a cgroup holds the memory limit, the kernel counts better than we do
        self.warden.check(now_s, 0 if self.sandbox.group else self.monitor.memory_bytes)

    def _ended(self) -> tuple[Outcome, dict[str, Any] | None]:
        """Read what is left, clean up, and judge."""
        assert self.sandbox  # noqa: S101
        sandbox = self.sandbox
        sandbox.kill()
        self._notice()  # the launcher reads them too, and on a busy host it is first
        self.seen.sandbox_code = sandbox.popen.returncode
        self.seen.out_of_memory = sandbox.out_of_memory()
        end_s = time.monotonic() + DRAIN_LIMIT_S
        while self._channels.open and self._channels.read(DRAIN_S) and time.monotonic() < end_s:
            pass  # every pipe ends with the sandbox, but for a process that got away from a weak one
        for _ in range(64):
            self._follow()
        if superseded := self.warden.superseded():
            self.seen.shut_down = True  # ranks that the newer attempt keeps from saving may end before we look for it
        sandbox.close(take_back=not superseded)
        for log in self.logs.values():
            log.close()
        self.seen.tails = self._tails()
        dropped = sum(tail.dropped for tail in self.tails)
        if dropped:
            said = f"{dropped:,} events of the program were not valid, or came too fast, and were left out."
            self.emit(EventKind.NOTE, message=said)
        if self.seen.pause_overdue:
            self.emit(EventKind.NOTE, message="The run did not save in time after the pause request and was stopped.")
        self.seen.sandbox_text = self._channels.launcher_text.decode(errors="replace")
        self.seen.began = any(tail.is_there for tail in self.tails)
        return judge(self.seen)

    def _record(self, outcome: Outcome, cause: dict[str, Any] | None) -> None:
        if self.sandbox:
            self.sandbox.close(take_back=not self.warden.superseded())
        if self.meeting is not None:
            self.meeting.close()
        for tail in self.tails:
            tail.close()
        told = end_data(self.seen, outcome, cause)
        event = self.emit(EventKind.EXITED, **told, rescue=rescued(self.paths), **self._told_more())
        try:
            registry.write_json(self.paths.exit_file(self.plan.token), event.to_json())
        except OSError as error:  # a full disk: then the message alone tells how it ended
            _log.warning("cannot record the end: %s", error)
        self.forwarder.send([event])
        self.forwarder.close(SHUTDOWN_WAIT_S if self.seen.leaves or self.seen.shut_down else BROKER_WAIT_S)
        # Last: as long as we are known here, nobody else tells control how the attempt ended.
        registry.remove(self.plan.job_id, self.plan.token)

    def _told_more(self) -> dict[str, Any]:
        """What else control should know of the end."""
        return {}


def main(kind: type[Supervisor] = Supervisor) -> int:
    """Run the attempt named on the command line; exit code 0 once its end is recorded."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    attempt = load(Path(sys.argv[1]), int(sys.argv[2]), node_name(), *sys.argv[3:4])
    if registry.fence_read(attempt.paths) > attempt.plan.token:
        _log.error("a newer attempt of job %s is known here: not started", attempt.plan.job_id)
        return 1
    if attempt.paths.exit_file(attempt.plan.token).exists():
        _log.error("attempt %d of job %s has ended already", attempt.plan.token, attempt.plan.job_id)
        return 1
    plan, unentered = attempt.plan, None
    try:
        if not registry.enter(attempt.paths, plan.job_id, plan.token):
            _log.error("attempt %d of job %s runs already", plan.token, plan.job_id)
            return 1
    except OSError as error:
        _log.exception("attempt %d of job %s cannot be entered", plan.token, plan.job_id)
        unentered = error
    forwarder = Forwarder(redis_url(), plan.job_id, plan.token, attempt.paths.part, stream=plan.event_stream)
    supervisor = kind(attempt, forwarder)
    if unentered is not None:
        supervisor.refuse(unentered)
        return 1
    outcome = supervisor.run()
    _log.info("attempt %d of job %s: %s", attempt.plan.token, attempt.plan.job_id, outcome)
    return 0


if __name__ == "__main__":
    sys.exit(main())
