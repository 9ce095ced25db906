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
BATCH_EVENTS = 500
LEASE_S = 15.0
RENEW_S = 4.0
SEND_S = 0.1
RETRY_S = 1.0
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
        self._buffer: deque[Event] = deque()
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
            self._buffer.extend(events)
            if len(self._buffer) > BUFFER_EVENTS:
                self._shrink()
        self._wake.set()

    def _shrink(self) -> None:
        kept = [event for event in self._buffer if event.kind not in _DISPENSABLE]
        self._buffer = deque(kept[-BUFFER_EVENTS:])
        self._sent += len(kept) - len(self._buffer)

    def close(self, wait_s: float) -> bool:
        """Send the rest, give the lease back. False where the broker stayed away for `wait_s`."""
        if not self.url:
            return True
        self._closing = True
        self._wake.set()
        self._thread.join(timeout=wait_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        client = redis.Redis.from_url(self.url, socket_timeout=5.0, socket_connect_timeout=2.0)
        while True:
            try:
                self._renew(client)
                sent = self._send_batch(client)
                if self._closing and not self._buffer:
                    if self._lease:
                        client.eval(_GIVE, 1, self._lease, str(self.token))
                    return
                if not sent:
                    self._wake.wait(SEND_S if self._buffer else RENEW_S / 2)
                    self._wake.clear()
            except redis.RedisError as error:
                _log.warning("broker is away, %d events wait: %s", len(self._buffer), error)
                time.sleep(RETRY_S)
            except Exception:  # whatever it is: a run whose lease nobody renews is called lost
                _log.exception("cannot forward, %d events wait", len(self._buffer))
                time.sleep(RETRY_S)

    def _renew(self, client: redis.Redis) -> None:
        if not self._lease or time.monotonic() - self._renewed_s < RENEW_S:
            return
        if not client.eval(_TAKE, 1, self._lease, str(self.token), str(int(LEASE_S * 1000))):
            self.fenced.set()
        self._renewed_s = time.monotonic()

    def _send_batch(self, client: redis.Redis) -> int:
        with self._lock:
            batch = [self._buffer[index] for index in range(min(BATCH_EVENTS, len(self._buffer)))]
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
            for event in batch:
                if self._buffer and self._buffer[0] is event:
                    self._buffer.popleft()
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
