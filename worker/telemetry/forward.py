"""Send what a run says to Redis: buffered, in order, surviving a broker that is away.

The files of the run are the truth. While the broker is away events wait in memory (log lines and samples are
the first to be dropped), the lease is not renewed, and nothing else changes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

import redis

from worker.events import LIVE_KEEP_S, Event, EventKind, control_stream, job_stream, lease_key

CONTROL_LENGTH = 100_000
JOB_LENGTH = 20_000
JOB_BYTES = 64 << 20
"""Of a job's live stream, whichever is reached first: a program chooses how long its words are, up to 64 KiB, and the
broker keeps them in memory for `LIVE_KEEP_S`. Who reads there is told of a gap, and pages take it from the database.
Each process that forwards keeps to the bytes for what it put there itself: a stream to which several nodes of a job, or
attempts one after the other, speak may hold so much of each."""
BUFFER_EVENTS = 100_000
BUFFER_BYTES = 64 << 20
"""Of the events that wait while the broker is away, whichever is reached first."""
BATCH_EVENTS, BATCH_BYTES = 500, 1 << 20
"""Sent at once, whichever is reached first: the lease is renewed in between, and what a cut line takes with it is sent
again."""
LEASE_S = 15.0
RENEW_S = 4.0
SEND_S = 0.1
RETRY_S = 1.0
LOOK_S = 0.5
CLOSE_MOST_S = 1800.0
PROMPT = frozenset(
    {EventKind.STARTED, EventKind.RUNNING, EventKind.CHECKPOINT, EventKind.ERROR, EventKind.WIDTH, EventKind.EXITED},
)
"""After these the database should follow at once: `control.ingest` is sent."""
_DISPENSABLE = frozenset({EventKind.LOG, EventKind.SAMPLE})
_TAKE = """
local held = redis.call('GET', KEYS[1])
if held and tonumber(held) > tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
_GIVE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
_log = logging.getLogger(__name__)


class _Live:
    """What one process put into the live stream of its job, as far as it is kept there."""

    def __init__(self, sizes_bytes: Iterable[int] = ()) -> None:
        self._sizes_bytes = deque(sizes_bytes)
        """Of each entry, the newest last."""
        self._bytes = sum(self._sizes_bytes)

    def copy(self) -> _Live:
        """One that changes on its own."""
        return _Live(self._sizes_bytes)

    def add(self, size_bytes: int) -> int:
        """How many entries the stream may keep, now that one of this size comes."""
        self._sizes_bytes.append(size_bytes)
        self._bytes += size_bytes
        is_large = self._bytes > JOB_BYTES
        while self._bytes > JOB_BYTES or len(self._sizes_bytes) > JOB_LENGTH:
            self._bytes -= self._sizes_bytes.popleft()
        return max(1, len(self._sizes_bytes)) if is_large else JOB_LENGTH


class _Waiting:
    """Events that the broker has not taken yet, the oldest first, bounded by their number and by their bytes."""

    def __init__(self) -> None:
        self._events: deque[tuple[Event, int]] = deque()
        """Each with the bytes of its text."""
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._events)

    def extend(self, events: Iterable[Event]) -> int:
        """How many of those that control should have had must be dropped, for want of room."""
        for event in events:
            self._add(event, len(event.to_json()))
        return self._shrink() if self._is_over() else 0

    def first(self) -> list[Event]:
        """The oldest ones, as many as are sent at once, which stay."""
        batch: list[Event] = []
        left_bytes = BATCH_BYTES
        for event, size_bytes in islice(self._events, BATCH_EVENTS):
            left_bytes -= size_bytes
            if batch and left_bytes < 0:
                break
            batch.append(event)
        return batch

    def drop(self, events: Iterable[Event]) -> None:
        """Those that `first` gave and that are still there."""
        for event in events:
            if self._events and self._events[0][0] is event:
                self._bytes -= self._events.popleft()[1]

    def _add(self, event: Event, size_bytes: int) -> None:
        self._events.append((event, size_bytes))
        self._bytes += size_bytes

    def _is_over(self) -> bool:
        return len(self._events) > BUFFER_EVENTS or self._bytes > BUFFER_BYTES

    def _shrink(self) -> int:
        told, dropped = [entry for entry in self._events if entry[0].kind not in _DISPENSABLE], 0
        self._events, self._bytes = deque(told), sum(size_bytes for _, size_bytes in told)
        while self._is_over():
            self._bytes -= self._events.popleft()[1]
            dropped += 1
        return dropped


class Forwarder:
    """One thread that owns the connection to Redis. Without a URL it only swallows."""

    def __init__(
        self, url: str, job_id: str, token: int, part: str = "", *, stream: int = 0, leased: bool = True
    ) -> None:
        """`stream`: that of the job's events; `leased`: the part lives here, and its lease is renewed until `close`."""
        self.job_id, self.token, self.url = job_id, token, url
        self._lease = lease_key(job_id, part) if leased else ""
        self._stream = control_stream(stream)
        self._counts = leased and not part
        self._sent = 0
        """Events that control was sent, or that nobody will send it any more."""
        self.fenced = threading.Event()
        """A newer attempt holds the lease: this one must end."""
        self._live = _Live()
        self._waiting = _Waiting()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closing = False
        self._renewed_s = float("-inf")
        self._thread = threading.Thread(target=self._run, name="forward", daemon=True)
        if url:
            self._thread.start()

    def send(self, events: list[Event]) -> None:
        """Queue events."""
        if not self.url or not events:
            return
        with self._lock:
            self._sent += self._waiting.extend(events)
        self._wake.set()

    def close(self, wait_s: float) -> bool:
        """Send the rest, give the lease back. False where the broker took nothing for `wait_s`, or not all in half an
        hour."""
        if not self.url:
            return True
        self._closing = True
        self._wake.set()
        left, end_s = len(self._waiting), time.monotonic() + wait_s
        latest_s = time.monotonic() + max(wait_s, CLOSE_MOST_S)
        while self._thread.is_alive() and (now_s := time.monotonic()) < end_s:
            self._thread.join(min(LOOK_S, end_s - now_s))
            if len(self._waiting) < left:  # over a slow line, but it gets on: the word of the end comes last
                left, end_s = len(self._waiting), min(latest_s, time.monotonic() + wait_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        client = redis.Redis.from_url(self.url, socket_timeout=5.0, socket_connect_timeout=2.0)
        while True:
            try:
                self._renew(client)
                sent = self._send_batch(client)
                if self._closing and not self._waiting:
                    if self._lease:
                        client.eval(_GIVE, 1, self._lease, str(self.token))
                    return
                if not sent:
                    self._wake.wait(SEND_S if self._waiting else RENEW_S / 2)
                    self._wake.clear()
            except redis.RedisError as error:
                _log.warning("broker is away, %d events wait: %s", len(self._waiting), error)
                time.sleep(RETRY_S)
            except Exception:  # whatever it is: a run whose lease nobody renews is called lost
                _log.exception("cannot forward, %d events wait", len(self._waiting))
                time.sleep(RETRY_S)

    def _renew(self, client: redis.Redis) -> None:
        if not self._lease or time.monotonic() - self._renewed_s < RENEW_S:
            return
        if not client.eval(_TAKE, 1, self._lease, str(self.token), str(int(LEASE_S * 1000))):
            self.fenced.set()
        self._renewed_s = time.monotonic()

    def _send_batch(self, client: redis.Redis) -> int:
        with self._lock:
            batch = self._waiting.first()
            number = self._sent
        if not batch:
            return 0
        pipe, live = client.pipeline(transaction=False), self._live.copy()
        told = 0
        for event in batch:
            for_control = event.kind is not EventKind.LOG  # log files are the truth; a flood must not push events out
            counted = replace(event, sent=number + told) if for_control and self._counts else event
            fields: dict[Any, Any] = {"event": (text := counted.to_json())}
            if for_control:
                pipe.xadd(self._stream, fields, maxlen=CONTROL_LENGTH, approximate=True)
                told += 1
            pipe.xadd(job_stream(self.job_id), fields, maxlen=live.add(len(text)), approximate=True)
        pipe.expire(job_stream(self.job_id), LIVE_KEEP_S)
        pipe.execute()
        # Only now: what is sent once more after a cut keeps its numbers, and takes no room twice.
        self._live = live
        with self._lock:
            self._sent += told
            self._waiting.drop(batch)
        if any(event.kind in PROMPT for event in batch):
            self._prompt_ingest()
        return len(batch)

    def _prompt_ingest(self) -> None:
        from kombu.exceptions import KombuError

        from worker.celery_app import send_to_control

        try:
            send_to_control("control.ingest", [], expires_s=10.0)
        except (KombuError, redis.RedisError, OSError) as error:
            _log.warning("cannot ask for ingest, the beat will do it: %s", error)
