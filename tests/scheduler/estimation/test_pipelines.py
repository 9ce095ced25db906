"""Pipelines on paper: offered where they are wished, faster than one device, with a stage's share of the memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codegen.pipelines import FEWEST_STAGES as SPEC_STAGES
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.estimate import estimate, estimate_all
from scheduler.estimation.link import allreduce_s, pair_link, spanned
from scheduler.estimation.pipelines import (
    FEWEST_STAGES,
    costliest_share,
    handed_bytes,
    pipelines_split,
    weights_share,
)
from scheduler.estimation.prior import prior_for
from scheduler.estimation.steps import Steps
from scheduler.estimation.values import Allocation
from scheduler.offers.candidates import DeviceGroup
from scheduler.offers.recommend import candidates
from scheduler.offers.values import Wish
from scheduler.workload import Piece, Workload
from tests.scheduler.made_workloads import KIND, NAME, allocation, workload
from worker.shares import even


@pytest.fixture(scope="module")
def model() -> DeviceModel:
    """A device without contention and with a quick link."""
    assumed = prior_for(KIND, NAME)
    return replace(assumed, contention=0.0, link=replace(assumed.link, latency_s=1e-5))


def staged(count: int, rows: int) -> Allocation:
    """A stage on each of so many devices."""
    return replace(allocation(count, (rows,) * count), mode="pipeline")


def test_stages_are_faster_than_one_device_but_not_ideally(model: DeviceModel) -> None:
    work = workload(layers=6, filters=64, size=32, batch=64)
    alone = estimate(work, allocation(1, (64,)), model)
    for count in (2, 4):
        way = estimate(work, staged(count, 64), model)
        assert 1.0 < alone.step_s.mid / way.step_s.mid < count
        assert way.peak_bytes.mid < alone.peak_bytes.mid


def test_a_small_model_gains_nothing_by_stages(model: DeviceModel) -> None:
    work = workload(layers=1, filters=4, size=8, batch=8)
    alone = estimate(work, allocation(1, (8,)), model)
    assert estimate(work, staged(4, 8), model).step_s.mid > alone.step_s.mid / 2


def test_estimates_of_several_modes_keep_their_order(model: DeviceModel) -> None:
    work = workload(layers=4, filters=32, batch=32)
    ways = [allocation(1, (32,)), staged(2, 32), allocation(2, (16, 16)), staged(4, 32)]
    together = estimate_all(Steps(work), [(way, None) for way in ways], model)
    assert [found.allocation for found in together] == ways
    assert together == [estimate(work, way, model) for way in ways]


def test_the_costliest_operator_counts_once_however_often_it_comes(model: DeviceModel) -> None:
    six, two = workload(layers=7, filters=32), workload(layers=3, filters=32)
    assert 0.1 < costliest_share(Steps(six), model) < costliest_share(Steps(two), model) < 0.6


def test_a_pipeline_is_a_way_only_where_it_is_wished() -> None:
    group = DeviceGroup(kind=KIND, model_name=NAME, sizes=(4,), memory_bytes=1 << 30)
    work = workload(batch=32)
    assert not [way for way in candidates(work, [group]) if way.allocation.mode == "pipeline"]
    found = [way for way in candidates(work, [group], wish=Wish(mode="pipeline")) if way.allocation.mode == "pipeline"]
    assert [(way.allocation.count, way.allocation.batch_split) for way in found] == [
        (count, (32,) * count) for count in (2, 3, 4)
    ]


def several(count: int, stages: int, rows: int) -> Allocation:
    """Pipelines of so many stages that share out the rows."""
    split = pipelines_split(even(rows, count // stages), stages)
    return replace(allocation(count, split), mode="pipeline+sync")


def test_several_pipelines_cost_a_pipeline_of_their_rows_and_the_sum_of_a_stages_gradients(model: DeviceModel) -> None:
    work = workload(layers=6, filters=64, size=32, batch=64)
    both = estimate(work, several(4, 2, 64), model)
    half = replace(work, global_batch_size=32)
    one = estimate(half, staged(2, 32), model)
    added_s = allreduce_s(model.link, work.gradient_bytes / 2, 2)
    assert both.step_s.mid == pytest.approx(one.step_s.mid + added_s)
    assert both.peak_bytes.mid == pytest.approx(one.peak_bytes.mid)
    assert both.power_w == pytest.approx(2 * one.power_w)


def test_more_stages_hold_less_and_more_pipelines_are_faster(model: DeviceModel) -> None:
    heavy = workload(layers=2, size=4, batch=64, nodes=100_000)
    wide, deep = (estimate(heavy, several(8, stages, 64), model) for stages in (2, 4))
    assert deep.peak_bytes.mid < wide.peak_bytes.mid
    work = workload(layers=6, filters=64, size=32, batch=64)
    wide = estimate(work, several(8, 2, 64), model)
    assert estimate(work, several(4, 2, 64), model).step_s.mid > wide.step_s.mid


def test_several_pipelines_are_a_way_where_they_are_wished_and_the_devices_make_them() -> None:
    group = DeviceGroup(kind=KIND, model_name=NAME, sizes=(8,), memory_bytes=1 << 30)

    def found(**wish: int) -> list[tuple[int, tuple[int, ...]]]:
        ways = candidates(workload(batch=33), [group], wish=Wish(mode="pipeline+sync", **wish))
        return [(way.allocation.count, way.allocation.batch_split) for way in ways if "+" in way.allocation.mode]

    assert [count for count, _ in found()] == [4, 6, 8]
    assert found()[0] == (4, (16, 16, 17, 17))
    assert [count for count, _ in found(stages=3)] == [6]
    assert found(stages=4) == [(8, (16,) * 4 + (17,) * 4)]
    assert FEWEST_STAGES == SPEC_STAGES


def test_a_pipeline_whose_stages_are_named_has_no_other_width() -> None:
    group = DeviceGroup(kind=KIND, model_name=NAME, sizes=(4,), memory_bytes=1 << 30)
    ways = candidates(workload(batch=32), [group], wish=Wish(mode="pipeline", stages=3))
    assert [way.allocation.count for way in ways if way.allocation.mode == "pipeline"] == [3]


def cut_work(*sizes: float, output_bytes: float = 1e6) -> Workload:
    """A program whose pieces hold weights of these sizes."""
    pieces = tuple(Piece(parameter_bytes=size, output_bytes=output_bytes) for size in sizes)
    return replace(workload(layers=6, filters=64, size=32, batch=64), pieces=pieces)


def test_what_is_handed_on_takes_its_way_over_the_link(model: DeviceModel) -> None:
    slow = replace(model, link=replace(model.link, bytes_per_s=1e7))
    little, much = cut_work(*[1.0] * 4, output_bytes=1.0), cut_work(*[1.0] * 4)
    assert estimate(much, staged(2, 64), slow).step_s.mid > 64 * 1e6 / 1e7
    assert estimate(much, staged(2, 64), slow).step_s.mid > 2 * estimate(little, staged(2, 64), slow).step_s.mid
    assert handed_bytes(replace(much, pieces=None)) > 0


def test_stages_pay_for_messages_by_themselves_and_not_for_what_sums_cost_in_a_step(model: DeviceModel) -> None:
    work, sync = cut_work(1, 1, 1, 1), allocation(2, (32, 32))
    fitted = replace(model, link=replace(model.link, latency_s=0.05), message_link=model.link)
    assert estimate(work, sync, fitted).step_s.mid > 0.04 + estimate(work, sync, model).step_s.mid
    assert estimate(work, staged(2, 64), fitted) == estimate(work, staged(2, 64), model)
    assert DeviceModel.from_dict(fitted.to_dict()).stages_link == model.link


def test_stages_on_two_nodes_pay_for_the_link_between_them(model: DeviceModel) -> None:
    work = cut_work(1, 1, 1, 1)
    fitted = replace(model, message_link=model.link)
    slow = spanned(fitted, [pair_link(0.1, 1e9)], 1, work)
    assert estimate(work, staged(2, 64), slow).step_s.mid > 0.2 + estimate(work, staged(2, 64), fitted).step_s.mid


def test_the_heaviest_stage_holds_an_even_share_and_half_of_the_largest_piece_but_never_less_than_it() -> None:
    assert weights_share(cut_work(1, 1, 1, 1), 2) == pytest.approx(0.5 + 0.125)
    assert weights_share(cut_work(9, 1), 4) == pytest.approx(0.9)
    assert weights_share(replace(cut_work(1), pieces=None), 4) == 0.25


def test_a_pipeline_is_less_certain_than_ranks_with_the_whole_model(model: DeviceModel) -> None:
    work = cut_work(1, 1, 1, 1)
    cut, whole = (estimate(work, way, model).step_s for way in (staged(2, 64), allocation(2, (32, 32))))
    assert cut.high / cut.mid > 1.2 * whole.high / whole.mid
