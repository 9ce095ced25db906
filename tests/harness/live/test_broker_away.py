"""Pages are told that the broker does not answer, and hear what comes after."""

from __future__ import annotations

import asyncio

import pytest
import redis

from harness import live_hub
from tests.harness.live.streams import disconnect, hear, opened, sent
from worker.events import job_stream

pytestmark = pytest.mark.django_db(transaction=True)


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
