"""Sweeps whose devices go, or are taken, meanwhile; none of them holds up another."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from harness.calibration.models import CalibrationRun
from harness.calibration.states import STUCK_LIMIT
from harness.jobs.use_rows import use_rows
from harness.jobs.windows import window_of
from harness.measuring import sweep
from harness.measuring.answers import measure_done
from harness.measuring.services import calibration_start
from harness.measuring.sweep import calibrations_advance
from harness.pool.models import Device, Reservation
from tests.harness.jobs.helpers import place_now
from tests.harness.measuring.conftest import Commit, Measures, advance, answer


def test_it_ends_when_its_devices_leave_the_node(
    people: SimpleNamespace, node_make: Any, commit: Commit, measures: Measures
) -> None:
    node_make("node-1", gpus=1)
    run = commit(calibration_start, user=people.admin, node="node-1", kind="cuda")
    Device.objects.filter(kind="cuda").delete()
    commit(calibrations_advance)
    run.refresh_from_db()
    assert (run.state, run.message) == ("failed", "node-1 no longer has a gpu.")
    assert not measures()


def test_one_that_breaks_does_not_keep_the_others(
    start: Callable[..., Any], people: SimpleNamespace, node_make: Any, commit: Commit, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = start()
    node_make("node-2")
    fine = commit(calibration_start, user=people.admin, node="node-2")
    advance = sweep.run_advance

    def breaks(run_id: str) -> None:
        if run_id == broken.pk:
            raise IndexError("no such point")
        advance(run_id)

    monkeypatch.setattr(sweep, "run_advance", breaks)
    assert commit(calibrations_advance) == 2
    fine.refresh_from_db()
    broken.refresh_from_db()
    assert (fine.state, broken.state) == ("running", "failed")
    assert re.fullmatch(
        r"It cannot get on: IndexError \(see the log of control, id \w{12}\)\. Start it again\.", broken.message
    )
    assert {row.device.node.name for row in Reservation.objects.filter(cancelled_at=None)} == {"node-2"}


def test_one_that_a_full_disk_stops_goes_on_once_there_is_room(
    start: Callable[..., Any], commit: Commit, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start()
    with monkeypatch.context() as full:
        full.setattr(sweep, "run_advance", lambda _: (_ for _ in ()).throw(OSError("No space left on device")))
        commit(calibrations_advance)
    run.refresh_from_db()
    assert run.stuck_since is not None
    commit(calibrations_advance)
    run.refresh_from_db()
    assert run.state == "running" and run.stuck_since is None


def test_one_that_a_passing_cause_stops_for_too_long_ends_and_gives_its_devices_back(
    start: Callable[..., Any], commit: Commit, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start()
    monkeypatch.setattr(sweep, "run_advance", lambda _: (_ for _ in ()).throw(PermissionError("/srv/secret")))
    commit(calibrations_advance)
    CalibrationRun.objects.update(stuck_since=timezone.now() - STUCK_LIMIT - timedelta(seconds=1))
    commit(calibrations_advance)
    run.refresh_from_db()
    assert run.state == "failed" and run.message.startswith("It cannot get on: PermissionError (see ")
    assert not Reservation.objects.filter(cancelled_at=None).exists()


def test_a_program_that_cannot_be_written_names_no_path_of_the_machine(
    start: Callable[..., Any], commit: Commit, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start()

    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied", "/srv/secret")

    monkeypatch.setattr(sweep, "request_make", refuse)
    advance(commit, 2)
    run.refresh_from_db()
    problem = run.refused[0]["problem"]
    assert problem.startswith("The program could not be made: PermissionError (see ") and "secret" not in problem


def test_it_measures_nothing_beside_a_job_that_came_while_control_was_away(
    start: Callable[..., Any], job_make: Any, commit: Commit, measures: Measures
) -> None:
    run = start()
    CalibrationRun.objects.filter(pk=run.pk).update(state="running")
    now = timezone.now()
    Reservation.objects.update(starts_at=now - timedelta(hours=1), ends_at=now - timedelta(minutes=1))
    place_now(job_make())
    commit(calibrations_advance)
    run.refresh_from_db()
    assert run.message.startswith("Waits for the jobs that run on node-1")
    assert not measures()


def test_it_waits_for_a_device_that_its_node_does_not_see(
    start: Callable[..., Any], commit: Commit, measures: Measures, node_make: Any
) -> None:
    run = start()
    Device.objects.filter(index=1).update(away_since=timezone.now())
    advance(commit, 2)
    run.refresh_from_db()
    assert run.state in {"waiting", "running"} and not measures()
    assert run.message == "Waits for a device of node-1 that the node does not see."
    node_make("node-1")
    advance(commit, 2)
    assert len(measures()) == 1


def test_it_goes_on_without_a_core_that_its_node_has_no_more(
    start: Callable[..., Any], commit: Commit, measures: Measures, node_make: Any
) -> None:
    run = start()
    advance(commit)
    assert Reservation.objects.filter(open_ended=True, device__index=1).exists()
    node_make("node-1", cpus=1)
    advance(commit, 2)
    run.refresh_from_db()
    assert not Device.objects.filter(index=1).exists()
    assert "does not see" not in run.message and len(measures()) == 1


def test_what_it_used_is_a_row_of_its_own_that_everybody_sees(
    start: Callable[..., Any], commit: Commit, measures: Measures, people: SimpleNamespace
) -> None:
    run = start()
    advance(commit, 2)
    CalibrationRun.objects.update(pending={name: {**sent, "sent_s": time.time() - 60} for name, sent in pending(run)})
    commit(measure_done, answer(measures()[0], power_w=10.0))
    for by in ("job", "person", "project"):
        (row,) = use_rows(user=people.outsider, window=window_of("day"), by=by)
        assert (row.name, row.job_id, row.basis) == ("Calibration of devices", "", "measured")
        assert row.energy_j == pytest.approx(600.0, rel=0.05)


def pending(run: CalibrationRun) -> Any:
    run.refresh_from_db()
    return run.pending.items()
