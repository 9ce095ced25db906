"""From finished jobs to the paces of nodes in the model, and from there to ranges, probes and the first split."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.calibration.exchange import points_export, row_of
from harness.calibration.known import device_model
from harness.calibration.models import CalibrationPointRow, FinishedJobRow
from harness.estimates.probes import probe_request, probes_of
from harness.estimates.selectors import offer_priced
from harness.estimates.services import inspection_answer
from harness.estimates.tried import Tried, batch_size
from harness.jobs.control.gangs import gang_of
from harness.measuring.fitting import model_correct, model_fit
from harness.measuring.taught import finished_of
from harness.pool.models import Device, Node, NodeState
from scheduler.estimation.estimate import estimate
from tests.harness.estimates.factories import answer
from tests.harness.estimates.node_jobs import KIND, NAME, finished_make
from tests.scheduler.made_workloads import allocation, points, workload

UNLIKE = {"node-a": 1.0, "node-b": 1.5}


@pytest.fixture
def learnt(node_make, job_make, people):
    """Jobs ended on two nodes with devices of one name, and the model has learnt from them."""
    for number, name in enumerate(UNLIKE):
        node_make(name, cpus=2, address=f"10.0.0.{number + 1}")
    like = job_make(name="like these")

    def make(paces: dict[str, float] = UNLIKE) -> None:
        finished_make(like, paces)
        model_correct(KIND, NAME)

    return make


@pytest.fixture
def offered(ask):
    """An offer of a program that the node has read."""

    def make(job):
        offer = ask(job, count=1)
        if offer.inspection.state == "waiting":
            inspection_answer(answer(offer.inspection, workload=workload(layers=4, filters=48, batch=32).to_dict()))
        offer.refresh_from_db()
        return offer

    return make


def test_a_node_whose_jobs_take_longer_has_a_pace_until_it_is_like_the_others_again(learnt):
    learnt(dict.fromkeys(UNLIKE, 1.0))
    alike = device_model(KIND, NAME)
    assert alike.paces == {}
    learnt()
    model = device_model(KIND, NAME)
    assert list(model.paces) == ["node-b"] and model.pace_on("node-b") == pytest.approx(1.5, rel=0.1)
    assert model.correction.factor == pytest.approx(alike.correction.factor, rel=0.03), "the slow node's jobs left it"
    assert set(Device.objects.values_list("model_name", flat=True)) == {NAME}, "nothing has another name"
    learnt(dict.fromkeys(UNLIKE, 1.0))
    assert device_model(KIND, NAME).paces == {}


def test_offers_range_to_the_slow_node_while_it_takes_work(job, learnt, offered):
    before = offer_priced(offered(job)).lines[0].estimate
    learnt()
    wide = offer_priced(offered(job)).lines[0].estimate
    assert wide.step_s.high / wide.step_s.mid > 1.3 * before.step_s.high / before.step_s.mid
    assert wide.run_s.high / wide.run_s.mid > before.run_s.high / before.run_s.mid
    assert "times as long on node-b" in wide.note
    Node.objects.filter(name="node-b").update(state=NodeState.DRAIN)
    assert device_model(KIND, NAME).pace_range == (1.0, 1.0)
    assert "node-b" not in offer_priced(offered(job)).lines[0].estimate.note


def test_a_new_fit_keeps_the_paces_and_so_does_a_model_whose_other_jobs_are_gone(learnt):
    learnt()
    CalibrationPointRow.objects.bulk_create(row_of(replace(point, model_name=NAME)) for point in points(12))
    assert "node-b" not in points_export(form="json")
    assert model_fit(KIND, NAME) is not None
    fitted = device_model(KIND, NAME)
    assert fitted.n_points == 12 and list(fitted.paces) == ["node-b"]
    FinishedJobRow.objects.exclude(job__uses__node_name="node-b").delete()
    assert {job.node for job in finished_of(KIND, NAME)} == {"node-b"}
    model_correct(KIND, NAME)
    left = device_model(KIND, NAME)
    assert left.paces == fitted.paces
    assert left.correction.factor == pytest.approx(fitted.correction.factor, rel=0.05)


def test_a_probe_stands_for_other_nodes_by_what_its_own_node_takes(job, learnt, offered, people):
    inspection = offered(job).inspection
    probe = probe_request(user=people.owner, job=job, inspection=inspection, tried=Tried(rows=batch_size(job)))
    type(probe).objects.filter(pk=probe.pk).update(state="done", step_s=[3.0], node_name="node-b")
    learnt()
    found = probes_of(inspection)[KIND, NAME]
    model = device_model(KIND, NAME)
    way = replace(allocation(), model_name=NAME)
    step = estimate(workload(), way, model, probe=found).step_s
    elsewhere = estimate(workload(), way, model, probe=replace(found, node="node-a")).step_s
    assert found.node == "node-b"
    assert elsewhere.mid == pytest.approx(model.pace_on("node-b") * step.mid)


def test_the_first_split_gives_a_slow_node_fewer_rows_and_nothing_sleeps(job, learnt):
    job.resolved["spec"]["training"]["batch_size"] = 100
    job.resolved["spec"]["resources"]["split"] = "by_speed"
    devices = list(Device.objects.filter(index=0).select_related("node").order_by("node__name"))
    assert gang_of(job, devices, threads=1, rank_bytes=1 << 32) is None, "alike, for all that is known"
    learnt()
    gang = gang_of(job, devices, threads=1, rank_bytes=1 << 32)
    assert gang is not None and sum(gang.shares) == 100
    assert gang.shares[1] == pytest.approx(40, abs=2)
    assert "Emulated" not in gang.words
    one = list(Device.objects.filter(node__name="node-b").select_related("node"))
    assert gang_of(job, one, threads=1, rank_bytes=1 << 32) is None, "all of one node are alike"
