"""Where one installation meets its first limit: 1,000 nodes with 8,000 devices, on a portal and control processes.

    make bench-scale [ARGS="--nodes 1000 --devices 8 --width 4 --queued 1000"]

Nodes and runs are rows and words, not machines; everything that takes them in is the product's own, on a PostgreSQL
that syncs its writes and a real broker. Each duty is timed, then told as the share of one process that it takes at this
size, by the periods of the product (a heartbeat every 5 s, a look at the queue every 2 s, at all runs every 5 s, and of
each run with three steps a second eight events). Events are then read by one and by two control processes at once, in
turn. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import redis

from tests.benchmarks.scale_readers import Shared, broker_cpu_s, load_words, readers_compare
from tests.benchmarks.scale_scene import installation, queue_fill, report_of
from worker.events import CONTROL_STREAM, Event, EventKind, job_stream
from worker.heartbeat import BEAT_S

STEPS_PER_S = 3
EVENTS_PER_S = 2 * STEPS_PER_S + 2
"""Of one run: progress and losses at each step, rates and a sample of its resources each second."""
SECONDS = 3
"""How often all runs speak to a reader in this process."""
SPEAK = """
import sys, time, redis
client, streams, event = redis.Redis.from_url(sys.argv[1]), sys.argv[2].split(","), sys.argv[4]
for _ in range(int(sys.argv[3]) * int(sys.argv[5])):
    began = time.monotonic()
    pipe = client.pipeline(transaction=False)
    for stream in streams:
        pipe.xadd(stream, {"event": event.replace('"time_s":0.0', f'"time_s":{time.time()}')}, maxlen=20000)
    pipe.execute()
    time.sleep(max(0.0, 1 / int(sys.argv[5]) - (time.monotonic() - began)))
"""
"""What the supervisors of watched runs do, as one process."""


@dataclass(frozen=True)
class Duty:
    """Something that control or portal does all the time."""

    name: str
    unit: str
    per_s: float
    """How often at this size."""
    cost_s: float
    """Of one."""
    writes_per_s: float = 0.0
    """Rows that the database inserts, updates or deletes for it."""

    @property
    def busy_share(self) -> float:
        """Of one process that does nothing else."""
        return self.per_s * self.cost_s


def timed(act: Callable[[], Any], repeats: int = 3) -> float:
    """Median seconds."""
    taken = []
    for _ in range(repeats):
        began_s = time.perf_counter()
        act()
        taken.append(time.perf_counter() - began_s)
    return median(taken)


def rows_written() -> int:
    """Since the server started."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("select pg_stat_force_next_flush()")
        cursor.execute(
            "select tup_inserted + tup_updated + tup_deleted from pg_stat_database where datname = current_database()"
        )
        return int(cursor.fetchone()[0])


def heartbeats(nodes: int, devices: int) -> Duty:
    """Nodes join; then they say that nothing has changed."""
    from harness.pool.services import node_report

    reports = [report_of(number, devices) for number in range(nodes)]
    began_s = time.perf_counter()
    for report in reports:
        node_report(report)
    print(f"  {nodes} nodes with {devices} devices each joined in {time.perf_counter() - began_s:.1f} s", flush=True)
    before = rows_written()
    cost_s = timed(lambda: [node_report(report) for report in reports], 1) / nodes
    return Duty("heartbeats", "node", nodes / BEAT_S, cost_s, (rows_written() - before) / BEAT_S)


def ticks(jobs: int, width: int) -> tuple[Duty, float]:
    """All that fits is started, then a look at the queue that changes nothing; (that look, seconds per start)."""
    from harness.celery import TICK_PERIOD_S
    from harness.jobs.control.tick import tick
    from harness.jobs.models import Job

    queue_fill(jobs, width)
    began_s, started, rounds = time.perf_counter(), 0, 0
    while (now := tick()) or not rounds:
        started, rounds = started + now, rounds + 1
    taken_s = time.perf_counter() - began_s
    waiting = Job.objects.filter(state="queued").count()
    print(f"  {started} jobs started in {rounds} ticks, {taken_s:.1f} s; {waiting} wait", flush=True)
    before = rows_written()
    return Duty("queue", "look", 1 / TICK_PERIOD_S, timed(tick), (rows_written() - before) / 3 / TICK_PERIOD_S), (
        taken_s / max(1, started)
    )


def second_of(job_id: str, second: int) -> list[Event]:
    """What a run says in one second."""
    at = {"job_id": job_id, "token": 1, "rank": 0, "time_s": time.time()}
    found = []
    for step in range(second * STEPS_PER_S, (second + 1) * STEPS_PER_S):
        progress = {"step": step, "steps_total": 10**6, "epoch": 0.1, "epochs": 9, "samples_per_s": 900.0, "eta_s": 9.0}
        loss = {"step": step, "epoch": 0.1, "values": {"train/loss": 1.0}}
        found += [(EventKind.PROGRESS, progress), (EventKind.METRIC, loss)]
    rates = {"step": second * STEPS_PER_S, "epoch": 0.1, "values": {"rank0/samples_per_s": 900.0}}
    sample = {"ranks": [{"rank": 0, "cpu_percent": 99.0, "rss_bytes": 1 << 30}], "host": {}, "gpus": []}
    found += [(EventKind.METRIC, rates), (EventKind.SAMPLE, sample)]
    return [
        Event(kind=kind, seq=second * EVENTS_PER_S + number, data=data, **at)
        for number, (kind, data) in enumerate(found)
    ]


def events(client: redis.Redis) -> tuple[Duty, Duty, list[Shared]]:
    """A second's words of every run, as the forwarders send them; (control's reading, the broker's part, readers)."""
    from harness.jobs.control.ingest import ingest
    from harness.jobs.models import Job

    running = list(Job.objects.filter(state="placed").values_list("pk", flat=True))
    Job.objects.filter(pk__in=running).update(state="running")
    ingest()
    taken, written, broker_s = [], 0, 0.0
    for second in range(SECONDS):
        cpu_s, before = broker_cpu_s(client), rows_written()
        pipe = client.pipeline(transaction=False)
        for job_id in running:
            for event in second_of(job_id, second):
                pipe.xadd(CONTROL_STREAM, {"event": event.to_json()}, maxlen=10**6)
                pipe.xadd(job_stream(job_id), {"event": event.to_json()}, maxlen=20_000)
        pipe.execute()
        began_s = time.perf_counter()
        read = ingest()
        taken.append(time.perf_counter() - began_s)
        if read != len(running) * EVENTS_PER_S:
            raise RuntimeError(f"{read} events were read of {len(running) * EVENTS_PER_S}")
        written, broker_s = rows_written() - before, broker_cpu_s(client) - cpu_s
    need = len(running) * EVENTS_PER_S
    return (
        Duty("events", "event", need, median(taken) / need, written),
        Duty("broker (its own process)", "event", need, broker_s / need),
        readers_compare(client, running, second_of, SECONDS),
    )


def rounds() -> Duty:
    """Reconcile: every run is compared with what its node says (the queue's look at the end is counted there)."""
    from harness.celery import RECONCILE_PERIOD_S
    from harness.jobs.control import reconcile
    from harness.jobs.models import JobAttempt

    tick, reconcile.tick = reconcile.tick, lambda: 0
    try:
        before = rows_written()
        cost_s = timed(reconcile.reconcile)
        written = (rows_written() - before) / 3
    finally:
        reconcile.tick = tick
    print(f"  {JobAttempt.objects.filter(ended_at=None).count()} runs are still held for alive", flush=True)
    return Duty("runs", "round", 1 / RECONCILE_PERIOD_S, cost_s, written / RECONCILE_PERIOD_S)


async def watched(url: str, pages: int, seconds: int) -> tuple[float, float]:
    """So many people, each on a run of their own; (processor seconds per event told, 95th percentile of the delay)."""
    from harness.live import Topic, event_id
    from harness.live_hub import follow

    delays: list[float] = []

    async def watch(stream: str) -> None:
        topic, start = Topic("job", stream), {stream: "0-0"}
        async for entries in follow(start, idle_s=15.0):
            for entry in entries:
                delays.append(time.time() - json.loads(entry.event)["time_s"])
                event_id(start, {stream: entry.id}), topic.takes(json.loads(entry.event))

    streams = [f"dlh:job:watched{number}" for number in range(pages)]
    tasks = [asyncio.create_task(watch(stream)) for stream in streams]
    await asyncio.sleep(1.0)
    text = Event(kind=EventKind.PROGRESS, job_id="x", token=1, rank=0, seq=0, time_s=0.0, data={"step": 1}).to_json()
    command = [sys.executable, "-c", SPEAK, url, ",".join(streams), str(seconds), text, str(EVENTS_PER_S)]
    cpu_s = time.process_time()
    speaker = await asyncio.create_subprocess_exec(*command, stdout=subprocess.DEVNULL)
    await speaker.wait()
    await asyncio.sleep(1.0)
    cpu_s = time.process_time() - cpu_s
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    if len(delays) != pages * seconds * EVENTS_PER_S:
        raise RuntimeError(f"{len(delays)} events were told of {pages * seconds * EVENTS_PER_S}")
    return cpu_s / len(delays), sorted(delays)[int(0.95 * len(delays))]


def main() -> None:
    """Fill, time, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--devices", type=int, default=8, help="on each node")
    parser.add_argument("--width", type=int, default=4, help="devices of each job")
    parser.add_argument("--queued", type=int, default=1000, help="jobs that find no device")
    parser.add_argument("--pages", type=int, default=200, help="people who watch a run each")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-scale-") as folder, installation(Path(folder)) as client:
        beat = heartbeats(chosen.nodes, chosen.devices)
        queue, start_s = ticks(chosen.nodes * chosen.devices // chosen.width + chosen.queued, chosen.width)
        read, broker, shared = events(client)
        held = rounds()
        told_s, delay_s = asyncio.run(watched(os.environ["DLH_REDIS_URL"], chosen.pages, 5))
    page = Duty(f"live pages ({chosen.pages})", "event", chosen.pages * EVENTS_PER_S, told_s)
    duties = [beat, queue, read, held, broker, page]
    print(f"\n  {'duty':26} {'per s':>9} {'cost, ms':>10} {'of a process':>13} {'rows/s':>8} {'full at':>13}")
    for duty in duties:
        full = f"{(chosen.pages if duty is page else chosen.nodes) / duty.busy_share:,.0f}"
        full += " pages" if duty is page else " nodes"
        cells = f"{duty.per_s:9,.1f} {duty.cost_s * 1000:10.3f} {duty.busy_share:13.0%} {duty.writes_per_s:8,.0f}"
        print(f"  {duty.name:26} {cells} {full:>13}")
    print(f"  a start takes {start_s * 1000:.1f} ms; a live word {delay_s * 1000:.0f} ms (95th percentile)")
    for each in shared:
        costs = ", ".join(
            f"{name} {cost_s * 1000:.3f}"
            for name, cost_s in (
                ("readers", each.reader_cpu_s), ("database", each.database_cpu_s), ("broker", each.broker_cpu_s),
            )
        )  # fmt: skip
        shares = "/".join(f"{share:.0%}" for share in each.shares)
        print(f"  {each.readers} readers ({shares}): {each.events_per_s:,.0f} events/s; processor ms an event: {costs}")
    print(f"  {load_words()} at the end, this benchmark's own included")
    first = max((duty for duty in duties if duty is not page), key=lambda duty: duty.busy_share)
    print(f"  the first limit: {first.name}")
    told = {duty.name: asdict(duty) | {"busy_share": duty.busy_share} for duty in duties}
    print(json.dumps({"benchmark": "scale", **vars(chosen), "duties": told, "start_s": start_s, "delay_s": delay_s,
                      "readers": [asdict(each) for each in shared], "first_limit": first.name}))  # fmt: skip


if __name__ == "__main__":
    main()
