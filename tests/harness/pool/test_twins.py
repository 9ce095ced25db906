"""Two machines that were started with one node's secret."""

from __future__ import annotations

from typing import Any

import pytest

from harness.jobs.control.tick import tick
from harness.pool import reports
from harness.pool.models import Node
from tests.harness.jobs.helpers import queue

pytestmark = pytest.mark.django_db


def reported(node_make: Any, boot_id: str) -> Node:
    node_make(boot_id=boot_id)
    return Node.objects.get()


def test_two_machines_that_report_as_one_node_are_told_and_nothing_starts_there(
    job: Any, node_make: Any, tasks_sent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for boot_id in ("one", "one", "two"):  # as after a reboot
        node = reported(node_make, boot_id)
        assert node.state == "up" and reports.TWINS_AT not in node.description
    node = reported(node_make, "one")
    assert node.state == "drain" and reports.TWINS_AT in node.description
    assert reported(node_make, "one").state == "drain"
    queue(job)
    assert tick() == 0
    monkeypatch.setattr(reports, "TWINS_FOR_S", 0.0)  # the other has been silent for so long
    node = reported(node_make, "one")
    assert node.state == "up" and reports.TWINS_AT not in node.description
    assert tick() == 1


def test_reboots_one_after_the_other_are_no_second_machine(node_make: Any) -> None:
    for boot_id in ("one", "two", "two", "three", "four"):
        assert reported(node_make, boot_id).state == "up"
