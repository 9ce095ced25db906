"""One device tries what one rank of a gang would do: its share of the rows, or of stages a micro-batch."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from harness.calibration.known import device_model
from harness.errors import Conflict, Unavailable
from harness.estimates import probes
from harness.estimates.models import Inspection, ProbeRow
from harness.estimates.own_pace import probes_known
from harness.estimates.selectors import offer_priced
from harness.estimates.services import inspection_answer, measure_answer, offer_probe
from harness.estimates.settling import probed_workload
from harness.estimates.tried import Tried, whole_fits_check
from harness.pool.idle import IDLE_CUDA_BYTES
from harness.pool.models import Device, Reservation
from harness.pool.reservations import reservation_hold
from harness.pool.services import device_slow
from scheduler.estimation.link import allreduce_s
from scheduler.estimation.peaks import peak_interval
from scheduler.workload import Piece, totals_at_batch
from tests.harness.estimates.factories import answer
from tests.harness.jobs.helpers import place_now
from tests.scheduler.made_workloads import workload

WORK = replace(workload(layers=4, filters=48, batch=32), pieces=(Piece(parameter_bytes=1e5, output_bytes=1e3),) * 6)
SLOW = "core, declared 3 times as slow"


@pytest.fixture
def asked(monkeypatch):
    """What nodes were asked to measure."""
    requests = []
    monkeypatch.setattr(probes, "task_send_on_commit", lambda _, args, **__: requests.append(args[0]))
    return requests


@pytest.fixture
def offered(ask):
    """An offer of a program whose steps take a while; the node has read it."""

    def make(job, work=WORK, **wish):
        offer = ask(job, **wish)
        if offer.inspection.state == "waiting":
            inspection_answer(answer(offer.inspection, workload=work.to_dict()))
        offer.refresh_from_db()
        return offer

    return make


def told(probe, step_s, **more):
    measure_answer({"request_id": f"{probes.PREFIX}{probe.pk}", "ok": True, "step_s": [step_s] * 3, **more})
    probe.refresh_from_db()


def line_of(offer, count, mode):
    (found,) = (
        line
        for line in offer_priced(offer).lines
        if (line.allocation.count, line.allocation.mode) == (count, mode)
        and (not line.allocation.stages or line.allocation.stages == count)
    )
    return found.estimate


@pytest.mark.parametrize(("count", "rows"), [(1, 32), (2, 16), (3, 11), (4, 8)])
def test_a_gang_is_tried_with_the_rows_of_one_rank(job, people, node_make, offered, asked, count, rows):
    node_make("node-1", cpus=4)
    probe = offer_probe(
        user=people.owner, offer=offered(job, kind="cpu", count=count, mode="sync" if count > 1 else None)
    )
    assert (probe.rows, probe.allocation["count"]) == (rows, 1)
    assert [request["batch_size"] for request in asked] == [rows]
    assert Reservation.objects.filter(cancelled_at=None).count() == 1, "one device is enough"


def test_what_one_device_took_counts_for_each_rank_and_messages_stay_modelled(job, people, node_make, offered):
    node_make("node-1", cpus=2)
    offer = offered(job, kind="cpu", count=2, mode="sync")
    before, step_s = line_of(offer, 2, "sync"), 0.75
    told(offer_probe(user=people.owner, offer=offer), step_s, peak_bytes=3e8)
    offer.refresh_from_db()
    after, model = line_of(offer, 2, "sync"), device_model("cpu", "core")
    sent_s = allreduce_s(model.link, WORK.gradient_bytes, 2)
    assert after.step_s.mid == pytest.approx(step_s * (1 + model.contention) + sent_s)
    assert after.step_s.high / after.step_s.low < before.step_s.high / before.step_s.low
    assert after.peak_bytes.mid == pytest.approx(3e8) and str(after.memory_basis) == "measured"
    assert after.note.startswith("3 real steps of this program on one device measured, messages assumed")
    (note,) = (note for note in offer.notes if note.startswith("Steps of one device measured"))
    assert "(core, 16 rows of a step)" in note and "messages modelled" in note


def test_ways_of_one_device_alone_are_told_nothing_of_messages(job, people, node_make, offered):
    node_make("node-1", cpus=1)
    offer = offered(job)
    told(offer_probe(user=people.owner, offer=offer), 0.5)
    offer.refresh_from_db()
    assert not any("messages modelled" in note for note in offer.notes)


def test_the_whole_model_is_tried_for_stages_on_the_rows_of_a_micro_batch(job, people, node_make, offered):
    node_make("node-1", cpus=2)
    offer = offered(job, kind="cpu", count=2, mode="pipeline")
    before = line_of(offer, 2, "pipeline")
    probe = offer_probe(user=people.owner, offer=offer)
    assert 1 <= probe.rows < WORK.global_batch_size
    told(probe, 1e-3)
    offer.refresh_from_db()
    after = line_of(offer, 2, "pipeline")
    assert after.step_s.mid < before.step_s.mid and after.step_s.high < before.step_s.high
    assert "on one device measured, its stages modelled, messages assumed" in after.note


def test_a_model_in_stages_that_no_single_device_holds_is_not_tried_and_it_is_said_why(job, people, node_make, offered):
    node_make("node-1", cpus=2)
    large = replace(WORK, parameter_bytes=6 << 30, gradient_bytes=6 << 30, optimizer_bytes=12 << 30)
    offer = offered(job, work=large, kind="cpu", count=2, mode="pipeline")
    with pytest.raises(Conflict, match=r"the whole model with .* may take .* and node-1 has") as refused:
        offer_probe(user=people.owner, offer=offer)
    assert refused.value.code == "whole_too_large" and "its own pace" in refused.value.hint
    assert not ProbeRow.objects.exists() and not Reservation.objects.exists()


def test_a_whole_model_is_as_large_as_its_precision_makes_it(node_make):
    node_make("node-1", gpus=1)
    gpu, rows = Device.objects.get(kind="cuda"), WORK.batch_size
    memory, room_bytes = device_model("cuda", gpu.model_name).memory, gpu.memory_bytes - IDLE_CUDA_BYTES

    def high_bytes(activation_bytes: float) -> float:
        return peak_interval(memory, totals_at_batch(replace(WORK, activation_bytes=activation_bytes), rows)).high

    by_byte = (high_bytes(1e9) - high_bytes(0.0)) / 1e9
    large = replace(WORK, activation_bytes=(0.9 * room_bytes - high_bytes(0.0)) / by_byte)
    whole_fits_check(Tried(rows=rows, whole=large), gpu)
    with pytest.raises(Conflict, match="the whole model with 32 rows"):
        whole_fits_check(Tried(rows=rows, whole=replace(large, precision="float32")), gpu)


@pytest.mark.parametrize("busy", [SLOW, "core"])
def test_of_a_mixture_that_device_is_tried_which_is_idle_with_its_own_share(job, people, node_make, offered, busy):
    node_make("node-1", cpus=2)
    device_slow(user=people.admin, node="node-1", kind="cpu", index=1, factor=3.0)
    offer = offered(job, kind="cpu", count=2)
    (way,) = {line.allocation for line in offer_priced(offer).lines if line.allocation.parts}
    shares = dict(zip((name for name, _ in way.parts), way.batch_split, strict=True))
    taken = Device.objects.get(slowdown=3.0 if busy == SLOW else 1.0)
    ends_at = timezone.now() + timedelta(hours=1)
    reservation_hold(target=taken, ends_at=ends_at, purpose="Course", project=people.elsewhere)
    probe = offer_probe(user=people.owner, offer=offer, model_name=way.model_name)
    kept = Reservation.objects.get(pk=probe.reservation)
    assert kept.device != taken
    assert shares["core"] > shares[SLOW] and probe.rows in shares.values()


def test_no_idle_device_of_the_gangs_kind_is_no_probe(job, job_make, people, node_make, offered):
    node_make("node-1", cpus=2)
    offer = offered(job, kind="cpu", count=2, mode="sync")
    for _ in range(2):
        place_now(job_make(name="runs"))
    with pytest.raises(Unavailable, match="No device is idle"):
        offer_probe(user=people.owner, offer=offer)


def test_a_free_device_is_enough_for_a_gang_whose_others_are_busy(job, job_make, people, node_make, offered):
    node_make("node-1", cpus=2)
    offer = offered(job, kind="cpu", count=2, mode="sync")
    place_now(job_make(name="runs"))
    assert offer_probe(user=people.owner, offer=offer).state == "waiting"


def test_what_a_node_read_while_it_tried_one_rank_is_of_the_whole_step(job, people, node_make, ask):
    node_make("node-1", cpus=2)
    offer = ask(job, kind="cpu", count=2, mode="sync")
    problem = {"code": "cannot_trace", "message": "The loop depends on values."}
    inspection_answer({"request_id": offer.inspection.pk, "ok": False, "workload": None, "problem": problem})
    probe = ProbeRow.objects.get()
    whole = probe.batch_size
    assert probe.rows == -(-whole // 2)
    share = replace(WORK, batch_size=probe.rows, global_batch_size=probe.rows).to_dict()
    told(probe, 0.5, workload=share)
    body, only = probed_workload(Inspection.objects.get())
    assert (body["global_batch_size"], body["batch_size"], only) == (whole, probe.rows, None)


def test_of_two_probes_the_one_with_the_rows_that_are_asked_for_counts(job, people, node_make, offered):
    node_make("node-1", cpus=2)
    gang, alone = offered(job, kind="cpu", count=2, mode="sync"), offered(job, kind="cpu", count=1)
    told(offer_probe(user=people.owner, offer=gang), 0.4)
    told(offer_probe(user=people.owner, offer=alone), 0.7)
    inspection = Inspection.objects.get()
    found = {rows: probes_known(inspection, None, rows=rows)["cpu", "core"].step_s[0] for rows in (0, 16, 32)}
    assert found == {0: 0.7, 16: 0.4, 32: 0.7}
