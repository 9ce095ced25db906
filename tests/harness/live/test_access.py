"""Who may watch what, for how long, and how many at once."""

from __future__ import annotations

import asyncio
import gc
import json

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient

from harness import live_hub
from harness.accounts.models import Membership
from harness.accounts.services import token_create, user_update
from harness.broker import project_stream
from tests.harness.live.streams import disconnect, hear, opened, sent
from worker.events import job_stream

pytestmark = pytest.mark.django_db(transaction=True)


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
