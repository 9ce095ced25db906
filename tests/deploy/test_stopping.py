"""Whoever ends a node gives it the time in which its runs may save, and some more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.client.cli.node_unit import node_unit
from harness.stack.leftovers import STOP_TIMEOUT_S
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
        for file in ("compose/compose.yaml", "compose/node.yaml", "chart/templates/nodes.yaml")
        for found in re.findall(
            r"(?:stop_grace_period|terminationGracePeriodSeconds): (\d+)", (DEPLOY / file).read_text()
        )
    ]
    assert len(graces) == 4 and min(graces) > stop_save_s() + NODE_S


@pytest.mark.parametrize("save_s", ["30", "120"])
def test_units_of_systemd_are_given_it_whatever_the_operator_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save_s: str
) -> None:
    monkeypatch.setenv("DLH_STOP_SAVE_S", save_s)
    (limit_s,) = re.findall(r"^TimeoutStopSec=(\d+)$", node_unit(tmp_path, "node-1"), re.MULTILINE)
    assert int(limit_s) > int(save_s) + NODE_S and STOP_TIMEOUT_S > NODE_S
