"""What is sent while the broker is away: nothing is raised, and nobody waits for it twice."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

import pytest
import redis

from harness import broker as module
from tests.waiting import wait_for
from worker.events import LIVE_KEEP_S, control_stream, job_stream


class Away:
    """A broker that refuses, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def refuse(self, *_: Any, **__: Any) -> None:
        self.asked += 1
        raise redis.ConnectionError("refused")

    xadd = send_task = refuse


@pytest.fixture
def away(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Away:
    found = Away()
    settings.REDIS_URL = "redis://127.0.0.1:1/away"
    monkeypatch.setattr(module, "client", lambda: found)
    monkeypatch.setattr(module, "sender", lambda: found)
    monkeypatch.setattr(module, "_tasks", module._Gate())
    monkeypatch.setattr(module, "_words", module._Gate())
    return found


@pytest.mark.django_db
def test_after_a_failure_no_word_is_tried_for_a_while(
    away: Away, settings: Any, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        for _ in range(3):
            module.publish("stream", "kind", {})
    assert away.asked == 1
    settings.REDIS_URL = "redis://127.0.0.1:1/another"
    with django_capture_on_commit_callbacks(execute=True):
        module.publish("stream", "kind", {})
    assert away.asked == 2


def test_after_a_failure_no_task_is_tried_for_a_while_and_then_again(
    away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [module.task_send("control.tick") for _ in range(3)] == [False] * 3
    assert away.asked == 1
    monkeypatch.setattr(module, "AWAY_S", 0.0)
    monkeypatch.setattr(module, "_tasks", module._Gate())
    assert [module.task_send("control.tick") for _ in range(2)] == [False] * 2
    assert away.asked == 3


def connections_of(server: socket.socket) -> int:
    """How many have connected to a server that has accepted nobody yet."""
    server.setblocking(False)
    count = 0
    with suppress(BlockingIOError):
        while True:
            server.accept()[0].close()
            count += 1
    return count


def test_a_broker_that_does_not_answer_is_waited_for_once(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.2)
    with socket.create_server(("127.0.0.1", 0), backlog=50) as silent:  # takes connections, and says nothing
        settings.REDIS_URL = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        module.client.cache_clear()
        try:
            with pytest.raises(redis.TimeoutError):
                module.client().xadd("stream", {"event": "word"})
        finally:
            module.client.cache_clear()
        assert connections_of(silent) == 1


def connections_taken(broker: redis.Redis) -> int:
    return int(broker.info("stats")["total_connections_received"])


def test_who_sends_a_task_does_not_wait_for_ever_for_a_broker_that_hangs(
    broker: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.celery.SEND_ANSWER_S", 0.3)
    monkeypatch.setattr(module, "AWAY_S", 0.0)
    monkeypatch.setattr(module, "_tasks", module._Gate())
    assert module.task_send("control.tick")
    before = connections_taken(broker)
    broker.client_pause(60_000, all=False)  # whoever writes
    try:
        assert not module.task_send("control.tick")
        assert connections_taken(broker) - before < 10  # each of which waits for an answer once
    finally:
        broker.client_unpause()
    wait_for(lambda: module.task_send("control.tick"), 20.0, "it answers again")


@pytest.mark.django_db
def test_live_words_do_not_stay_in_the_brokers_memory_for_ever(
    broker: redis.Redis, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        module.publish_job("project", "job", "state", {})
        module.publish_all([("one", "kind", {}), ("two", "kind", {})])
    for stream in (module.project_stream("project"), job_stream("job"), "one", "two"):
        assert broker.xlen(stream) == 1
        assert 0 < int(str(broker.ttl(stream))) <= LIVE_KEEP_S


def test_streams_of_releases_that_set_no_end_get_one_and_no_other_key_does(broker: redis.Redis) -> None:
    old = (job_stream("old"), module.project_stream("old"), module.POOL_STREAM)
    for stream in (*old, control_stream(0)):
        broker.xadd(stream, {"event": "{}"})
    broker.xadd(job_stream("new"), {"event": "{}"})
    broker.expire(job_stream("new"), 60)
    assert module.live_streams_expire() == len(old)
    assert all(0 < int(str(broker.ttl(stream))) <= LIVE_KEEP_S for stream in old)
    assert int(str(broker.ttl(job_stream("new")))) <= 60
    assert int(str(broker.ttl(control_stream(0)))) == module.ENDLESS
    assert module.live_streams_expire() == 0
