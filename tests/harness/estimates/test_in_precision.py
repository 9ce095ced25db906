"""Offers of programs that compute in another precision than their devices were measured in."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.utils import timezone

from harness.calibration.known import device_models
from harness.calibration.models import DeviceModelRow
from harness.estimates.offer_notes import alone_notes, precision_notes
from harness.estimates.selectors import offer_priced
from harness.estimates.services import inspection_answer
from scheduler.estimation.fit import fit_device_model
from scheduler.estimation.probe import Probe
from scheduler.estimation.values import Allocation
from scheduler.kinds import mixed_name
from tests.harness.estimates.factories import answer, workload_make
from tests.scheduler.made_workloads import points

IN_16_BITS = replace(workload_make(), precision="fp16")
H100, V100 = "NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-16GB"


def measured(kind: str, model_name: str) -> None:
    """Keep a calibration of such devices, in what `auto` takes there."""
    body = fit_device_model([replace(point, kind=kind, model_name=model_name) for point in points(40)]).to_dict()
    DeviceModelRow.objects.create(
        kind=kind, model_name=model_name, fitted=body, model=body, n_points=40, fitted_at=timezone.now()
    )


@pytest.fixture
def calibrated(node_make):
    """A node of cores that were measured, in float32."""
    node_make("node-1", cpus=2)
    measured("cpu", "core")


@pytest.fixture
def offered(ask):
    """An offer of a job whose program a node has read as this workload."""

    def make(job, workload):
        offer = ask(job)
        inspection_answer(answer(offer.inspection, workload=workload.to_dict()))
        offer.refresh_from_db()
        return offer

    return make


def single_of(offer):
    return next(line for line in offer_priced(offer).lines if line.allocation.count == 1).estimate


def test_an_offer_and_each_of_its_lines_say_so(job, calibrated, offered, ask):
    offer = offered(job, IN_16_BITS)
    other = single_of(offer)
    assert "steps in float16 modelled from another precision, float32" in other.note
    offer.inspection.workload = workload_make().to_dict()
    offer.inspection.save()
    usual = single_of(ask(job))
    assert other.step_s.mid > usual.step_s.mid and "another precision" not in usual.note


def test_an_offer_names_the_devices(job, calibrated, offered):
    (told,) = (note for note in offered(job, IN_16_BITS).notes if "another precision" in note)
    assert told.startswith("On core steps in float16 are modelled from another precision, float32")


def test_a_program_that_was_read_before_nodes_told_its_precision_is_read_once_more(job, calibrated, offered, ask):
    found = offered(job, workload_make()).inspection
    found.workload = {name: value for name, value in found.workload.items() if name != "precision"}
    found.save()
    assert "another precision" not in single_of(ask(job)).note
    found.refresh_from_db()
    assert found.state == "waiting"
    inspection_answer(answer(found, workload=IN_16_BITS.to_dict()))
    after = ask(job)
    assert after.inspection.state == "done" and "another precision" in single_of(after).note


@pytest.mark.django_db
def test_steps_that_one_gpu_alone_made_tell_nothing_of_a_mixture_that_computes_in_another_precision():
    measured("cuda", H100)
    alone = Allocation(kind="cuda", model_name=H100, count=1, mode="single", batch_split=(32,))
    gang = replace(alone, count=2, mode="sync", batch_split=(16, 16))
    parts = ((H100, 1), (V100, 1))
    mixture = replace(gang, model_name=mixed_name(parts), parts=parts)
    probes = {("cuda", H100): Probe(allocation=alone, step_s=(0.1,))}
    assert not alone_notes([mixture], workload_make(), probes)
    assert alone_notes([gang, mixture], workload_make(), probes)
    models = device_models([("cuda", H100), ("cuda", V100)])
    assert not precision_notes([gang], workload_make(), probes, models)
    (told,) = precision_notes([gang, mixture], workload_make(), probes, models)
    assert told.startswith(f"On {H100} steps in float16 are modelled from another precision, bfloat16")
