"""`dlh pool` and what tells how jobs wait for it, against a running portal."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from harness.calibration.models import DeviceModelRow
from harness.jobs.models import Allocation, Job
from harness.pool.models import Device, Node
from scheduler.estimation.device_parts import NodePace
from scheduler.estimation.prior import prior_for
from tests.harness.client.conftest import Dlh
from tests.harness.jobs.helpers import place_now

pytestmark = pytest.mark.usefixtures("portal")


def test_the_pool_is_shown_and_changed_by_admins(
    dlh: Dlh, node_make: Any, portal: SimpleNamespace, monkeypatch: Any
) -> None:
    node_make()
    assert dlh("pool", "drain", "node-1", "--json").code == 3
    monkeypatch.setenv("DLH_TOKEN", portal.token_of("admin"))
    assert dlh("pool", "drain", "node-1", "--json").json["state"] == "drain"
    assert dlh("pool", "undrain", "node-1", "--json").json["state"] == "up"
    assert dlh("pool", "add", "node-2").code == 0
    assert "node-2  not joined yet" in dlh("pool").out and "draining" not in dlh("pool").out
    dlh("pool", "drain", "node-1")
    assert "0 free, 2 down, draining or not seen, 0 jobs wait." in dlh("pool").out
    Node.objects.filter(name="node-1").update(state="down")
    assert "down, drained" in dlh("pool").out
    assert "is down: it accepts jobs once it is back" in dlh("pool", "undrain", "node-1").out
    dlh("pool", "drain", "node-1")
    Node.objects.filter(name="node-1").update(state="drain", description={"clock_off_s": 40.0})
    assert "node-1 accepts jobs once its clock is right." in dlh("pool", "undrain", "node-1").out
    Node.objects.filter(name="node-1").update(description={"twins_at": 1.0})
    assert "node-1 accepts jobs once one machine alone reports as it." in dlh("pool", "undrain", "node-1").out
    Node.objects.filter(name="node-1").update(description={})
    dlh("pool", "undrain", "node-1")
    assert {node["name"] for node in dlh("pool", "--json").json["nodes"]} == {"node-1", "node-2"}
    assert dlh("pool", "rm", "node-2", "--json").json["ok"]
    assert dlh("pool", "rm", "node-1", "--json").json["error"]["code"] == "conflict"
    assert "node-1" in dlh("pool").out


def test_two_machines_that_report_as_one_node_are_told_with_what_to_do(dlh: Dlh, node_make: Any) -> None:
    node_make()
    Node.objects.update(state="drain", description={"twins_at": 1.0})
    told = " ".join(dlh("pool").out.split())
    assert "No job starts on node-1: two machines report as it." in told
    assert "dlh pool add NODE, then there dlh node join URL TOKEN --home OTHER" in told
    Node.objects.update(state="down")
    assert "two machines" not in dlh("pool").out, "neither does any more"


def test_a_clock_that_is_off_is_told_of_while_its_node_is_not_down(dlh: Dlh, node_make: Any) -> None:
    node_make()
    Node.objects.update(state="drain", description={"clock_off_s": 40.0})
    told = " ".join(dlh("pool").out.split())
    assert "its clock is 40 s ahead of the portal's. There: timedatectl set-ntp true" in told
    Node.objects.update(state="down")
    assert "clock" not in dlh("pool").out, "there is nothing to mend"


def test_what_still_runs_on_a_node_that_drains_is_busy_alone(dlh: Dlh, node_make: Any, job_make: Any) -> None:
    node_make(cpus=2)
    place_now(job_make())
    held = Allocation.objects.count()
    Node.objects.update(state="drain")
    left = f"{2 - held} down, draining or not seen, " if held < 2 else ""
    assert f"{held} of 2 devices busy, 0 free, {left}0 jobs wait." in dlh("pool").out


def test_the_pool_names_models_of_devices_as_an_offer_takes_them(dlh: Dlh, node_make: Any) -> None:
    node_make(cpus=3, gpus=1)
    Device.objects.filter(kind="cpu", index=2).update(slowdown=2.0)
    shown = dlh("pool").out
    assert "2 x core" in shown and "1 x core, declared 2 times as slow" in shown and "1 x gpu" in shown


def test_the_pool_says_which_node_is_slower_than_others_of_its_kind(dlh: Dlh, node_make: Any) -> None:
    node_make(cpus=2)
    pace = NodePace(factor=1.5, low=1.4, high=1.6, n_jobs=9)
    body = replace(prior_for("cpu", "core"), paces={"node-1": pace}).to_dict()
    DeviceModelRow.objects.create(kind="cpu", model_name="core", fitted=body, model=body, fitted_at=timezone.now())
    shown = " ".join(dlh("pool").out.split())
    assert "node-1: core: the newest 9 finished jobs took 1.50 times as long as on other nodes" in shown
    assert "2 x core" in shown


def test_one_job_waits_and_a_draft_has_no_run_time(dlh: Dlh, node_make: Any, job: Any) -> None:
    node_make()
    assert "0 jobs wait." in dlh("pool").out
    _, line = dlh("jobs", "--column", "run_s", "--column", "state").out.splitlines()
    assert line.rstrip().endswith("draft") and "0 s" not in line
    Job.objects.filter(pk=job.pk).update(state="queued")
    assert "1 job waits." in dlh("pool").out


def test_admins_are_told_how_far_the_reading_of_events_is(dlh: Dlh, portal: SimpleNamespace, monkeypatch: Any) -> None:
    from harness.api.routes import pool as routes
    from harness.errors import Unavailable
    from harness.jobs.readers import Reading, StreamState

    told = StreamState(number=3, waiting=1200, behind_s=7.5, reader="host/12", read_at_s=1.7e9)
    found = [Reading(streams=(told,), readers=("host/12",), decided_by="host/9")]

    def state() -> Reading:
        if not found:
            raise Unavailable("The portal's broker does not answer.")
        return found[0]

    monkeypatch.setattr(routes, "reading_state", state)
    assert dlh("pool", "readers", "--json").code == 3
    monkeypatch.setenv("DLH_TOKEN", portal.token_of("admin"))
    body = dlh("pool", "readers", "--json").json
    assert (body["waiting"], body["behind_s"], body["readers"]) == (1200, 7.5, ["host/12"])
    assert body["streams"][0]["number"] == 3
    shown = dlh("pool", "readers").out
    assert "host/12" in shown and "1,200 events wait" in shown and "Scheduled last by host/9." in shown
    found.pop(0)
    assert dlh("pool", "readers", "--json").json["error"]["code"] == "unavailable"
