"""What a sweep measures: every point of its plan, and the link before them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.calibration.answers import measure_done
from scheduler.estimation.extent import CORE, Extent, extent_of
from tests.harness.calibration.conftest import LINK_TIMES, Commit, Measures, advance

H100 = extent_of("cuda", "NVIDIA H100 80GB HBM3", 80 << 30)


@pytest.mark.parametrize("extent", [CORE, H100])
def test_every_point_of_the_plan_makes_a_program_of_its_batch_and_shape(extent: Extent) -> None:
    import yaml

    from harness.calibration.plans import plan
    from harness.calibration.points import point_program

    by_family = {planned.family: planned.point for planned in plan("cpu", 1, extent)}
    assert len(by_family) == 6
    for point in by_family.values():
        program, _ = point_program(point)
        spec = yaml.safe_load(program.files["spec.yaml"])
        assert spec["training"]["batch_size"] == point.batch_size
        assert spec["shape"]["outputs"] == point.data.outputs
        assert spec["model"]["params"] == dict(point.params)
        if not point.data.channels:
            assert spec["shape"]["cardinalities"] == list(point.data.cardinalities)
            assert len(spec["shape"]["features"]) == point.data.features


def test_with_two_devices_some_points_are_measured_on_both() -> None:
    from harness.calibration.plans import plan

    alone, both = plan("cpu", 1, CORE), plan("cpu", 2, CORE)
    assert all((planned.ranks, planned.threads) == (1, 1) for planned in alone)
    assert [planned for planned in both if planned.ranks == planned.threads == 1] == list(alone)
    assert any(planned.ranks == 2 for planned in both) and any(planned.threads == 2 for planned in both)
    assert not any(planned.threads > 1 for planned in plan("cuda", 2, H100))
    assert len({planned.point_id for planned in both}) == len(both)


def test_the_link_is_timed_first_and_used_before_any_fit(
    start: Callable[..., Any], commit: Commit, measures: Measures
) -> None:
    from harness.calibration.known import device_model
    from scheduler.estimation.values import Basis

    start(link=None)
    advance(commit, 2)
    (request,) = measures()
    assert request["link"] == 2
    commit(measure_done, {"request_id": request["request_id"], **LINK_TIMES})
    link = device_model("cpu", "core").link
    assert link.basis is Basis.MEASURED and link.bytes_per_s == pytest.approx(5.2e8, rel=0.2)
    advance(commit)
    assert "link" not in measures()[1]


@pytest.mark.parametrize(
    "wrong", [{"seconds": [float("nan"), 1.0, 1.0]}, {"seconds": [10**400, 1.0, 1.0]}, {"seconds": None}, {"ok": False}]
)
def test_a_link_that_cannot_be_timed_is_refused_and_the_sweep_goes_on(
    start: Callable[..., Any], commit: Commit, measures: Measures, wrong: dict[str, Any]
) -> None:
    run = start(link=None)
    advance(commit, 2)
    commit(measure_done, {"request_id": measures()[0]["request_id"], **LINK_TIMES, **wrong})
    run.refresh_from_db()
    assert [item["point_id"] for item in run.refused] == ["link"]
    advance(commit)
    assert "link" not in measures()[1]
