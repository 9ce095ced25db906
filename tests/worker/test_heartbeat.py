"""What a node's log says while nothing of it reaches control."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

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


def test_an_agent_reports_and_leaves_by_one_id_that_no_other_has(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[str, list[Any]]] = []
    monkeypatch.setattr(heartbeat.compileall, "compile_dir", lambda *_, **__: True)
    monkeypatch.setattr(heartbeat, "report", lambda: {"name": "node-9"})
    monkeypatch.setattr(heartbeat, "node_name", lambda: "node-9")
    monkeypatch.setattr(heartbeat, "own_clock_ahead_s", lambda: 0.0)
    monkeypatch.setattr(heartbeat, "send_to_control", lambda task, told, expires_s: said.append((task, told)))
    ids = set()
    for _ in range(2):
        said.clear()
        beat = heartbeat.Heartbeat()
        beat.start()
        wait_for(lambda: said)
        beat.leave()
        (report, (reported,)), (leave, left) = said[-2:]
        assert (report, leave) == ("control.node_report", "control.node_leave")
        assert left == ["node-9", reported["agent_id"]] and reported["name"] == "node-9"
        ids.add(reported["agent_id"])
    assert len(ids) == 2 and all(len(each) == 32 for each in ids)
