"""What a node's log says while nothing of it reaches control."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest
import redis
from celery import Celery

from tests.broker import broker
from tests.waiting import wait_for
from worker import celery_app, heartbeat


@pytest.mark.parametrize(
    ("is_there", "words"),
    [
        (
            True,
            "the broker does not know this node's login: it was removed from the pool, or its password changed; `dlh ",
        ),
        (False, "the broker is away: "),
    ],
    ids=["removed", "away"],
)
def test_a_node_that_was_removed_is_told_from_a_broker_that_is_away(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture, is_there: bool, words: str
) -> None:
    monkeypatch.setenv("DLH_NODE_NAME", "node-9")
    with broker(tmp_path) as url:
        client = redis.Redis.from_url(url)
        client.acl_setuser("node", enabled=True, passwords=["+right"], categories=["+@all"], keys=["*"])
        client.close()
        login = f"redis://node:wrong@{url.partition('@')[2]}"
        its = Celery(broker=login if is_there else "redis://127.0.0.1:1/0", task_publish_retry=False)
        monkeypatch.setattr(celery_app, "app", its)
        with caplog.at_level(logging.WARNING, logger="worker.heartbeat"):
            heartbeat.Heartbeat._tell("control.node_report", lambda: "told")
        its.close()
    (line,) = [record.getMessage() for record in caplog.records if record.name == "worker.heartbeat"]
    assert line.startswith(f"cannot report, {words}")
    assert not is_there or "`dlh pool add node-9` makes a token" in line


def test_a_node_says_that_it_leaves_when_control_has_had_time_for_its_last_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[tuple[str, float]] = []
    monkeypatch.setattr(heartbeat.compileall, "compile_dir", lambda *_, **__: True)
    monkeypatch.setattr(heartbeat.Heartbeat, "_tell", lambda _, task, __: said.append((task, time.monotonic())))
    beat = heartbeat.Heartbeat()
    beat.start()
    wait_for(lambda: said)
    beat.leave()
    (last, reported_s), (word, left_s) = said[-2:]
    assert (last, word) == ("control.node_report", "control.node_leave")
    assert left_s - reported_s >= heartbeat.LEAVE_AFTER_S
