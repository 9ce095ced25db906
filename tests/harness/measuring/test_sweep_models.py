"""A sweep names the model of its devices: a node may have several, each with programs of its own size."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from harness.calibration.holding import run_devices
from harness.calibration.models import CalibrationRun
from harness.calibration.plans import run_extent, run_plan
from harness.errors import Conflict, Forbidden, Invalid, Unavailable
from harness.measuring.requests import link_request_of, request_of
from harness.measuring.services import calibration_start, calibration_stop, calibrations_start
from harness.pool.models import Device, Reservation
from tests.harness.client.conftest import client, dlh, home, portal
from tests.harness.measuring.conftest import Commit, advance

__all__ = ["client", "dlh", "home", "portal"]

H100, T4 = "NVIDIA H100 80GB HBM3", "Tesla T4"
pytestmark = pytest.mark.django_db


def mixed(node_make: Callable[..., Any], name: str, *models: str) -> None:
    """A node whose driver reports GPUs of these models, in this order."""
    memory = {H100: 80 << 30, T4: 16 << 30}
    devices = [{"kind": "cpu", "index": index, "model_name": "core", "memory_bytes": 4 << 30} for index in range(2)]
    devices += [
        {"kind": "cuda", "index": index, "model_name": model, "memory_bytes": memory[model], "uuid": f"{name}-{index}"}
        for index, model in enumerate(models)
    ]
    node_make(name, devices=devices)


def held() -> set[tuple[str, int]]:
    """(model, index) of devices that are kept from jobs."""
    live = Reservation.objects.filter(cancelled_at=None).select_related("device")
    return {(row.device.model_name, row.device.index) for row in live if row.device}


def test_a_node_with_several_models_wants_one_named(people: SimpleNamespace, node_make: Callable[..., Any]) -> None:
    mixed(node_make, "node-1", H100, T4)
    with pytest.raises(Invalid, match=f"{H100}, {T4}") as refused:
        calibration_start(user=people.admin, kind="cuda")
    assert refused.value.field == "model_name"
    with pytest.raises(Invalid, match="no cuda device 'A100'"):
        calibration_start(user=people.admin, node="node-1", kind="cuda", model_name="A100")
    run = calibration_start(user=people.admin, kind="cuda", model_name=T4)
    assert (run.node_name, run.model_name) == ("node-1", T4)
    assert held() == {(T4, 1)}


def test_the_model_tells_the_node_that_alone_has_it(people: SimpleNamespace, node_make: Callable[..., Any]) -> None:
    mixed(node_make, "node-1", H100)
    mixed(node_make, "node-2", T4)
    assert calibration_start(user=people.admin, kind="cuda", model_name=T4).node_name == "node-2"
    with pytest.raises(Invalid):
        calibration_start(user=people.admin, kind="cuda", model_name="A100")


def test_a_node_whose_device_has_gone_is_not_asked_about(
    people: SimpleNamespace, node_make: Callable[..., Any]
) -> None:
    mixed(node_make, "node-1", T4)
    mixed(node_make, "node-2", T4)
    Device.objects.filter(node__name="node-1", kind="cuda").update(away_since=timezone.now())
    assert calibration_start(user=people.admin, kind="cuda").node_name == "node-2"
    Device.objects.filter(kind="cuda").update(away_since=timezone.now())
    with pytest.raises(Unavailable, match="No node that is up has a device of the kind cuda"):
        calibration_start(user=people.admin, kind="cuda")


def test_a_device_that_the_pool_has_not_is_wrong_and_not_awaited(
    people: SimpleNamespace, node_make: Callable[..., Any]
) -> None:
    node_make("node-1", cpus=1)
    for model_name, field in (("", "kind"), ("T4", "model_name")):
        with pytest.raises(Invalid, match=r"^The pool has no device of the kind cuda") as told:
            calibration_start(user=people.admin, kind="cuda", model_name=model_name)
        assert told.value.field == field


def test_each_model_is_measured_on_programs_of_its_own_size(
    people: SimpleNamespace, node_make: Callable[..., Any]
) -> None:
    mixed(node_make, "node-1", H100, T4, T4)
    large, small = calibrations_start(user=people.admin, kind="cuda")
    assert (large.model_name, small.model_name) == (H100, T4)
    assert run_extent(large).flops_per_s > 10 * run_extent(small).flops_per_s
    assert run_extent(small).memory_bytes == 8 << 30
    assert not {planned.point_id for planned in run_plan(large)} & {planned.point_id for planned in run_plan(small)}
    assert large.planned == 300 and small.planned > 300, "some points of the two alike are measured on both"


def test_only_devices_of_the_model_are_asked_for(people: SimpleNamespace, node_make: Callable[..., Any]) -> None:
    mixed(node_make, "node-1", T4, H100, T4)
    run = calibration_start(user=people.admin, kind="cuda", model_name=T4)
    assert [device.index for device in run_devices(run)] == [0, 2]
    both = next(planned for planned in run_plan(run) if planned.ranks == 2)
    assert request_of(run, both)["device"] == link_request_of(run)["device"] == "cuda:0,2"
    assert request_of(run, run_plan(run)[0])["device"] == "cuda:0"


def test_two_models_of_a_node_are_measured_one_after_the_other(
    people: SimpleNamespace, node_make: Callable[..., Any], commit: Commit
) -> None:
    mixed(node_make, "node-1", H100, T4)
    first, second = calibrations_start(user=people.admin, kind="cuda")
    assert held() == {(H100, 0)}, "the other one works until its turn comes"
    advance(commit, 2)
    second.refresh_from_db()
    assert second.state == "waiting" and second.message == f"Waits for the calibration of {H100} on node-1 to end."
    assert held() == {(H100, 0)}
    calibration_stop(user=people.admin, run_id=first.pk)
    advance(commit)
    second.refresh_from_db()
    assert (second.state, held()) == ("running", {(T4, 1)})


def test_every_model_of_the_pool_is_measured_once_where_most_of_it_is(
    people: SimpleNamespace, node_make: Callable[..., Any]
) -> None:
    mixed(node_make, "node-1", T4, H100)
    mixed(node_make, "node-2", T4, T4)
    Device.objects.filter(node__name="node-1", model_name=H100).update(model_name="")
    runs = calibrations_start(user=people.admin, kind="cuda", budget_s=30.0)
    assert [(run.model_name, run.node_name, run.budget_s) for run in runs] == [(T4, "node-2", 30.0)]
    Device.objects.filter(model_name="").update(model_name=H100)
    (more,) = calibrations_start(user=people.admin, kind="cuda")
    assert more.model_name == H100
    with pytest.raises(Conflict):
        calibrations_start(user=people.admin, kind="cuda")


def test_what_cannot_be_measured_at_all_is_refused(people: SimpleNamespace, node_make: Callable[..., Any]) -> None:
    node_make("node-1")
    with pytest.raises(Forbidden):
        calibrations_start(user=people.owner)
    with pytest.raises(Invalid):
        calibrations_start(user=people.admin, kind="cuda")
    with pytest.raises(Invalid):
        calibrations_start(user=people.admin, budget_s=0.0)
    assert not CalibrationRun.objects.exists()


def test_the_command_line_names_a_model_or_takes_all(
    portal: SimpleNamespace, dlh: Callable[..., Any], node_make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLH_TOKEN", portal.token_of("admin"))
    mixed(node_make, "node-1", H100, T4)
    refused = dlh("pool", "calibrate", "--kind", "cuda")
    assert refused.code != 0 and T4 in refused.err
    named = dlh("pool", "calibrate", "--kind", "cuda", "--model", T4)
    assert f"of {T4} on node-1 begins" in named.out
    rest = dlh("pool", "calibrate", "--kind", "cuda", "--all", "--json")
    assert H100 in rest.out and CalibrationRun.objects.count() == 2
    assert dlh("pool", "calibrate", "--all", "--node", "node-1").code != 0
    assert T4 in dlh("pool", "calibration").out


def test_the_page_offers_the_models_there_are_and_all_of_them(
    client: Client, people: SimpleNamespace, node_make: Callable[..., Any]
) -> None:
    mixed(node_make, "node-1", H100, T4)
    page = Client()
    page.force_login(people.admin)
    text = page.get("/pool/calibration/").content.decode()
    assert all(f'value="{name}"' in text for name in (H100, T4, "core", "*"))
    form = {"node": "node-1", "kind": "cuda", "minutes": "1"}
    page.post("/pool/calibration/start/", {**form, "model": T4})
    assert CalibrationRun.objects.get().model_name == T4
    text = page.post("/pool/calibration/start/", {**form, "model": "*"}, follow=True).content.decode()
    assert {run.model_name for run in CalibrationRun.objects.all()} == {H100, T4}
    assert f"{T4} of node-1" in " ".join(text.split())
