"""What those who watch hear, and in which order."""

from __future__ import annotations

import asyncio
import gc
import json
from contextlib import aclosing

import pytest
from asgiref.sync import sync_to_async

from harness import live, live_hub
from harness.accounts.models import Membership
from harness.broker import POOL_STREAM, project_stream
from tests.harness.live.streams import disconnect, hear, opened, sent
from worker.events import job_stream

pytestmark = pytest.mark.django_db(transaction=True)


async def test_what_happens_is_heard_as_it_happens(job, people, broker):
    response = await opened(people.viewer, f"job:{job.pk}")
    assert response["Content-Type"] == "text/event-stream"
    assert response["X-Accel-Buffering"] == "no" and response["Content-Encoding"] == "identity"

    async def speak():
        while not any(name for name in live_hub.hub()._watchers):
            await asyncio.sleep(0.01)
        for seq in range(3):
            broker.xadd(job_stream(job.pk), sent(job.pk, seq, values={"a": seq}))

    speaker = asyncio.create_task(speak())
    heard = await hear(response, 3)
    await speaker
    assert [(name, body["seq"], body["topic"]) for name, _, body in heard] == [
        ("metric", seq, f"job:{job.pk}") for seq in range(3)
    ]


async def test_a_stream_that_broke_goes_on_without_gap_or_duplicate(job, people, broker):
    for seq in range(10):
        broker.xadd(job_stream(job.pk), sent(job.pk, seq))
        broker.xadd(POOL_STREAM, {"event": json.dumps({"kind": "node", "data": {"number": seq}})})
    topics = f"job:{job.pk},pool"
    numbers, last_id = [], ""
    for part in (7, 6, 7):
        response = await opened(people.owner, topics, **({"Last-Event-ID": last_id} if last_id else {}))
        heard = await hear(response, part)
        numbers += [(body["kind"], body.get("seq", body["data"].get("number"))) for *_, body in heard]
        last_id = heard[-1][1]
    assert sorted(numbers) == sorted([("metric", n) for n in range(10)] + [("node", n) for n in range(10)])


async def test_who_leaves_before_anything_is_said_goes_on_from_there(job, people, broker, monkeypatch):
    topics = f"job:{job.pk},pool"
    response = await opened(people.owner, topics)
    stream = aiter(response.streaming_content)
    first = (await anext(stream)).decode()
    await disconnect(stream)
    fields = dict(line.split(": ", 1) for line in first.strip().splitlines())
    assert fields["event"] == "position" and json.loads(fields["data"]) == {"kind": "position", "gap": False}
    for seq in range(2):
        broker.xadd(job_stream(job.pk), sent(job.pk, seq))
    await asyncio.sleep(0.01)
    monkeypatch.setattr(live, "REPLAY_MS", 0)  # who named no place would hear nothing of that
    heard = await hear(await opened(people.owner, topics, **{"Last-Event-ID": fields["id"]}), 2)
    assert [body["seq"] for *_, body in heard] == [0, 1]


async def test_who_sees_no_project_waits_for_one_in_peace(people, broker):
    await sync_to_async(Membership.objects.all().delete)()
    response = await opened(people.mate, "jobs,datasets")
    stream = aiter(response.streaming_content)
    async with asyncio.timeout(20):
        first, second = (await anext(stream)).decode(), await anext(stream)
    await disconnect(stream)
    assert "event: position" in first and second == b": ping\n\n"
    last_id = first.partition("id: ")[2].partition("\n")[0]
    await sync_to_async(Membership.objects.create)(user=people.mate, project=people.project, role="member")
    broker.xadd(project_stream(people.project.pk), {"event": json.dumps({"kind": "job", "data": {"job_id": "x"}})})
    ((_, _, body),) = await hear(await opened(people.mate, "jobs", **{"Last-Event-ID": last_id}), 1)
    assert body["data"]["job_id"] == "x"


async def test_who_was_away_for_too_long_is_told_that_words_are_gone(job, people, broker):
    async def gap(last_id=""):
        response = await opened(people.owner, f"job:{job.pk},pool", **({"Last-Event-ID": last_id} if last_id else {}))
        stream = aiter(response.streaming_content)
        first = (await anext(stream)).decode()
        await disconnect(stream)
        return json.loads(first.partition("data: ")[2])["gap"]

    ids = [broker.xadd(job_stream(job.pk), sent(job.pk, seq)) for seq in range(5)]
    early = f"@{int(ids[0].split('-')[0]) - 1}-0"
    assert not await gap(early), "nothing is gone yet"
    broker.xtrim(job_stream(job.pk), maxlen=2, approximate=False)
    assert await gap(early)
    assert not await gap(f"@{ids[3]}"), "what is gone was heard"
    heard = f"{early},{job_stream(job.pk)}@{ids[4]}"
    assert not await gap(heard)
    broker.delete(job_stream(job.pk))
    assert await gap(heard), "what was heard is gone, and with it perhaps what came after"
    assert not await gap(early)
    broker.xadd(job_stream(job.pk), sent(job.pk, 9))
    assert await gap(heard)
    days_ago = int(ids[0].split("-")[0]) - 2 * 86_400_000
    assert await gap(f"@{days_ago}-0"), "streams end a day after their last word"
    assert not await gap(), "who opens a page has read all of it"


async def test_many_watchers_share_one_reader(job, people, broker):
    responses = [await opened(people.owner, f"job:{job.pk}") for _ in range(5)]
    listeners = [asyncio.create_task(hear(response, 2)) for response in responses]
    while len(live_hub.hub()._watchers.get(job_stream(job.pk), ())) < 5:
        await asyncio.sleep(0.01)
    readers = [task for task in asyncio.all_tasks() if task.get_name() == "live-reader"]
    assert len(readers) == 1
    for seq in range(2):
        broker.xadd(job_stream(job.pk), sent(job.pk, seq))
    for heard in await asyncio.gather(*listeners):
        assert [body["seq"] for *_, body in heard] == [0, 1]
    responses.clear()  # the server drops a response that is over, and with it a stream that was between two pieces
    async with asyncio.timeout(20):
        while live_hub.hub()._watchers:
            gc.collect()  # Django's test response refers to itself
            await asyncio.sleep(0.01)


async def test_a_watcher_that_is_too_slow_loses_nothing(job, people, broker, monkeypatch):
    monkeypatch.setattr(live_hub, "QUEUE_LENGTH", 5)
    hub = live_hub.hub()
    stream = job_stream(job.pk)
    subscriber = hub.subscribe({stream: "0-0"})
    while subscriber._queue.qsize() < 5:
        broker.xadd(stream, sent(job.pk, 0), maxlen=5000)
        await asyncio.sleep(0.01)
    for _ in range(50):
        broker.xadd(stream, sent(job.pk, 0))
    total, heard = broker.xlen(stream), []
    async with asyncio.timeout(20):
        while len(heard) < total:
            heard += await subscriber.next_entries(0.1)
    hub.unsubscribe(subscriber)
    assert len({entry.id for entry in heard}) == len(heard) == total


def test_of_progress_that_waits_only_the_newest_of_each_run_is_told():
    from harness.live import newest
    from harness.live_hub import Entry

    def entry(stream, number, kind):
        return Entry(stream, f"{number}-0", json.dumps({"kind": kind, "data": {}}, separators=(",", ":")))

    told = newest(
        [entry("a", 1, "progress"), entry("b", 2, "progress"), entry("a", 3, "metric"), entry("a", 4, "progress")]
    )
    assert [one.id for one in told] == ["2-0", "3-0", "4-0"]


async def test_hundreds_of_pages_that_open_in_one_moment_all_hear(broker, caplog):
    streams = [job_stream(f"job{number}") for number in range(300)]
    for stream in streams:
        broker.xadd(stream, sent("job", 1))

    async def first(stream):
        async with aclosing(live_hub.follow({stream: "0-0"}, idle_s=20)) as batches:
            async for entries in batches:
                return entries[0].stream

    async with asyncio.timeout(60):
        heard = await asyncio.gather(*map(first, streams))
    assert heard == streams
    assert not caplog.records


async def test_bytes_that_are_no_text_silence_nobody(job, people, broker):
    broker.xadd(POOL_STREAM, {"event": b"\xff"})
    response = await opened(people.viewer, f"job:{job.pk},pool")

    async def speak():
        while not live_hub.hub()._positions:
            await asyncio.sleep(0.01)
        for seq in range(3):
            broker.xadd(POOL_STREAM, {"event": b"\xff"})
            broker.xadd(job_stream(job.pk), sent(job.pk, seq))
            await asyncio.sleep(0.05)

    speaker = asyncio.create_task(speak())
    heard = await hear(response, 3)
    await speaker
    assert [body["seq"] for *_, body in heard] == [0, 1, 2]
