"""`dlh pool history` and `dlh pool power`: a trace of what has run, and what `dlh simulate` goes by besides."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from harness.calibration.models import DeviceModelRow
from harness.jobs.models import Job
from harness.pool.models import Quota
from harness.pool.services import pool_setting_update
from scheduler.estimation.device_parts import PowerModel
from scheduler.estimation.prior import prior_for
from scheduler.estimation.values import Basis
from scheduler.simulate.power import PowerTable
from scheduler.simulate.quotas import limits_of
from scheduler.simulate.traces import Way, trace_read
from tests.harness.client.conftest import Dlh
from tests.harness.jobs.helpers import queue
from tests.harness.jobs.test_queueing import use_make

WATTS = {"core": {"idle_w": 1.5, "busy_w": 6.5}}


@pytest.fixture
def ran(portal: SimpleNamespace, node_make: Any, job_make: Any) -> Job:
    """A job that ended, on a pool whose admin has entered watts and a quota."""
    device = node_make(cpus=2).devices.first()
    job = queue(job_make(name="ran"))
    use_make(portal.people, job, device, hours_ago=2, hours=1)
    ended_at = timezone.now() - timedelta(seconds=1)
    Job.objects.filter(pk=job.pk).update(state="succeeded", finished_at=ended_at, priority=-3)
    pool_setting_update(user=portal.people.admin, power_table=WATTS)
    Quota.objects.create(project=portal.people.project, device_kind="cpu", devices=1, may_borrow=False)
    return Job.objects.get(pk=job.pk)


def test_what_has_run_is_written_as_a_trace(dlh: Dlh, ran: Job, tmp_path: Path) -> None:
    target = tmp_path / "history.csv"
    assert dlh("pool", "history", target, "--json").json == {"out": str(target)}
    head, row = target.read_text().splitlines()
    assert head == (
        "job_id,submitted_s,deadline_s,kind,device_model,count,run_s,power_w,power_basis,project,priority,ways"
    )
    assert row.startswith(f"{ran.pk},")
    assert dlh("pool", "history", tmp_path / "nowhere" / "history.csv").code == 2


def test_as_json_it_holds_quotas_and_watts_too(dlh: Dlh, ran: Job, tmp_path: Path) -> None:
    plain, target = tmp_path / "history.csv", tmp_path / "history.json"
    assert dlh("pool", "history", plain).code == 0 and dlh("pool", "history", target).code == 0
    trace = trace_read(target)
    assert list(trace.jobs) == list(trace_read(plain).jobs) and trace.jobs[0].priority == -3
    (limit,) = limits_of(trace)
    assert limit.words == f"{ran.project.slug} 1 cpu without borrowing"
    assert PowerTable.of(trace.extras["power"], "x").power("cpu", "core", named=True).busy_w == 6.5
    assert [path.name for path in tmp_path.glob("*.part")] == []
    replayed = dlh("simulate", target, "--pool", "1x2:cpu", "--json")
    assert replayed.json[0]["projects"][0]["quota"] == "1 cpu without borrowing"
    assert dlh("pool", "history", tmp_path / "nowhere" / "history.json").code == 2


def test_a_job_of_a_thousand_ways_is_written_as_json_too(
    dlh: Dlh, ran: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.estimates import history

    ways = [Way(kind="cuda", count=count, run_s=1 / 3, model="m" * 120) for count in range(1, 1001)]
    monkeypatch.setattr(history, "ways_told", lambda _: {ran.pk: ways})
    csv.field_size_limit(131_072)  # as a new process has it
    target = tmp_path / "history.json"
    assert dlh("pool", "history", target).code == 0
    csv.field_size_limit(131_072)
    assert len(trace_read(target).jobs[0].ways) == 1000


def test_a_history_of_nothing_is_still_json(dlh: Dlh, portal: SimpleNamespace, tmp_path: Path) -> None:
    target = tmp_path / "history.json"
    assert dlh("pool", "history", target).code == 0
    assert json.loads(target.read_text()) == {"jobs": [], "quotas": [], "power": []}


def test_watts_of_devices_are_shown_with_what_they_rest_on(dlh: Dlh, ran: Job, tmp_path: Path) -> None:
    (row,) = dlh("pool", "power", "--json").json
    assert row == {
        "kind": "cpu", "model": "core", "idle_w": 1.5, "busy_w": 6.5, "basis": "assumed",
        "idle_basis": "assumed", "source": "the pool's power table",
    }  # fmt: skip
    assert "core" in dlh("pool", "power").out and "assumed" in dlh("pool", "power").out
    written = tmp_path / "power.json"
    written.write_text(json.dumps([row]))
    assert PowerTable.read(written).power("cpu", "cpu", named=False).idle_w == 1.5


def test_what_a_calibration_measured_counts_before_the_watts_that_an_admin_entered(dlh: Dlh, ran: Job) -> None:
    measured = PowerModel(idle_w=2.0, busy_w=7.0, basis=Basis.MEASURED, source="a calibration")
    body = replace(prior_for("cpu", "core"), power=measured).to_dict()
    DeviceModelRow.objects.create(kind="cpu", model_name="core", fitted=body, model=body, fitted_at=timezone.now())
    (row,) = dlh("pool", "power", "--json").json
    assert (row["busy_w"], row["basis"], row["source"]) == (7.0, "measured", "a calibration")
    assert (row["idle_w"], row["idle_basis"]) == (1.5, "assumed"), "the admin's: no calibration reads an idle device"
    assert "measured, idle assumed" in " ".join(dlh("pool", "power").out.split())
