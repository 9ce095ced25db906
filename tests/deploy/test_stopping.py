"""Whoever ends a node gives it the time in which its runs may save, and some more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.client.cli.node_unit import node_unit
from harness.stack.leftovers import STOP_TIMEOUT_S
from tests.deploy import chart
from worker.agent import STALE_WAIT_S, STOP_WAIT_S
from worker.home import stop_save_s

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
NODE_S = STOP_WAIT_S + STALE_WAIT_S
"""What an agent takes at most when it ends its runs, in addition to the time in which they may save."""


@pytest.fixture(autouse=True)
def _usual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DLH_STOP_SAVE_S", raising=False)


def test_containers_are_given_it() -> None:
    graces = [
        int(found)
        for file in ("compose/compose.yaml", "compose/node.yaml")
        for found in re.findall(r"stop_grace_period: (\d+)", (DEPLOY / file).read_text())
    ]
    assert len(graces) == 3 and min(graces) > stop_save_s() + NODE_S


@pytest.mark.parametrize(
    ("everywhere", "here", "save_s"),
    [({}, {}, 30), ({"DLH_STOP_SAVE_S": 120}, {}, 120), ({"DLH_STOP_SAVE_S": 120}, {"DLH_STOP_SAVE_S": "7.5"}, 8)],
    ids=["unset", "for all parts", "of a group of nodes"],
)
def test_pods_of_nodes_are_given_it_whatever_the_operator_says(
    everywhere: dict[str, object], here: dict[str, object], save_s: int
) -> None:
    nodes = [{**node, "settings": here} for node in chart.GIVEN["nodes"]]
    made = chart.render({**chart.GIVEN, "settings": everywhere, "nodes": nodes})
    specs = [one["spec"]["template"]["spec"] for one in made if one["kind"] in {"StatefulSet", "DaemonSet"}]
    assert [one["terminationGracePeriodSeconds"] for one in specs] == [save_s + 30] * 4
    assert NODE_S < 30


@pytest.mark.parametrize("save_s", ["30", "120"])
def test_units_of_systemd_are_given_it_whatever_the_operator_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save_s: str
) -> None:
    monkeypatch.setenv("DLH_STOP_SAVE_S", save_s)
    (limit_s,) = re.findall(r"^TimeoutStopSec=(\d+)$", node_unit(tmp_path, "node-1"), re.MULTILINE)
    assert int(limit_s) > int(save_s) + NODE_S and STOP_TIMEOUT_S > NODE_S
