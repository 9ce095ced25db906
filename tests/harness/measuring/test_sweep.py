"""A sweep from its start to its end, with a node that is played by the test."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from harness.calibration.models import CalibrationPointRow, CalibrationRun
from harness.errors import Conflict, Forbidden, Invalid, NotFound
from harness.jobs.control.tick import tick
from harness.jobs.control.views import facts_read
from harness.jobs.queueing import queue_rows
from harness.measuring import sweep
from harness.measuring.answers import measure_done
from harness.measuring.services import calibration_start, calibration_stop
from harness.moments import moment_words
from harness.pool.models import Device, Node, NodeState, Reservation
from harness.pool.reservations import reservation_cancel
from tests.factory_reservations import reservation_create
from tests.harness.jobs.helpers import queue
from tests.harness.measuring.conftest import Commit, Measures, advance, answer


def test_only_an_admin_starts_one(people: SimpleNamespace, node_make: Any) -> None:
    node_make("node-1")
    with pytest.raises(Forbidden):
        calibration_start(user=people.owner, node="node-1")


@pytest.mark.parametrize(
    ("wish", "error"),
    [
        ({"node": "nowhere"}, NotFound),
        ({"kind": "tpu"}, Invalid),
        ({"kind": "cuda", "node": "node-1"}, Invalid),
        ({"kind": "cuda"}, Invalid),
        ({"budget_s": 0.0}, Invalid),
        ({"budget_s": float("nan")}, Invalid),
        ({"budget_s": float("inf")}, Invalid),
    ],
)
def test_what_cannot_be_measured_is_refused(
    people: SimpleNamespace, node_make: Any, wish: dict[str, Any], error: type[Exception]
) -> None:
    node_make("node-1")
    with pytest.raises(error):
        calibration_start(user=people.admin, **wish)
    assert not CalibrationRun.objects.exists()
    assert not Reservation.objects.exists()


def test_without_a_name_two_fitting_nodes_are_one_too_many(people: SimpleNamespace, node_make: Any) -> None:
    node_make("node-1")
    node_make("node-2")
    with pytest.raises(Invalid, match="node-1, node-2"):
        calibration_start(user=people.admin)


def test_one_at_a_time_per_node_and_kind(start: Callable[..., Any], people: SimpleNamespace) -> None:
    start()
    with pytest.raises(Conflict):
        calibration_start(user=people.admin, node="node-1")
    assert CalibrationRun.objects.count() == 1


def test_its_devices_are_kept_from_jobs_until_it_ends(start: Callable[..., Any], people: SimpleNamespace) -> None:
    run = start()
    live = Reservation.objects.filter(cancelled_at=None, ends_at__gt=timezone.now())
    assert live.filter(open_ended=True).count() == 2
    kept = [keep for node in facts_read().pool.nodes for device in node.devices for keep in device.reserved]
    assert kept and all(math.isinf(keep.end_s) for keep in kept), "plans count with no end of it"
    calibration_stop(user=people.admin, run_id=run.pk)
    assert live.count() == 0
    with pytest.raises(Conflict):
        calibration_stop(user=people.admin, run_id=run.pk)


def test_how_long_its_devices_are_kept_is_told_by_its_budget_and_then_by_its_pace(
    start: Callable[..., Any], commit: Commit, people: SimpleNamespace, job_make: Callable[..., Any]
) -> None:
    def left_s() -> set[float]:
        return {round((row.told_end - timezone.now()).total_seconds(), -1) for row in Reservation.objects.all()}

    run = start(budget_s=300.0)
    assert left_s() == {300.0}, "not the ten minutes of a hold"
    CalibrationRun.objects.filter(pk=run.pk).update(measured=10, used_s=20.0, planned=80)
    advance(commit)
    assert left_s() == {140.0}
    queue(job_make(resources={"device": "cpu", "count": 1}))
    commit(tick)
    waiting, _ = queue_rows(user=people.admin)
    told = Reservation.objects.first()
    assert told and "Calibration of node-1" in waiting[0].waiting_text and waiting[0].reserved_until == told.told_end
    client = Client()
    client.force_login(people.admin)
    assert "what is reserved is expected back" in client.get("/queue/").content.decode()
    assert "about <time" in " ".join(client.get("/pool/reservations/").content.decode().split())
    ends = {row["ends_at"] for row in client.get("/api/v1/pool/reservations").json()["items"]}
    assert ends == {told.told_end.isoformat(timespec="milliseconds").replace("+00:00", "Z")}


def test_its_devices_are_not_given_back_while_it_goes_on(start: Callable[..., Any], people: SimpleNamespace) -> None:
    run = start()
    kept = Reservation.objects.filter(cancelled_at=None).values_list("pk", flat=True)[0]
    with pytest.raises(Conflict, match="would reserve its devices again") as refused:
        reservation_cancel(user=people.admin, reservation_id=kept)
    assert "Stop the calibration" in refused.value.hint
    client = Client()
    client.force_login(people.admin)
    page = client.get("/pool/reservations/").content.decode()
    assert kept not in page and page.count('href="/pool/calibration/">Calibration</a>') > 1
    calibration_stop(user=people.admin, run_id=run.pk)
    with pytest.raises(Conflict, match="is over"):
        reservation_cancel(user=people.admin, reservation_id=kept)


def test_a_hold_is_renewed_before_it_runs_out(start: Callable[..., Any], commit: Commit) -> None:
    start()
    soon = timezone.now() + timedelta(minutes=1)
    Reservation.objects.update(ends_at=soon)
    advance(commit)
    assert all(row.ends_at > soon for row in Reservation.objects.all())


def test_a_hold_keeps_jobs_off_after_the_clock_was_set_back(start: Callable[..., Any], commit: Commit) -> None:
    start()
    now, hour = timezone.now(), timedelta(hours=1)
    Reservation.objects.update(starts_at=now + hour, ends_at=now + hour + timedelta(minutes=10))
    advance(commit)
    live = Reservation.objects.filter(cancelled_at=None, starts_at__lte=timezone.now(), ends_at__gt=timezone.now())
    assert set(live.values_list("device", flat=True)) == set(
        Device.objects.filter(kind="cpu").values_list("pk", flat=True)
    )
    assert not Reservation.objects.filter(cancelled_at=None, starts_at__gt=timezone.now()).exists()


def test_a_hold_is_not_renewed_over_what_others_have_reserved(
    start: Callable[..., Any], commit: Commit, people: SimpleNamespace
) -> None:
    run = start()
    now = timezone.now()
    Reservation.objects.update(ends_at=now + timedelta(minutes=1), planned_until=now + timedelta(minutes=1))
    later = reservation_create(
        user=people.admin, node="node-1", starts_at=now + timedelta(minutes=2), ends_at=now + timedelta(hours=1),
        purpose="Maintenance",
    )  # fmt: skip
    advance(commit)
    run.refresh_from_db()
    assert run.state == "stopped" and "Maintenance" in run.message
    assert not Reservation.objects.exclude(pk=later.pk).filter(ends_at__gt=later.starts_at).exists()


def test_its_devices_are_reserved_for_nobody_else_before_it_is_expected_to_be_over(
    start: Callable[..., Any], people: SimpleNamespace
) -> None:
    start(budget_s=10 * 3600.0)
    told = Reservation.objects.order_by("pk")[0].told_end
    maintenance = {
        "user": people.admin,
        "node": "node-1",
        "ends_at": told + timedelta(days=1),
        "purpose": "Maintenance",
    }
    for starts_at in (timezone.now() + timedelta(minutes=11), told - timedelta(minutes=1)):
        with pytest.raises(Conflict) as refused:
            reservation_create(**maintenance, starts_at=starts_at)
        assert f"Calibration of node-1, until {moment_words(told)}." in refused.value.message
    reservation_create(**maintenance, starts_at=told + timedelta(minutes=1))


def test_a_hold_that_ran_out_is_in_nobodys_way_though_it_was_expected_to_last_longer(
    start: Callable[..., Any], people: SimpleNamespace
) -> None:
    start(budget_s=10 * 3600.0)
    now = timezone.now()
    Reservation.objects.update(starts_at=now - timedelta(hours=1), ends_at=now - timedelta(minutes=1))
    reservation_create(user=people.admin, node="node-1", ends_at=now + timedelta(hours=1), purpose="Maintenance")


def test_it_waits_for_jobs_that_run_there(
    start: Callable[..., Any], commit: Commit, measures: Measures, job: Any, node_make: Any
) -> None:
    from harness.jobs.control.attempts import attempt_end
    from tests.harness.jobs.helpers import place_now
    from worker.events import Outcome

    node_make("node-1")
    attempt = place_now(job)
    run = start()
    advance(commit, 2)
    run.refresh_from_db()
    assert run.state == "waiting" and "jobs that run" in run.message and not measures()
    attempt_end(attempt, Outcome.CANCELLED, None)
    advance(commit, 2)
    run.refresh_from_db()
    assert run.state == "running" and len(measures()) == 1


def test_one_point_is_out_at_a_time_and_its_program_lies_ready(
    start: Callable[..., Any], commit: Commit, measures: Measures
) -> None:
    start()
    advance(commit, 5)
    (request,) = measures()
    files = {path.name for path in (Path(request["job_dir"]) / "program").iterdir()}
    assert {"model.py", "train.py", "data.py", "spec.yaml"} <= files


def test_an_answer_counts_once(start: Callable[..., Any], commit: Commit, measures: Measures) -> None:
    run = start()
    advance(commit, 2)
    told = answer(measures()[0])
    for _ in range(3):
        commit(measure_done, told)
    run.refresh_from_db()
    assert run.measured == 1 and CalibrationPointRow.objects.count() == 1
    row = CalibrationPointRow.objects.get()
    assert not row.imported and row.step_s == pytest.approx(told["step_s"][0] * 1.01) and row.noise == 0.01


@pytest.mark.parametrize(
    "wrong",
    [
        {"step_s": [float("nan"), 0.1]},
        {"step_s": [-1.0]},
        {"step_s": []},
        {"step_s": None},
        {"step_s": [10**400]},
        {"peak_bytes": 10**400},
        {"peak_bytes": float("inf")},
        {"power_w": float("nan")},
        {"power_w": 250_000.0},
        {"workload": {"version": 1}},
        {"workload": None},
        {"ok": False, "problem": {"message": "It ran out of memory."}},
    ],
)
def test_what_makes_no_sense_is_refused_counted_and_not_tried_again(
    start: Callable[..., Any], commit: Commit, measures: Measures, wrong: dict[str, Any]
) -> None:
    run = start()
    advance(commit, 2)
    commit(measure_done, answer(measures()[0], **wrong))
    run.refresh_from_db()
    assert run.measured == 0 and len(run.refused) == 1 and run.refused[0]["problem"]
    assert not CalibrationPointRow.objects.exists()
    advance(commit)
    first, second = measures()
    assert first["request_id"] != second["request_id"]


def test_answers_of_strangers_change_nothing(start: Callable[..., Any], commit: Commit, measures: Measures) -> None:
    run = start()
    advance(commit, 2)
    for request_id in ("", "probe-1", f"calibration-{run.pk}-cnn-000000000000", "calibration-none-x"):
        commit(measure_done, answer({"request_id": request_id}))
    run.refresh_from_db()
    assert run.measured == 0 and not run.refused and len(run.pending) == 1


def test_a_point_without_an_answer_is_sent_again_and_given_up_in_the_end(
    start: Callable[..., Any], commit: Commit, measures: Measures
) -> None:
    run = start()
    advance(commit, 2)

    def much_later() -> None:
        run.refresh_from_db()
        for sent in run.pending.values():
            sent["sent_s"] = time.time() - 3600
        run.save()

    much_later()
    advance(commit)
    again = measures()
    assert [request["request_id"] for request in again] == [again[0]["request_id"]] * 2
    much_later()
    advance(commit, 2)
    run.refresh_from_db()
    assert run.refused[0]["problem"] == "The node did not answer." and len(measures()) == 3


def test_it_waits_for_a_node_that_is_down(start: Callable[..., Any], commit: Commit, measures: Measures) -> None:
    run = start()
    Node.objects.update(state=NodeState.DOWN)
    advance(commit, 2)
    run.refresh_from_db()
    assert run.message == "Waits for node-1: it does not answer." and not measures()
    Node.objects.update(state=NodeState.UP)
    advance(commit, 2)
    assert len(measures()) == 1


def test_it_ends_when_its_node_leaves(start: Callable[..., Any], commit: Commit) -> None:
    run = start()
    Node.objects.all().delete()
    advance(commit)
    run.refresh_from_db()
    assert run.state == "failed" and run.node_name == "node-1"


def test_a_later_sweep_goes_on_where_the_first_ended(
    start: Callable[..., Any], commit: Commit, measures: Measures, people: SimpleNamespace
) -> None:
    run = start()
    advance(commit, 2)
    commit(measure_done, answer(measures()[0]))
    calibration_stop(user=people.admin, run_id=run.pk)
    second = start()
    assert second.before == 1
    advance(commit, 2)
    assert len({request["request_id"].partition("-")[2].partition("-")[2] for request in measures()}) == len(measures())


def test_a_clock_that_is_set_takes_no_more_than_one_point_of_the_budget(
    start: Callable[..., Any], commit: Commit, measures: Measures
) -> None:
    run = start(budget_s=600.0)
    advance(commit, 2)
    run.refresh_from_db()
    for sent in run.pending.values():
        sent["sent_s"] = time.time() - 10_000
    run.save()
    commit(measure_done, answer(measures()[0]))
    run.refresh_from_db()
    assert run.measured == 1 and run.used_s < 600.0


def test_it_stops_at_its_budget_and_asks_for_a_fit_first(
    start: Callable[..., Any], commit: Commit, measures: Measures, tasks_sent: list[Any]
) -> None:
    run = start(budget_s=30.0)
    advance(commit, 2)
    run.refresh_from_db()
    for sent in run.pending.values():
        sent["sent_s"] = time.time() - 31
    run.save()
    commit(measure_done, answer(measures()[0]))
    advance(commit, 3)
    run.refresh_from_db()
    assert run.used_s >= 30.0 and run.fitting_since is not None
    assert [args for name, args, _ in tasks_sent if name == "control.calibration_fit"] == [["cpu", "core", run.pk]]
    # The fit ends.
    CalibrationRun.objects.filter(pk=run.pk).update(fitting_since=None, fitted_points=1)
    advance(commit)
    run.refresh_from_db()
    assert run.state == "finished" and run.message == "The budget is used up." and len(measures()) == 1
    assert not Reservation.objects.filter(cancelled_at=None, ends_at__gt=timezone.now()).exists()


def test_a_fit_that_died_holds_a_sweep_up_for_a_while_only(
    start: Callable[..., Any], commit: Commit, measures: Measures
) -> None:
    run = start()
    advance(commit)
    CalibrationRun.objects.filter(pk=run.pk).update(fitting_since=timezone.now())
    advance(commit, 2)
    assert not measures()
    CalibrationRun.objects.filter(pk=run.pk).update(fitting_since=timezone.now() - 2 * sweep.FIT_LIMIT)
    advance(commit)
    assert len(measures()) == 1
