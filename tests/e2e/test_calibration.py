"""A sweep through a real broker, control and node: started over HTTP, cut by a restart of control, fitted, exported."""

from __future__ import annotations

import pytest

from tests.e2e.stack import RunningStack, wait_for

pytestmark = pytest.mark.stack
BUDGET_S = 10.0
LIMIT_S = 400.0
"""On a machine that does other things; alone it takes some 20 s."""


def test_a_small_sweep_survives_a_restart_and_leaves_points_a_model_and_free_devices(stack: RunningStack) -> None:
    run = stack.post("/pool/calibration", {"kind": "cpu", "budget_s": BUDGET_S})
    place = f"/pool/calibration/{run['id']}"
    wait_for(lambda: stack.get(place)["state"] == "running", timeout_s=LIMIT_S, what="the sweep measures")
    with pytest.raises(AssertionError, match="409"):
        stack.post("/pool/calibration", {"budget_s": BUDGET_S})
    stack.kill_child("control")
    wait_for(lambda: stack.get(place)["measured"], timeout_s=LIMIT_S, what="a point is measured")
    ended = wait_for(
        lambda: (body := stack.get(place))["state"] not in {"waiting", "running"} and body,
        timeout_s=LIMIT_S,
        what="the sweep ends",
    )
    assert ended["state"] == "finished", ended
    assert not ended["refused"], ended["refused"]
    assert ended["used_s"] >= BUDGET_S or ended["measured"] + ended["before"] == ended["planned"]
    points = stack.request("GET", "/pool/calibration/points.json").json()["points"]
    own = [point for point in points if point["model_name"] == run["model_name"]]
    assert len(own) == ended["measured"]
    for point in own:
        assert min(point["step_s"]) > 0 and point["peak_bytes"] > 0
        assert point["workload"]["operators"] and point["workload"]["batch_size"] == point["batch_size"]
    models = stack.get("/pool/calibration")["models"]
    assert [(model["model_name"], model["n_points"]) for model in models] == [(run["model_name"], ended["measured"])]
    held = stack.get("/pool/reservations")["items"]
    assert not held
