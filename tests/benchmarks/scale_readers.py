"""Several control processes read events at once: what one and two of them take in, and what that costs whom.

`python -m tests.benchmarks.scale_readers` is one reader: says `ready`, reads from its next line of input on, and ends
with the input, telling its processor time and how many events it read. `readers_compare` starts and times them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psutil
import redis

from worker.events import EVENT_STREAMS_MAX, Event, control_stream, job_stream, stream_number

STREAMS = 8
"""As the product's own setting with PostgreSQL."""


@dataclass(frozen=True)
class Shared:
    """What so many readers do."""

    readers: int
    events_per_s: float
    reader_cpu_s: float
    """Of all of them together, for one event."""
    database_cpu_s: float
    broker_cpu_s: float
    shares: tuple[float, ...]
    """Of the events, by reader, in the last round."""


def readers_compare(
    client: redis.Redis, jobs: list[str], words: Callable[[str, int], list[Event]], first: int, rounds: int = 3
) -> list[Shared]:
    """One and two readers in turn, each time on a second's words of every run; `first`: the second to begin with."""
    found: dict[int, list[Shared]] = {1: [], 2: []}
    for number in range(rounds):
        for readers in found:
            _say(client, jobs, words, first)
            found[readers].append(_read(client, readers, len(jobs) * len(words(jobs[0], first))))
            first += 1
        print(f"  round {number + 1}: " + _words([shown[-1] for shown in found.values()]), flush=True)
    return [sorted(shown, key=lambda each: each.events_per_s)[len(shown) // 2] for shown in found.values()]


def load_words() -> str:
    """The load of the machine in the last minute."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def _words(shown: list[Shared]) -> str:
    return ", ".join(f"{each.readers} readers {each.events_per_s:,.0f} events/s" for each in shown)


def _say(client: redis.Redis, jobs: list[str], words: Callable[[str, int], list[Event]], second: int) -> None:
    pipe = client.pipeline(transaction=False)
    for job_id in jobs:
        stream = control_stream(stream_number(job_id, STREAMS))
        for event in words(job_id, second):
            text = event.to_json()
            pipe.xadd(stream, {"event": text}, maxlen=10**6)
            pipe.xadd(job_stream(job_id), {"event": text}, maxlen=20_000)
    pipe.execute()


def _read(client: redis.Redis, readers: int, need: int) -> Shared:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    argv = [sys.executable, "-m", "tests.benchmarks.scale_readers"]
    processes = [subprocess.Popen(argv, **pipes) for _ in range(readers)]
    for process in processes:
        if process.stdout is None or process.stdout.readline() != "ready\n":
            raise RuntimeError("a reader does not start")
    database_s, broker_s = database_cpu_s(), broker_cpu_s(client)
    began_s = time.perf_counter()
    for process in processes:
        if process.stdin is not None:
            process.stdin.write("\n")
            process.stdin.flush()
    while any(client.xlen(control_stream(number)) for number in range(EVENT_STREAMS_MAX)):
        if any(process.poll() is not None for process in processes):
            raise RuntimeError("a reader ended before all was read")
        time.sleep(0.02)
    taken_s = time.perf_counter() - began_s
    database_s, broker_s = database_cpu_s() - database_s, broker_cpu_s(client) - broker_s
    told = [[float(part) for part in process.communicate()[0].split()] for process in processes]
    if (read := sum(count for _, count in told)) != need:
        raise RuntimeError(f"{read:.0f} events were read of {need}")
    cpu_s = sum(each_s for each_s, _ in told)
    shares = tuple(count / need for _, count in told)
    return Shared(readers, need / taken_s, cpu_s / need, database_s / need, broker_s / need, shares)


def broker_cpu_s(client: redis.Redis) -> float:
    """Processor time of the broker so far."""
    found: Any = client.info("cpu")
    return float(found["used_cpu_user"] + found["used_cpu_sys"])


def database_cpu_s() -> float:
    """Processor time of the server and all that it started so far."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        server = psutil.Process(cursor.fetchone()[0]).parent()
    if server is None:
        raise RuntimeError("the database is not on this machine")
    times = server.cpu_times()
    total = times.user + times.system + times.children_user + times.children_system
    for child in server.children(recursive=True):
        spent = child.cpu_times()
        total += spent.user + spent.system
    return float(total)


def main() -> None:
    """One reader."""
    import django

    django.setup()
    from harness.jobs.control.ingest import ingest
    from harness.jobs.models import Job

    Job.objects.count()  # a reader at work has its connection
    print("ready", flush=True)
    sys.stdin.readline()
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    cpu_s, count = time.process_time(), 0
    while not ended.is_set():
        read = ingest()
        count += read
        if not read:
            ended.wait(0.02)
    print(time.process_time() - cpu_s, count)


if __name__ == "__main__":
    main()
