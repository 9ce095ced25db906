"""The beat of a control process."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from celery import Celery
from celery.beat import Scheduler

from harness import beat as module
from harness.beat import Beat, every

LIMIT_S = 60.0


@pytest.fixture
def app(broker_url: str) -> Celery:
    """Sends a task twenty times a second."""
    app = Celery("beaten", broker=broker_url, set_as_current=False)
    app.conf.task_default_queue = "beaten"
    app.conf.beat_schedule = {"tick": {"task": "beaten.tick", "schedule": every(0.05)}}
    return app


def arrived(broker: redis.Redis, more_than: int) -> int:
    """Wait until more messages than that lie in the queue; how many there are."""
    end_s = time.monotonic() + LIMIT_S
    while (count := broker.llen("beaten")) <= more_than:
        assert time.monotonic() < end_s, "the beat is silent"
        time.sleep(0.02)
    return int(count)


def test_what_breaks_the_beat_does_not_end_it(app: Celery, broker: redis.Redis, monkeypatch: Any) -> None:
    real, broken = Scheduler.tick, []

    def tick(self: Scheduler, *args: Any, **more: Any) -> Any:
        if broker.llen("beaten") > 2 and not broken:
            broken.append(True)
            raise OSError(28, "No space left on device")
        return real(self, *args, **more)

    monkeypatch.setattr(module, "AGAIN_AFTER_S", 0.05)
    monkeypatch.setattr(Scheduler, "tick", tick)
    beat = Beat(app)
    beat.start()
    try:
        arrived(broker, arrived(broker, 2))
        assert broken, "nothing broke"
    finally:
        beat.stop()


def test_a_beat_that_was_stopped_sends_nothing_more(app: Celery, broker: redis.Redis) -> None:
    beat = Beat(app)
    beat.start()
    arrived(broker, 1)
    beat.stop()
    beat._thread.join(LIMIT_S)
    assert not beat._thread.is_alive()


def test_a_clock_that_was_set_back_does_not_silence_the_beat(
    app: Celery, broker: redis.Redis, monkeypatch: Any
) -> None:
    beat = Beat(app)
    beat.start()
    try:
        before = arrived(broker, 2)
        monkeypatch.setattr(app, "now", lambda: datetime.now(UTC) - timedelta(hours=1))
        arrived(broker, before + 2)
    finally:
        beat.stop()
