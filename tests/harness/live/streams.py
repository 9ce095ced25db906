"""A live stream as a page opens and hears it."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

from django.test import AsyncClient

from worker.events import Event, EventKind


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
