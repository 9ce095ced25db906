"""Follow a job until it has ended: woken by live events, by polling where there are none."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from harness.client.client import ENDED, Client, Json
from harness.client.errors import ApiError, Unreachable
from harness.client.patience import Away, outlasting, untold

REFRESH_S = 0.5
"""The job is asked for at most this often, however many events come."""
POLL_S = 2.0
_STREAM_FAILURES_MAX = 3
LEVELS = ("", "info", "warning", "error")
"""Of log lines, the least first; "" is all of them."""
_LINES_PER_PAGE = 5000


def rests(job: Json) -> bool:
    """Whether nothing more happens to the job without a person.

    A draft whose learning rate is tested first is queued by itself after the test.
    """
    return job["state"] in ENDED or job["state"] == "paused" or (job["state"] == "draft" and not tested_first(job))


def tested_first(job: Json) -> bool:
    """Whether it is a draft that was submitted and waits for its range test."""
    return bool(job.get("rate_test_first"))


def job_updates(
    client: Client, job_id: str, *, away: Away = untold,
    sleep: Callable[[float], None] = time.sleep, clock_s: Callable[[], float] = time.monotonic,
) -> Iterator[Json]:  # fmt: skip
    """The job again and again as it changes; ends with it at rest. Raises `ApiError`, `Unreachable`.

    `away` is told, once each time, of a portal that does not answer any more; after `AWAY_S` it is an error.
    """
    job = _job(client, job_id)
    yield job
    failures = 0
    while not rests(job):
        if failures < _STREAM_FAILURES_MAX:
            try:
                for job in _woken(client, job_id):
                    failures = 0
                    yield job
                if rests(job):
                    return
            except (ApiError, Unreachable):
                pass
            failures += 1
        sleep(POLL_S if failures >= _STREAM_FAILURES_MAX else REFRESH_S)
        job = outlasting(lambda: _job(client, job_id), away, sleep=sleep, clock_s=clock_s)
        yield job


def _job(client: Client, job_id: str) -> Json:
    """As it is. A draft at rest is asked for again: the portal reads its state first, and it may have been queued
    before the portal looked whether a test of it is to come."""
    job = client.job(job_id)
    return client.job(job_id) if job["state"] == "draft" and rests(job) else job


def _woken(client: Client, job_id: str) -> Iterator[Json]:
    with client.live(f"job:{job_id}") as events:
        # Asked again with the stream open: what happened before it cannot be missed.
        job = _job(client, job_id)
        yield job
        next_s = time.monotonic() + REFRESH_S
        for event in events:
            if rests(job):
                return
            urgent = event.name not in {"position", "metric", "sample", "log", "progress"}
            if urgent or time.monotonic() >= next_s:
                job = _job(client, job_id)
                yield job
                next_s = time.monotonic() + REFRESH_S
            if rests(job):
                return


_Ask = Callable[[Callable[[], Json]], Json]
"""Asks for something, again or not where the portal is away."""


def _at_once(get: Callable[[], Json]) -> Json:
    return get()


def log_lines(
    client: Client, job_id: str, *, rank: int | None = None, query: str = "", level: str = "", tail: int = 0
) -> Iterator[Json]:
    """Lines that are there now: the last `tail`, or all."""
    params = {"rank": rank, "query": query, "level": level}
    if tail:
        found = client.job_part(job_id, "logs", tail="true", limit=tail, **params)
        if found.get("stopped_line") is None:
            yield from found["lines"]
        else:  # the portal has not come to the last of them
            yield from deque(log_lines(client, job_id, rank=rank, query=query, level=level), maxlen=tail)
        return
    head = client.job_part(job_id, "logs", limit=1)
    for number in head["ranks"] if rank is None else [rank]:
        yield from _lines_after(client, job_id, 0, token=head["token"], rank=number, query=query, level=level)


def _lines_after(client: Client, job_id: str, line: int, *, ask: _Ask = _at_once, **params: Any) -> Iterator[Json]:
    """Lines of one rank in one attempt, page by page; where a search took the portal too long, on from there."""
    more = True
    while more:
        page = ask(partial(client.job_part, job_id, "logs", after_line=line, limit=_LINES_PER_PAGE, **params))
        yield from page["lines"]
        came_to = page.get("stopped_line") or (page["lines"][-1]["line"] if page["lines"] else line)
        more, line = page["more"] and came_to > line, came_to


def log_follow(
    client: Client,
    job_id: str,
    *,
    rank: int | None = None,
    query: str = "",
    level: str = "",
    away: Away = untold,
    sleep: Callable[[float], None] = time.sleep,
    clock_s: Callable[[], float] = time.monotonic,
) -> Iterator[Json]:
    """Lines as they are written, of every attempt that follows, until the job rests.

    `away` is told of a portal that does not answer any more, as in `job_updates`.
    """

    def ask(get: Callable[[], Json]) -> Json:
        return outlasting(get, away, sleep=sleep, clock_s=clock_s)

    seen: dict[tuple[int, int], int] = {}
    last: Json | None = None
    while True:
        ended = rests(ask(lambda: client.job(job_id)))
        head = ask(lambda: client.job_part(job_id, "logs", limit=1))
        # What an attempt wrote after the last look at it is read before the one that follows: it tells why it ended.
        for told in [head] if last is None or last["token"] == head["token"] else [last, head]:
            for number in told["ranks"] if rank is None else [rank]:
                key = (told["token"], number)
                for line in _lines_after(client, job_id, seen.get(key, 0), ask=ask, token=key[0], rank=number):
                    seen[key] = line["line"]
                    if query.lower() in line["text"].lower() and _at_least(line["level"], level):
                        yield line
        if ended:
            return
        last = head
        sleep(POLL_S / 2)


def _at_least(found: str, wanted: str) -> bool:
    return LEVELS.index(found) >= LEVELS.index(wanted)
