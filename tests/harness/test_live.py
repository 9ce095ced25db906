from __future__ import annotations

import asyncio
import gc
import json
from contextlib import aclosing, suppress

import pytest
import redis
from asgiref.sync import sync_to_async
from django.test import AsyncClient

from harness import live, live_hub
from harness.accounts.models import Membership
from harness.accounts.services import token_create, user_update
from harness.broker import POOL_STREAM, project_stream
from worker.events import Event, EventKind, job_stream

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def quick_pings(monkeypatch):
    monkeypatch.setattr("harness.live.PING_S", 0.05)


def sent(job_id, seq, kind="metric", **data):
    event = Event(kind=EventKind(kind), job_id=job_id, token=1, rank=0, seq=seq, time_s=1.0, data=data)
    return {"event": event.to_json()}


async def opened(user, topics, **headers):
    client = AsyncClient()
    if user is not None:
        await client.aforce_login(user)
    return await client.get(f"/live?topics={topics}", headers=headers)


async def disconnect(stream):
    """As Django's server side does it: the task that waits for the next piece is cancelled, then the stream closed
    (a piece may have come just before)."""
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    waiting.cancel()
    with suppress(asyncio.CancelledError, StopAsyncIteration):
        await waiting
    await stream.aclose()


async def hear(response, count):
    """The first `count` events as (name, id, body)."""
    heard, stream = [], aiter(response.streaming_content)
    async with asyncio.timeout(20):
        async for chunk in stream:
            fields = dict(
                line.split(": ", 1) for line in chunk.decode().strip().splitlines() if not line.startswith(":")
            )
            if "data" in fields and fields["event"] != "position":
                heard.append((fields.get("event"), fields.get("id"), json.loads(fields["data"])))
            if len(heard) == count:
                break
    await disconnect(stream)
    return heard


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


@pytest.mark.parametrize("hangs", [False, True], ids=["refuses", "hangs"])
async def test_that_the_broker_does_not_answer_is_told_and_that_it_does_again(job, people, broker, monkeypatch, hangs):
    monkeypatch.setattr(live_hub, "AWAY_TOLD_S", 0.0)
    monkeypatch.setattr(live_hub, "RETRY_S", 0.02)
    monkeypatch.setattr(live_hub, "ANSWER_S", 0.05 if hangs else 10.0)
    reader, asked = live_hub.hub().client, []
    answer = reader.xread

    async def xread(*streams, **how):
        asked.append(streams)
        if len(asked) > 3:
            return await answer(*streams, **how)
        await asyncio.sleep(60.0 if hangs else 0.0)
        raise redis.ConnectionError("it is away")

    monkeypatch.setattr(reader, "xread", xread)
    told = await hear(await opened(people.owner, f"job:{job.pk}"), 2)
    assert told == [("broker", None, {"kind": "broker", "away": away}) for away in (True, False)]


@pytest.fixture
def hanging(broker, monkeypatch):
    """The broker hangs: nothing is answered for as long as that is set."""
    monkeypatch.setattr(live_hub, "AWAY_TOLD_S", 0.0)
    monkeypatch.setattr(live_hub, "RETRY_S", 0.02)
    monkeypatch.setattr(live_hub, "ANSWER_S", 0.05)
    hangs, real = asyncio.Event(), redis.asyncio.Redis.execute_command
    hangs.set()

    async def execute(self, *told, **how):
        while hangs.is_set():
            await asyncio.sleep(0.01)
        return await real(self, *told, **how)

    monkeypatch.setattr(redis.asyncio.Redis, "execute_command", execute)
    return hangs


@pytest.mark.parametrize("comes_back", [False, True], ids=["new", "from a last id"])
async def test_who_opens_a_page_while_the_broker_hangs_is_told_and_hears_what_comes_after(
    job, people, broker, hanging, monkeypatch, comes_back
):
    last = {"Last-Event-ID": f"@{live_hub.not_to_come('99999999999999-0')}"} if comes_back else {}
    topic = f"job:{job.pk}"
    first = aiter((await opened(people.owner, topic, **last)).streaming_content)
    async with asyncio.timeout(20):
        while b"event: broker" not in (told := await anext(first)):
            pass
    assert b'"away": true' in told
    monkeypatch.setattr(live_hub, "ANSWER_S", 60.0)  # what is known is told without asking again
    ((name, _, body),) = await hear(await opened(people.mate, topic, **last), 1)
    assert (name, body["away"]) == ("broker", True)
    hanging.clear()
    broker.xadd(job_stream(job.pk), sent(job.pk, 0))
    told = b""
    async with asyncio.timeout(20):
        while b"event: metric" not in told or b'"away": false' not in told:
            told += await anext(first)
    assert told.count(b"event: metric") == 1
    await disconnect(first)


async def test_what_was_known_of_the_broker_goes_with_the_last_who_watched(job, people, broker, hanging, caplog):
    own, topic = live_hub.hub(), f"job:{job.pk}"
    ((name, _, body),) = await hear(await opened(people.owner, topic), 1)
    assert (name, body["away"]) == ("broker", True)
    assert "live reader: the broker does not answer within" in caplog.text
    hanging.clear()
    async with asyncio.timeout(20):
        await own._task
    assert not own.is_away and own._away_since_s is None
    broker.xadd(job_stream(job.pk), sent(job.pk, 0))
    assert [name for name, *_ in await hear(await opened(people.owner, topic), 1)] == ["metric"]


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


async def test_lists_hear_their_own_projects_only(job, people, broker):
    word = json.dumps({"kind": "job", "data": {"job_id": "x"}})
    broker.xadd(project_stream(people.elsewhere.pk), {"event": word.replace('"x"', '"theirs"')})
    broker.xadd(project_stream(people.project.pk), {"event": json.dumps({"kind": "dataset", "data": {}})})
    broker.xadd(project_stream(people.project.pk), {"event": word.replace('"x"', '"ours"')})
    ((name, _, body),) = await hear(await opened(people.mate, "jobs"), 1)
    assert (name, body["data"]["job_id"]) == ("job", "ours")


async def test_an_error_of_a_program_does_not_look_like_a_broken_stream(job, people, broker):
    broker.xadd(job_stream(job.pk), sent(job.pk, 0, kind="error", message="bad"))
    ((name, _, body),) = await hear(await opened(people.owner, f"job:{job.pk}"), 1)
    assert (name, body["kind"]) == ("message", "error")


@pytest.mark.parametrize(
    ("who", "topics", "status"),
    [
        (None, "job:{job}", 401),
        ("outsider", "job:{job}", 404),
        ("outsider", "dataset:{dataset}", 404),
        ("owner", "job:nonsense", 404),
        ("owner", "nonsense", 404),
        ("owner", "", 422),
        ("owner", ",".join(f"job:{number}" for number in range(30)), 422),
    ],
)
async def test_a_topic_that_one_may_not_watch_is_refused(who, topics, status, job, people, broker):
    user = getattr(people, who) if who else None
    response = await opened(user, topics.format(job=job.pk, dataset=job.dataset_id))
    assert response.status_code == status
    assert response.json()["error"]["message"]


async def test_a_token_opens_the_stream_as_well(job, people, broker):
    _, text = await sync_to_async(token_create)(user=people.viewer, name="t", scope="read")
    good = await opened(None, f"job:{job.pk}", Authorization=f"Bearer {text}")
    assert good.status_code == 200
    await disconnect(aiter(good.streaming_content))
    wrong = await opened(None, f"job:{job.pk}", Authorization="Bearer dlh_wrong")
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (401, "unauthenticated")


async def test_a_session_opens_the_stream_behind_a_proxy_that_asks_for_a_password_of_its_own(job, people, broker):
    good = await opened(people.owner, f"job:{job.pk}", Authorization="Basic eDp5")
    assert good.status_code == 200
    await disconnect(aiter(good.streaming_content))
    assert (await opened(None, f"job:{job.pk}", Authorization="Basic eDp5")).status_code == 401


async def test_the_scheme_of_a_token_may_be_written_small_and_a_wrong_one_leaves_no_session(job, people, broker):
    _, text = await sync_to_async(token_create)(user=people.viewer, name="t", scope="read")
    good = await opened(None, f"job:{job.pk}", Authorization=f"bearer {text}")
    assert good.status_code == 200
    await disconnect(aiter(good.streaming_content))
    for wrong in ("bearer dlh_wrong", "Bearer", "Bearer  "):
        assert (await opened(people.owner, f"job:{job.pk}", Authorization=wrong)).status_code == 401


async def test_a_stream_ends_when_the_right_to_it_does(job, people, broker, monkeypatch):
    monkeypatch.setattr("harness.live.RECHECK_S", 0.0)
    response = await opened(people.mate, f"job:{job.pk}")
    await Membership.objects.filter(user=people.mate).adelete()
    ((name, *_),) = await hear(response, 1)
    assert name == "end"


@pytest.mark.parametrize("how", ["signed out", "another password", "switched off"])
async def test_a_stream_ends_with_the_session_that_opened_it(how, job, people, broker, monkeypatch):
    monkeypatch.setattr("harness.live.RECHECK_S", 0.0)
    client = AsyncClient()
    await client.aforce_login(people.mate)
    response = await client.get(f"/live?topics=job:{job.pk}")
    if how == "signed out":
        await client.alogout()
    elif how == "another password":
        await sync_to_async(user_update)(actor=None, user=people.mate, password="another long one 7")
    else:
        await sync_to_async(user_update)(actor=None, user=people.mate, is_active=False)
    ((name, *_),) = await hear(response, 1)
    assert name == "end"


@pytest.mark.parametrize("last_id", ["x@y", "@-5", "@1_0-0", "@ 7-0", f"@{2**64}-0", f"@1-{2**64}", "@1-2-3", "@"])
async def test_a_last_event_id_that_is_none_of_ours_is_refused(last_id, job, people, broker):
    response = await opened(people.owner, "pool", **{"Last-Event-ID": last_id})
    assert response.status_code == 422


async def test_nobody_silences_a_stream_for_others_by_claiming_to_be_ahead(job, people, broker):
    ahead = await opened(people.viewer, f"job:{job.pk}", **{"Last-Event-ID": f"@{2**64 - 1}-0"})
    waiting = asyncio.create_task(hear(ahead, 1))
    while job_stream(job.pk) not in live_hub.hub()._watchers:
        await asyncio.sleep(0.01)
    late = asyncio.create_task(hear(await opened(people.mate, f"job:{job.pk}"), 1))
    watchers = live_hub.hub()._watchers[job_stream(job.pk)]
    while len(watchers) < 2 or any(watcher._behind for watcher in watchers):  # until both wait for the reader
        await asyncio.sleep(0.01)
    broker.xadd(job_stream(job.pk), sent(job.pk, 0))
    ((name, _, body),) = await late
    assert (name, body["seq"]) == ("metric", 0)
    waiting.cancel()


def test_of_progress_that_waits_only_the_newest_of_each_run_is_told():
    from harness.live import newest
    from harness.live_hub import Entry

    def entry(stream, number, kind):
        return Entry(stream, f"{number}-0", json.dumps({"kind": kind, "data": {}}, separators=(",", ":")))

    told = newest(
        [entry("a", 1, "progress"), entry("b", 2, "progress"), entry("a", 3, "metric"), entry("a", 4, "progress")]
    )
    assert [one.id for one in told] == ["2-0", "3-0", "4-0"]


async def test_one_person_has_a_limited_number_of_streams_and_others_theirs(job, people, broker, settings):
    settings.LIVE_STREAMS_MAX = 2
    held = [await opened(people.mate, "pool") for _ in range(2)]
    refused = await opened(people.mate, "pool")
    assert refused.status_code == 429
    assert "Close some" in refused.json()["error"]["hint"]
    assert (await opened(people.owner, "pool")).status_code == 200
    assert len(held) == 2


async def test_a_stream_that_ended_gives_its_seat_back(job, people, broker, settings, monkeypatch):
    settings.LIVE_STREAMS_MAX = 1
    monkeypatch.setattr("harness.live.RECHECK_S", 0.0)
    first = await opened(people.mate, f"job:{job.pk}")
    await Membership.objects.filter(user=people.mate).adelete()
    await hear(first, 1)
    assert (await opened(people.mate, "pool")).status_code == 200


def test_a_page_that_goes_before_the_first_word_gives_its_seat_back(settings):
    from harness.errors import TooMany
    from harness.live import _speak, seat_take

    settings.LIVE_STREAMS_MAX = 1
    words = _speak(None, [], {}, seat_take(-1), "")
    with pytest.raises(TooMany):
        seat_take(-1)
    del words
    gc.collect()
    assert seat_take(-1)


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
