"""What a sweep measures: every point of its plan, and the link before them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from harness.calibration.models import CalibrationPointRow
from harness.calibration.plans import next_point, run_plan
from harness.measuring.answers import measure_done
from harness.measuring.links import link_read, link_store
from harness.measuring.services import calibration_start
from scheduler.estimation.extent import CORE, Extent, extent_of
from tests.harness.measuring.conftest import LINK_TIMES, Commit, Measures, advance, answer

H100 = extent_of("cuda", "NVIDIA H100 80GB HBM3", 80 << 30)


@pytest.mark.parametrize("extent", [CORE, H100])
def test_every_point_of_the_plan_makes_a_program_of_its_batch_and_shape(extent: Extent) -> None:
    import yaml

    from harness.calibration.plans import plan
    from harness.measuring.points import point_program

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


@pytest.mark.parametrize(("told", "kept"), [({"precision": "bfloat16"}, "bfloat16"), ({}, "")])
def test_a_point_keeps_in_what_its_products_were_computed(
    start: Callable[..., Any], commit: Commit, measures: Measures, told: dict[str, Any], kept: str
) -> None:
    start()
    advance(commit, 2)
    commit(measure_done, answer(measures()[0], **told))
    assert CalibrationPointRow.objects.get().body["precision"] == kept


def test_a_point_in_a_precision_that_there_is_not_is_refused(
    start: Callable[..., Any], commit: Commit, measures: Measures
) -> None:
    run = start()
    advance(commit, 2)
    commit(measure_done, answer(measures()[0], precision="fp8"))
    run.refresh_from_db()
    assert "fp8" in run.refused[0]["problem"] and not CalibrationPointRow.objects.exists()


def test_two_sweeps_of_such_devices_share_out_the_points(
    start: Callable[..., Any],
    node_make: Callable[..., Any],
    commit: Commit,
    measures: Measures,
    people: SimpleNamespace,
) -> None:
    first = start(link=None)
    node_make("node-2")
    second = commit(calibration_start, user=people.admin, node="node-2", budget_s=600.0)
    advance(commit, 2)
    for request in measures()[:2]:
        assert request["link"] == 2
        commit(measure_done, {"request_id": request["request_id"], **LINK_TIMES})
    answered = 2
    for number in range(4):
        advance(commit)
        out = measures()[answered:]
        assert len(out) == 2 and not any("link" in request for request in out), "each link is timed once"
        answered += 2
        for request in out:
            commit(measure_done, answer(request, number=number))
    for run in (first, second):
        run.refresh_from_db()
        assert run.measured == 4 and run.before in {3, 4}, "what the other one has measured is told as such"
    assert CalibrationPointRow.objects.count() == 8


@pytest.mark.parametrize(("meanwhile", "state"), [(True, "finished"), (False, "failed")])
def test_a_sweep_whose_points_others_measured_meanwhile_has_not_failed_where_the_last_could_not_be_measured(
    start: Callable[..., Any],
    node_make: Callable[..., Any],
    commit: Commit,
    people: SimpleNamespace,
    meanwhile: bool,
    state: str,
) -> None:
    first = start()
    node_make("node-2")
    second = commit(calibration_start, user=people.admin, node="node-2", budget_s=600.0)
    link_store(first, link_read(LINK_TIMES))
    *most, last = run_plan(second)
    CalibrationPointRow.objects.bulk_create(
        CalibrationPointRow(
            kind=first.kind, model_name=first.model_name, point_id=one.point_id, family=one.family, batch_size=1,
            step_s=1.0, peak_bytes=1, noise=0.0, body={}, run=first,
        )
        for one in most
    )  # fmt: skip
    if not meanwhile:
        CalibrationPointRow.objects.update(measured_at=first.created_at - timedelta(days=1))
    second.refused = [{"point_id": last.point_id, "family": last.family, "problem": "It is too large."}]
    second.save()
    advance(commit, 2)
    second.refresh_from_db()
    assert (second.state, second.measured) == (state, 0)
    assert second.message.endswith("It is too large.") and second.message.startswith("Other sweeps") == meanwhile


def test_the_last_point_is_measured_though_another_sweep_is_at_it(
    start: Callable[..., Any], node_make: Callable[..., Any], commit: Commit, people: SimpleNamespace
) -> None:
    first = start()
    node_make("node-2")
    second = commit(calibration_start, user=people.admin, node="node-2", budget_s=600.0)
    *most, last = run_plan(first)
    first.pending = {last.point_id: {"family": last.family, "sent_s": 0.0, "sends": 1}}
    first.save()
    second.refused = [{"point_id": one.point_id, "family": one.family, "problem": "no"} for one in most[1:]]
    assert next_point(second) == most[0]
    second.refused = [{"point_id": one.point_id, "family": one.family, "problem": "no"} for one in most]
    assert next_point(second) == last
