"""Ranks on GPUs that add up through the memory of their hosts are priced with that, and told why."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.estimate import estimate
from scheduler.estimation.finished import Finished
from scheduler.estimation.learning import corrected
from scheduler.estimation.link import allreduce_s, pair_link, spanned
from scheduler.estimation.prior import HOST_LINK, by_host, prior_for
from scheduler.estimation.probe import Probe
from scheduler.estimation.values import Allocation, Basis
from tests.scheduler.made_workloads import workload

NAME = "NVIDIA H100 80GB HBM3"
DIRECT = prior_for("cuda", NAME)
HOST = by_host(DIRECT, "Horovod has no NCCL on b")
WORK = workload(layers=4, filters=48, batch=64)


def gang(count: int, mode: str = "sync") -> Allocation:
    rows = (64,) * count if mode == "pipeline" else (64 // count,) * count
    return Allocation(kind="cuda", model_name=NAME, count=count, mode=mode, batch_split=rows)


def test_a_sum_takes_what_it_takes_between_hosts_and_one_gpu_takes_none() -> None:
    more_s = allreduce_s(HOST_LINK, WORK.gradient_bytes, 4) - allreduce_s(DIRECT.link, WORK.gradient_bytes, 4)
    direct, host = (estimate(WORK, gang(4), model) for model in (DIRECT, HOST))
    assert host.step_s.mid - direct.step_s.mid == pytest.approx(more_s) and more_s > 0
    assert estimate(WORK, gang(1), HOST) == estimate(WORK, gang(1), DIRECT)


def test_the_reason_is_told_and_the_link_is_called_assumed() -> None:
    found = estimate(WORK, gang(2), HOST)
    told = "gradients are added up through the memory of the hosts (Horovod has no NCCL on b), over an assumed link"
    assert told in found.note and found.time_basis is Basis.ASSUMED
    assert "network is assumed" not in found.note


def test_stages_of_a_pipeline_send_from_gpu_to_gpu_all_the_same() -> None:
    assert estimate(WORK, gang(2, "pipeline"), HOST) == estimate(WORK, gang(2, "pipeline"), DIRECT)


@pytest.mark.parametrize("basis", [Basis.MEASURED, Basis.MODELLED])
def test_what_was_measured_was_measured_as_the_ranks_add_up(basis: Basis) -> None:
    timed = replace(DIRECT, link=replace(DIRECT.link, basis=basis))
    assert by_host(timed) == timed


def test_over_nodes_of_which_not_all_links_are_measured_it_is_no_quicker_than_through_a_host() -> None:
    quick = spanned(HOST, [pair_link(1e-5, 1e10)], 2, WORK).host_link
    assert quick == replace(HOST_LINK, basis=Basis.ASSUMED, n_points=1)
    slow = spanned(HOST, [pair_link(5e-3, 2e6)], 1, WORK)
    assert slow.host_link is not None and slow.host_link.bytes_per_s == 2e6


def test_a_probe_of_several_ranks_is_held_against_what_they_go_over() -> None:
    step_s = estimate(WORK, gang(2), HOST).step_s.mid
    probe = Probe(allocation=gang(2), step_s=(step_s,) * 3)
    for model in (HOST, spanned(HOST, [pair_link(5e-3, 2e6)], 1, WORK)):
        found = estimate(WORK, gang(4), model, probe=probe)
        assert found.step_s.mid == pytest.approx(estimate(WORK, gang(4), model).step_s.mid)


def test_jobs_that_added_up_so_are_not_held_against_the_device() -> None:
    works = [workload(filters=8 + number, batch=64) for number in range(6)]
    ran = [
        Finished(workload=work, allocation=gang(2), step_s=estimate(work, gang(2), HOST).step_s.mid, by_host=True)
        for work in works
    ]
    assert corrected(DIRECT, ran).correction.factor == pytest.approx(1.0)
    assert corrected(DIRECT, [replace(job, by_host=False) for job in ran]).correction.factor > 1.1


def test_a_model_comes_back_from_its_plain_values() -> None:
    assert DeviceModel.from_dict(json.loads(json.dumps(HOST.to_dict()))) == HOST
