"""Gradients that are rounded to 16 bits on their way: fewer bytes over the link, more work for cores."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.link import pair_link, rounding_s, sent_bytes, spanning_link
from scheduler.estimation.prior import HOST_LINK, prior_for
from scheduler.estimation.ranks import step_time
from scheduler.estimation.values import Allocation
from scheduler.workload import Workload
from tests.scheduler.made_workloads import KIND, NAME, allocation, workload

WORK = replace(workload(batch=64), gradient_bytes=40_000_000)
CORES = prior_for(KIND, NAME)
GPUS = prior_for("cuda", "NVIDIA H100 80GB HBM3")
SLOW = pair_link(1e-9, 1e7)
"""Four seconds for the gradients of two ranks."""


def sums_s(compression: str, model: DeviceModel, ranks: int = 2, mode: str = "sync") -> float:
    """Seconds of a step in which the ranks add up."""
    way = Allocation(
        kind=model.kind, model_name=model.model_name, count=ranks, mode=mode, batch_split=(64 // ranks,) * ranks
    )
    return step_time(replace(WORK, compression=compression), way, model).communication_s


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_float16_halves_what_the_gradients_take_over_a_slow_network(ranks: int) -> None:
    over = replace(GPUS, nodes_link=SLOW)
    assert sums_s("fp16", over, ranks) == pytest.approx(sums_s("none", over, ranks) / 2, rel=1e-3)


@pytest.mark.parametrize(("ranks", "share"), [(2, 0.5), (4, 1.0), (8, 2.0)])
def test_bfloat16_of_all_ranks_is_brought_to_each_since_horovod_cannot_sum_it(ranks: int, share: float) -> None:
    over = replace(GPUS, nodes_link=SLOW)
    assert sums_s("bf16", over, ranks) == pytest.approx(share * sums_s("none", over, ranks), rel=1e-3)


@pytest.mark.parametrize("compression", ["fp16", "bf16"])
def test_on_one_host_of_cores_rounding_costs_more_than_it_saves(compression: str) -> None:
    quick = replace(CORES, link=replace(CORES.link, bytes_per_s=1e10))
    assert sums_s(compression, quick) > sums_s("none", quick)
    slow = replace(CORES, nodes_link=SLOW)
    assert sums_s(compression, slow) < 0.6 * sums_s("none", slow)


def test_gpus_that_add_up_in_the_memory_of_their_hosts_have_cores_do_it() -> None:
    saved_s = WORK.gradient_bytes / 2 / HOST_LINK.bytes_per_s
    by_host = replace(GPUS, host_link=HOST_LINK)
    added_s = sums_s("fp16", by_host) - sums_s("none", by_host) + saved_s
    assert added_s == pytest.approx(rounding_s(replace(WORK, compression="fp16"), 2, "sync"))


@pytest.mark.parametrize("mode", ["async", "replicated"])
def test_other_modes_send_float32_whatever_the_spec_says(mode: str) -> None:
    over = replace(CORES, nodes_link=SLOW)
    assert sums_s("fp16", over, mode=mode) == sums_s("none", over, mode=mode)


def test_one_rank_sends_nothing_and_rounds_nothing() -> None:
    alone = allocation(rows=(64,))
    rounded, exact = (step_time(replace(WORK, compression=each), alone, CORES) for each in ("fp16", "none"))
    assert rounded == replace(exact, rank_totals=rounded.rank_totals)


def test_the_slowest_pair_of_nodes_is_that_for_what_is_sent() -> None:
    far, thin = pair_link(3.0, 1e9), pair_link(1e-3, 1e7)
    sizes = [sent_bytes(replace(WORK, compression=each), 2) for each in ("none", "fp16")]
    inside = replace(CORES.link, bytes_per_s=1e12, latency_s=1e-9)
    assert [spanning_link(inside, [far, thin], 1, size) for size in sizes] == [thin, far]


def test_a_workload_that_rounds_to_something_else_is_refused_and_one_from_before_rounds_nothing() -> None:
    with pytest.raises(ValueError, match="compression is 'fp8'; it must be one of none, bf16, fp16"):
        replace(WORK, compression="fp8")
    body = replace(WORK, compression="fp16").to_dict()
    assert Workload.from_dict(body).compression == "fp16"
    del body["compression"]
    assert Workload.from_dict(body).compression == "none"
