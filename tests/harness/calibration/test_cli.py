"""`dlh pool calibrate` and `dlh pool calibration` against a portal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.client.cli.moments import budget_read
from harness.client.errors import BadInput
from tests.harness.client.conftest import client, dlh, home, portal
from tests.scheduler.made_workloads import points

__all__ = ["client", "dlh", "home", "portal"]


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("10m", 600), ("10 min", 600), ("1.5h", 5400), (" 2H ", 7200)]
)
def test_a_budget_is_a_time(text: str, seconds: float) -> None:
    assert budget_read(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1m", "10w", "1e3", "nan", "10mm", 400 * "9"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        budget_read(text)


def test_a_sweep_is_started_shown_and_stopped(
    portal: SimpleNamespace, dlh: Callable[..., Any], node_make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dlh("pool", "calibrate", "--budget", "30s").code == 3
    monkeypatch.setenv("DLH_TOKEN", portal.token_of("admin"))
    assert dlh("pool", "calibrate", "--budget", "30s").code == 2, "there is no node yet"
    node_make("node-1")
    made = dlh("pool", "calibrate", "--budget", "30s", "--json")
    assert made.code == 0 and made.json["state"] == "waiting" and made.json["budget_s"] == 30.0
    endless = dlh("pool", "calibrate", "--budget", "99999h")
    assert endless.code == 2 and "The budget is from 10 s to 24 h.\n" in endless.err
    again = dlh("pool", "calibrate", "--node", "node-1")
    assert again.code == 2 and "under way" in again.err
    assert made.json["id"] in dlh("pool", "calibration").out
    stopped = dlh("pool", "calibration", "stop", made.json["id"])
    assert stopped.code == 0 and "Stopped" in stopped.out
    assert dlh("pool", "calibration", "stop", made.json["id"]).code == 2


def test_points_travel_as_files(
    portal: SimpleNamespace, dlh: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scheduler.estimation.calibration import to_csv

    monkeypatch.setenv("DLH_TOKEN", portal.token_of("admin"))
    source = tmp_path / "points.csv"
    source.write_text(to_csv(points(3)))
    assert dlh("pool", "calibration", "import", str(source), "--json").json == {"added": 3, "known": 0}
    target = tmp_path / "out.json"
    assert dlh("pool", "calibration", "export", str(target)).code == 0
    assert dlh("pool", "calibration", "import", str(target), "--json").json == {"added": 0, "known": 3}
    assert dlh("pool", "calibration", "export", "-").out.startswith("point_id,")
    assert dlh("pool", "calibration", "export", str(tmp_path / "out.xml")).code == 2
    source.write_text(source.read_text().replace("made-2", "made-9").replace("cpu", "abacus"))
    refused = dlh("pool", "calibration", "import", str(source))
    assert refused.code == 2 and "row 1" in refused.err


def test_one_point_is_told_as_one() -> None:
    from harness.client.cli.calibration import _doing, _ended

    run = {"fitting": False, "message": "", "refused": [], "measured": 1, "state": "finished", "reach": ""}
    assert _doing(run) == "1 point measured" and _ended(run).startswith("Finished: 1 point measured.")
    assert _doing({**run, "fitting": True, "measured": 1200}) == "Fitting 1,200 points"
