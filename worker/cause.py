"""From what was seen of an attempt to how it ended and why. Pure."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

from worker import machine_faults
from worker.events import Event, EventKind, FailureCode, Outcome
from worker.full_disk import FULL
from worker.plan import EXIT_PAUSED, EXIT_PEER_LOST, EXIT_REPORTED
from worker.signals import signal_name
from worker.stacks import raised_in, standing
from worker.watchdog import Verdict, disk_full, out_of_memory

_MEMORY_WORDS = ("MemoryError", "can't allocate memory", "Cannot allocate memory", "out of memory", "bad_alloc")
_LIMIT_WORDS = "File too large"
_DISK_WORDS = ("No space left on device", _LIMIT_WORDS, "Disk quota exceeded")
_PEER_WORDS = ("HorovodInternalError", "Horovod has been shut down", "Connection closed by peer", "reset by peer")
"""A rank that ends with these words suffered from another rank's end, which Horovod may let exit later."""
_LOG_LINES = 20
_DEADLOCK = (
    "Look for a collective call (a sum, a broadcast, a barrier, send and receive) that only some ranks make, "
    "or that they make in another order; the stack shows where one waits."
)
_KILLED = (-signal.SIGKILL, -signal.SIGTERM)
"""No program ends itself so."""
ERRORS_KEPT = 100
SUFFERED = 3
"""Least suspicion: the cause lies with another rank."""
PORTS = 1 << 16
BATCH_MAX = 10_000_000


@dataclass
class Seen:
    """Everything the supervisor knows when the sandbox has ended."""

    memory_limit_bytes: int
    disk_limit_bytes: int
    codes: dict[int, int] = field(default_factory=dict)
    """Rank -> exit code, negative for a signal. Only ranks that ended by themselves, in this order."""
    sandbox_code: int | None = None
    sandbox_text: str = ""
    """What the launcher itself printed."""
    ranks: int = 1
    """Local ranks expected."""
    node: str = ""
    """Where they are."""
    own_disk: bool = False
    """The job's folder lies on a disk of the node's own."""
    began: bool = True
    """A rank opened its file of events, as `Run.start` does."""
    errors: list[Event] = field(default_factory=list)
    """ERROR events, in the order of arrival."""
    tails: dict[int, list[str]] = field(default_factory=dict)
    """Last log lines of each rank."""
    fitting_batch: int | None = None
    """A smaller batch size that a rank found to fit; 0: not even a row."""
    phase: object = None
    """That the run told last."""
    memory_grows: bool = False
    """From step to step, as the run told last of it."""
    out_of_memory: bool = False
    """The kernel ended a process at the memory limit."""
    verdict: Verdict | None = None
    """The watchdog ended it."""
    cancelled: bool = False
    ended_elsewhere: bool = False
    """Control had the ranks end, since those on another node have ended: what was made is wanted still."""
    pause_wanted: bool = False
    pause_overdue: bool = False
    pause_unmet: bool = False
    """Asked for before the ranks here had met those on other nodes."""
    several_nodes: bool = False
    """Other ranks of the run are on other nodes."""
    notices_cuts: bool = True
    """Ranks give up others that are cut off, long before they would count as standing still."""
    reaches: bool | None = None
    """Whether the other nodes answered while the ranks here stood still; None: nobody could tell."""
    elsewhere: int | None = None
    """Ranks of an elastic run that have a place on other nodes; None: nobody has said."""
    port: int | None = None
    """Of the rendezvous that the launcher of the first node opened."""
    leaves: bool = False
    """The supervisor was told to leave (stack or host goes down): the ranks may save first."""
    shut_down: bool = False
    """It is to end at once: that has been waited for, is of no use, or a newer attempt took over."""

    def status(self, line: bytes, ranks: Container[int]) -> None:
        """Take in a line of the launcher's status pipe; what is none is passed over."""
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
            body = json.loads(line)
            if "port" in body and self.port is None and 0 < int(body["port"]) < PORTS:
                self.port = int(body["port"])
            if isinstance(body.get("reaches"), bool):
                self.reaches = body["reaches"]
            if "elsewhere" in body:
                self.elsewhere = int(body["elsewhere"])
            if body.get("own") and body["rank"] in ranks:
                self.codes[body["rank"]] = int(body["code"])

    def event(self, event: Event) -> None:
        """Remember what tells the cause: the first ERROR events, the phase, and the batch size that fits."""
        if event.kind is EventKind.ERROR and len(self.errors) < ERRORS_KEPT:
            self.errors.append(event)
        if event.kind is not EventKind.PROGRESS:
            return
        if "memory_grows" in event.data:
            self.memory_grows = bool(event.data["memory_grows"])
        self.phase, batch = event.data.get("phase"), event.data.get("fitting_batch")
        if isinstance(batch, int) and not isinstance(batch, bool) and 0 <= batch <= BATCH_MAX:
            self.fitting_batch = batch


def failure(
    code: FailureCode, message: str, hint: str = "", *, step: int | None = None, traceback: str | None = None
) -> dict[str, Any]:
    """Data of an ERROR event."""
    return {"code": str(code), "message": message, "hint": hint, "step": step, "traceback": traceback}


def broken(error: Exception, node: str, *, own_disk: bool) -> tuple[Outcome, dict[str, Any]]:
    """What an error of the supervisor itself means: a full disk is told as such. That of the store, on which every
    attempt would end, is not tried again; `own_disk`: if one is full, it is this node's own."""
    if isinstance(error, OSError) and error.errno in FULL:
        if own_disk:
            return _node_disk_full(node)
        hint = "Free space there (delete old jobs or datasets for good), then resume from the last checkpoint."
        return Outcome.FAILED, failure(FailureCode.DISK_FULL, f"The store is full: {node} cannot write there.", hint)
    text = f"The node could not run the attempt: {type(error).__name__}: {error}"
    return Outcome.LOST, failure(FailureCode.START_FAILED, text)


def _node_disk_full(node: str, traceback: str | None = None) -> tuple[Outcome, dict[str, Any]]:
    """Another node may have room."""
    hint = "Free space there (DLH_HOME, and the cache if the node has one) or drain it; then resume."
    text = f"The disk of the node {node} is full."
    return Outcome.LOST, failure(FailureCode.NODE_DISK_FULL, text, hint, traceback=traceback)


def judge(seen: Seen) -> tuple[Outcome, dict[str, Any] | None]:
    """(outcome, failure or None)."""
    if (seen.cancelled or seen.ended_elsewhere) and seen.verdict is None:
        return Outcome.CANCELLED, None
    if seen.pause_overdue or seen.pause_unmet:
        return Outcome.PAUSED, None
    codes = list(seen.codes.values())
    complete = len(codes) == seen.ranks and seen.sandbox_code is not None
    if complete and all(code == 0 for code in codes):
        never_began = 0 in seen.codes and not seen.began
        return (Outcome.FAILED, _never_began()) if never_began else (Outcome.SUCCEEDED, None)
    saved = complete and set(codes) <= {0, EXIT_PAUSED}
    if saved and (seen.pause_wanted or not (seen.leaves or seen.shut_down)):
        return Outcome.PAUSED, None
    if seen.verdict is not None and seen.verdict.code is not FailureCode.OUT_OF_MEMORY:
        return _condemned(seen, seen.verdict)
    if seen.leaves or seen.shut_down:
        return Outcome.LOST, _stopped(saved=saved)
    return _bad_exit(seen)


def end_data(seen: Seen, outcome: Outcome, cause: dict[str, Any] | None) -> dict[str, Any]:
    """What control is told of the end. Ranks that were ended have not paused, also where they were to."""
    unmet = {"unmet": True} if seen.pause_unmet and outcome is Outcome.PAUSED else {}
    return {"outcome": str(outcome), "failure": cause, "node": seen.node, **unmet}


def _stopped(*, saved: bool) -> dict[str, Any]:
    """The node was shut down. `saved`: its ranks left as in a pause, and so those on other nodes do."""
    text = "The node was shut down during the run"
    return failure(FailureCode.NODE_STOPPED, f"{text}, which saved first." if saved else f"{text}.") | {"saved": saved}


def _condemned(seen: Seen, verdict: Verdict) -> tuple[Outcome, dict[str, Any]]:
    """Of a run without progress also where its ranks stand; on several nodes the one that waits is not to blame."""
    if verdict.code is not FailureCode.STALLED:
        return Outcome.FAILED, failure(verdict.code, verdict.message, verdict.hint)
    words, stack, all_wait = standing(seen.tails)
    told = failure(verdict.code, f"{verdict.message} {words}".rstrip(), verdict.hint, traceback=stack)
    if not (seen.several_nodes and all_wait):
        return Outcome.FAILED, told
    if seen.notices_cuts:
        return Outcome.FAILED, {**told, "suffered": True}
    if seen.reaches:
        message = f"{told['message']} The other nodes answer, so no network is cut: the ranks wait for each other."
        return Outcome.FAILED, {**told, "message": message, "hint": _DEADLOCK, "suffered": True}
    # Was the network cut, or does a rank stand still on another node? That node tells.
    lost = {**told, "code": str(FailureCode.RANK_KILLED), "hint": "", "suffered": True}
    return Outcome.LOST, lost if seen.reaches is None else {**lost, "cut": True}


def _bad_exit(seen: Seen) -> tuple[Outcome, dict[str, Any]]:
    if seen.out_of_memory or seen.verdict is not None:
        return Outcome.FAILED, _memory_failure(seen)
    bad = {rank: code for rank, code in seen.codes.items() if code not in (0, EXIT_PAUSED)}
    own = {rank: code for rank, code in bad.items() if code != EXIT_PEER_LOST}
    if not bad:
        words = seen.sandbox_text.strip()[-2000:] or f"exit code {seen.sandbox_code}"
        return Outcome.LOST, failure(FailureCode.START_FAILED, f"The sandbox ended before its ranks: {words}")
    early = [rank for rank, code in seen.codes.items() if code == 0]
    all_suffered = all(_guilt(seen, rank, code) == SUFFERED for rank, code in own.items())
    if early and all_suffered:
        return Outcome.FAILED, left_early(f"Rank {early[0]}")
    if all_suffered and (seen.several_nodes or not own):
        elsewhere = "The ranks on this node lost those on the others and"
        lost = elsewhere if seen.several_nodes else "A rank disappeared and the others"
        return Outcome.LOST, {**failure(FailureCode.RANK_KILLED, f"{lost} could not continue."), "suffered": True}
    rank, code = min(own.items(), key=lambda item: _guilt(seen, *item))  # of equals the first that ended
    if code in _KILLED:
        name = signal.Signals(-code).name
        return Outcome.LOST, failure(
            FailureCode.RANK_KILLED, f"Rank {rank} was killed by something outside the run ({name})."
        )
    told = _reported(seen, rank, code) or _from_log(seen, rank, code)
    if told["code"] in machine_faults.CODES:
        return Outcome.LOST, {**told, "message": f"{told['message']} This was on the node {seen.node}."}
    if told["code"] == FailureCode.DISK_FULL and seen.own_disk and not told.get("limit"):
        return _node_disk_full(seen.node, told["traceback"])
    return Outcome.FAILED, told


def _never_began() -> dict[str, Any]:
    """Its exit code says that all is well, yet nothing was trained."""
    text = "The program ended without Run.start(...) and run.finish(dataset): there are no results."
    hint = "Keep in train.py what the generated one calls of `run`, in a copy of the job; `dlh jobs check` tries it."
    return failure(FailureCode.PROGRAM_ERROR, text, hint)


def left_early(who: str) -> dict[str, Any]:
    """Ranks that others still needed ended as if all were done."""
    hint = "Look for a loop that ends earlier on some ranks, or for sys.exit() and os._exit()."
    text = f"{who} ended before the others were done, and they could not continue."
    return failure(FailureCode.PROGRAM_ERROR, text, hint)


def leftover_failure(name: str, node: str) -> dict[str, Any]:
    """The run could not go on from a checkpoint that lay on a node alone: it is not that of its plan which is bad."""
    text = f"The checkpoint {name}, which lay on {node} and had not been returned, does not load."
    return failure(FailureCode.CHECKPOINT_CORRUPT, text)


def _memory_failure(seen: Seen, text: str | None = None) -> dict[str, Any]:
    verdict = out_of_memory(seen.memory_limit_bytes, seen.fitting_batch, seen.phase, grows=seen.memory_grows)
    return failure(verdict.code, verdict.message, verdict.hint, traceback=text)


def _guilt(seen: Seen, rank: int, code: int) -> int:
    """Order of suspicion, 0 first: killed from outside, has reported or lost its GPU, anything else, suffered from a
    sibling.

    Siblings of a rank that ends may end in the same moment, and Gloo may abort them: who was seen first proves little.
    """
    if code in _KILLED:
        return 0
    if code == EXIT_REPORTED:
        return 1
    text = "\n".join(seen.tails.get(rank, [])[-_LOG_LINES:])
    if machine_faults.gpu_fault(text):
        return 1
    words = _PEER_WORDS if code > 0 else (*_PEER_WORDS, "terminate called") if code == -signal.SIGABRT else ()
    return SUFFERED if any(word in text for word in words) else 2


def _reported(seen: Seen, rank: int, code: int) -> dict[str, Any] | None:
    """The rank's own ERROR event; for an exit that promises a report, any rank's first one will do."""
    own = [event for event in seen.errors if event.rank == rank]
    found = own or (seen.errors if code == EXIT_REPORTED else [])
    if not found:
        return None
    data = found[0].data
    known = {str(item) for item in FailureCode}
    named = str(data.get("code")) if str(data.get("code")) in known else str(FailureCode.PROGRAM_ERROR)
    return {**failure(FailureCode.PROGRAM_ERROR, "The program reported an error."), **data, "code": named}


def _from_log(seen: Seen, rank: int, code: int) -> dict[str, Any]:
    """Nothing was reported: the end of the log tells."""
    lines = seen.tails.get(rank, [])[-_LOG_LINES:]
    text = "\n".join(lines)
    if any(word in text for word in _MEMORY_WORDS):
        return _memory_failure(seen, text)
    if any(word in text for word in _DISK_WORDS) or code == -signal.SIGXFSZ:
        verdict = disk_full(seen.disk_limit_bytes)
        limit = code == -signal.SIGXFSZ or _LIMIT_WORDS in text
        return {**failure(verdict.code, verdict.message, verdict.hint, traceback=text), "limit": limit}
    if code == EXIT_REPORTED and (disk := machine_faults.disk_told(lines)):  # its events lie on that disk, mostly
        return failure(FailureCode.DISK_FAULT, disk, machine_faults.DISK_HINT)
    if fault := machine_faults.gpu_fault(text):
        return failure(FailureCode.DEVICE_FAULT, *machine_faults.gpu_words(fault, {}), traceback=text)
    ended = f"was ended by {signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
    place = raised_in(lines)
    who = f"Rank {rank}, " if seen.ranks > 1 or seen.several_nodes else ""
    told = f"{who}{place}: {last}" if code == 1 and place else f"Rank {rank} {ended}: {last}"
    hint = "The end of the log tells more (dlh logs JOB): correct the program in a copy of the job, and submit that."
    return failure(FailureCode.PROGRAM_ERROR, told, hint, traceback=text or None)
