"""Two machines that were started with one node's secret."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from harness.jobs.control.tick import tick
from harness.pool import reports
from harness.pool.models import Node
from harness.pool.selectors import pool_overview
from tests.harness.jobs.helpers import queue
from worker.heartbeat import BEAT_S

pytestmark = pytest.mark.django_db
HOUR_S = 3600.0
Report = Callable[..., list[str]]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Of control."""
    clock = SimpleNamespace(now_s=1e9)
    monkeypatch.setattr(reports, "time", SimpleNamespace(time=lambda: clock.now_s))
    return clock


@pytest.fixture
def reported(node_make: Any, clock: SimpleNamespace) -> Report:
    """Reports of agents, a letter each, one after the other; the states of the node after them."""

    def report(agents: str, every_s: float = BEAT_S) -> list[str]:
        states = []
        for agent in agents:
            clock.now_s += every_s
            states.append(node_make(agent_id=agent * 32).state)
        return states

    return report


@pytest.mark.parametrize("agents", ["ABABA", "AABABBA", "ABCABCA"])
def test_several_machines_that_report_as_one_node_are_told_and_no_job_starts_there(
    reported: Report, clock: SimpleNamespace, job: Any, tasks_sent: Any, agents: str
) -> None:
    *before, found = reported(agents)
    assert set(before) == {"up"} and found == "drain"
    assert set(reported(agents[1:] * 4)) == {"drain"}, "as long as they do"
    queue(job)
    assert tick() == 0
    job.refresh_from_db()
    assert "node-1 is given nothing while two machines report as one node (Pool)." in job.waiting_text
    assert "clock" not in job.waiting_text and "undrain" not in job.waiting_text
    clock.now_s += reports.TWINS_FOR_S - 2 * BEAT_S
    assert reported("AAA") == ["drain", "up", "up"], "the other one was stopped"
    assert reports.TWINS_AT not in Node.objects.get().description
    assert tick() == 1


@pytest.mark.parametrize(
    "agents",
    ["AAABBB", "ABCDE", "AABABBB", "AABAABBB"],
    ids=["a restart", "several", "a restart whose messages cross", "two that come late"],
)
def test_agents_that_follow_one_another_are_no_second_machine(reported: Report, agents: str) -> None:
    assert set(reported(agents)) == {"up"}


def test_messages_that_cross_at_each_of_several_restarts_are_no_second_machine(
    reported: Report, clock: SimpleNamespace
) -> None:
    for agents in ("AABAB", "BBCBC", "CCDCD"):
        assert set(reported(agents)) == {"up"}
        clock.now_s += HOUR_S


def test_a_node_that_moves_away_and_back_is_no_second_machine(reported: Report) -> None:
    assert set(reported("ABABAB", every_s=HOUR_S)) == {"up"}


def test_agents_of_an_earlier_release_are_judged_by_nothing(node_make: Any, reported: Report) -> None:
    for boot_id in ("one", "two") * 4:
        assert node_make(boot_id=boot_id).state == "up"
    reported("ABABA")
    assert node_make().state == "drain", "nor do they hide others"


def test_an_agent_cannot_say_that_it_has_a_twin_and_nobody_is_shown_the_ids(node_make: Any, reported: Report) -> None:
    told = {reports.TWINS_AT: 1e9, reports.AGENTS: "much"}
    assert node_make(description=told, agent_id="a" * 32).state == "up"
    reported("ABABA")
    (node,) = pool_overview().nodes
    assert reports.TWINS_AT in node.description and reports.AGENTS not in node.description
