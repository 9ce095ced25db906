"""Events: what a run says about itself. Append-only, absolute progress, never increments.

A rank appends events as JSON lines to its own file (`RunPaths.rank_events`); the supervisor adds its own,
stamps the fencing token, and forwards all to two Redis streams: one for control (`control_stream`),
one for people who watch (`job_stream(job_id)`).
"""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

CONTROL_STREAM = "dlh:events"
"""The first of the streams that control's ingest reads (consumer group `control`), and the only one of releases that
knew no others. Field `event` holds `Event.to_json()`."""
EVENT_STREAMS_MAX = 32
"""Control looks at so many streams, however many of them it has new attempts write to."""

LIVE_KEEP_S = 24 * 3600
"""A live stream in which nothing was said for so long goes: rows and files tell the rest, and a broker holds all
that it has in memory."""

SUPERVISOR_RANK = -1
"""`Event.rank` of an event that the supervisor itself made; of a run on several nodes that of the first node. Those
of the others count on downwards, in the order of `RunPlan.nodes`."""


def control_stream(number: int) -> str:
    """Name of the stream of that number. Raises `ValueError` where nobody would read it."""
    if not 0 <= number < EVENT_STREAMS_MAX:
        raise ValueError(f"there is no stream of events {number}")
    return f"{CONTROL_STREAM}:{number}" if number else CONTROL_STREAM


def stream_number(job_id: str, streams: int) -> int:
    """Which of so many streams all attempts of a job write to: the same in every process and release."""
    return zlib.crc32(job_id.encode()) % streams


def job_stream(job_id: str) -> str:
    """Name of the trimmed live stream of one job; field `event` holds `Event.to_json()`."""
    return f"dlh:job:{job_id}"


def lease_key(job_id: str, part: str = "") -> str:
    """Redis key that the supervisor of the current attempt renews; its value is the fencing token.

    `part`: as in `RunPaths`; each node of a run holds a lease of its own.
    """
    return f"dlh:lease:{job_id}" + (f":{part}" if part else "")


class EventKind(StrEnum):
    """What an event tells; the docstring of each names the keys of `Event.data`."""

    STARTED = "started"
    """Supervisor runs: `sandbox_level` (int), `node`, `pid`, `world_size`."""
    RUNNING = "running"
    """First step made: `start_s` (seconds since the supervisor started)."""
    WIDTH = "width"
    """Supervisor: an elastic run has become as wide as was asked by `number`: `ranks` [those that are there],
    `step` that they went on from. Processes of all others have ended."""
    PROGRESS = "progress"
    """`step`, `steps_total`, `epoch`, `epochs`, `samples_per_s`, `eta_s` (null while measuring), `phase` (see
    `worker.memory_words.Phase`); once the model was tried also `fitting_batch`: a batch size below the wished one that
    fits the memory (0: not even a row), and when that changes `memory_grows` (0 or 1): from step to step."""
    METRIC = "metric"
    """`step`, `epoch` (float), `values` {name: number or null}; names as `train/loss`, `val/accuracy`. Without a
    value it is a sign of life of long work that is no step; it may tell `expected_step_s`, once the model was tried."""
    CHECKPOINT = "checkpoint"
    """`name`, `step`, `epoch`, `metric` (or null), `bytes`, `best` (bool; null: control finds out), `removed` [names
    purged or put aside]."""
    SAMPLE = "sample"
    """Supervisor, every second: `ranks` [{rank, cpu_percent, rss_bytes}], `host` {cpu_percent, memory_bytes,
    memory_total_bytes, cores, packages_w (all processor packages; null: not told)}, `gpus` [{index,
    utilization_percent, memory_bytes, power_w}]."""
    LOG = "log"
    """Supervisor: `rank`, `stream` (stdout or stderr), `line_start` (absolute), `lines` [text]."""
    ERROR = "error"
    """`code` (see `FailureCode`), `message`, `hint`, `step` (or null), `traceback` (or null); of a full disk also
    `limit` (bool): it is a limit of the run's own that was reached."""
    NOTE = "note"
    """`message`: something a person should read on the job page. Of a changed split also `step` and `split`
    {before, after, work_s}: rows per rank, and the seconds of a step that each rank worked."""
    RETURNING = "returning"
    """Supervisor: `node`, and of its ranks `outcome` and `failure` as EXITED, which follows. All ranks there have ended
    and what they held is free; what they made is still on its way to the store."""
    EXITED = "exited"
    """Last event of an attempt, by the supervisor: `outcome` (see `Outcome`), `failure` (as ERROR) or null, `node`.
    On several nodes each says so of its own ranks; `failure.suffered` is true where the cause lies on another node,
    `rescue` [names] are checkpoints that a node saved in its own folder because the first one was lost, and `unmet` is
    true where its ranks were to pause before they had met the others, who wait for them."""


class Outcome(StrEnum):
    """How an attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """The program's or the data's fault: not retried."""
    LOST = "lost"
    """The platform's fault (killed rank, lost node): retried from the last checkpoint, with a limit."""
    PAUSED = "paused"
    CANCELLED = "cancelled"


class FailureCode(StrEnum):
    """Known causes; each has a plain sentence and a next step in `harness.jobs.failures`."""

    NAN_LOSS = "nan_loss"
    OUT_OF_MEMORY = "out_of_memory"
    DISK_FULL = "disk_full"
    NODE_DISK_FULL = "node_disk_full"
    DISK_FAULT = "disk_fault"
    DEVICE_FAULT = "device_fault"
    PROGRAM_ERROR = "program_error"
    PROGRAM_SYNTAX = "program_syntax"
    MODEL_NO_BUILD = "model_no_build"
    MODEL_WRONG_SHAPE = "model_wrong_shape"
    DATA_ERROR = "data_error"
    CHECKPOINT_CORRUPT = "checkpoint_corrupt"
    TIME_LIMIT = "time_limit"
    STALLED = "stalled"
    SANDBOX_TOO_WEAK = "sandbox_too_weak"
    START_FAILED = "start_failed"
    RANK_KILLED = "rank_killed"
    NODE_LOST = "node_lost"
    NODE_STOPPED = "node_stopped"


@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that happened in one attempt of one job."""

    kind: EventKind
    job_id: str
    token: int
    """Fencing token of the attempt; control drops events of an older attempt."""
    rank: int
    seq: int
    """Counts up per (token, rank) from 0; a reader drops what it has seen."""
    time_s: float
    """Unix time."""
    data: dict[str, Any] = field(default_factory=dict)
    sent: int | None = None
    """Counts up from 0 over what an attempt's first supervisor sends to control: a gap tells that words were lost on
    the way. None: nobody counted."""

    def to_json(self) -> str:
        """One line of strict JSON; NaN and infinities become null."""
        body = {
            "kind": str(self.kind),
            "job_id": self.job_id,
            "token": self.token,
            "rank": self.rank,
            "seq": self.seq,
            "time_s": self.time_s,
            "data": finite(self.data),
        }
        if self.sent is not None:
            body["sent"] = self.sent
        return json.dumps(body, separators=(",", ":"), allow_nan=False)

    @staticmethod
    def from_json(text: str | bytes) -> Event:
        """Read one line. Raises `ValueError` on anything that is not an event."""
        return Event.from_body(json.loads(text))

    @staticmethod
    def from_body(body: Any) -> Event:
        """The event that a value of JSON is. Raises `ValueError` on anything else."""
        try:
            return Event(
                kind=EventKind(body["kind"]),
                job_id=str(body["job_id"]),
                token=int(body["token"]),
                rank=int(body["rank"]),
                seq=int(body["seq"]),
                time_s=float(body["time_s"]),
                data=dict(body["data"]),
                sent=None if body.get("sent") is None else int(body["sent"]),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not an event: {error}") from error


def finite(value: Any) -> Any:
    """Replace NaN and infinities by None, in depth, so that the value is strict JSON."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value
