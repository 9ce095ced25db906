"""Estimates move the way they must, carry their basis, and a probe narrows them."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.device_parts import Correction, LinkModel
from scheduler.estimation.estimate import estimate, estimate_all
from scheduler.estimation.fit import fit_device_model
from scheduler.estimation.link import allreduce_s, fit_link
from scheduler.estimation.pipelines import staged_times
from scheduler.estimation.prior import prior_for
from scheduler.estimation.probe import Probe
from scheduler.estimation.run_time import CUT_S, all_rows, forward_rows, load_s
from scheduler.estimation.steps import Steps
from scheduler.estimation.values import Basis, Interval
from scheduler.workload import at_batch
from tests.run_parts import run_parts
from tests.scheduler.made_workloads import KIND, NAME, allocation, points, true_peak, true_step_s, workload

PRIOR = prior_for(KIND, NAME)
SIZES = st.integers(min_value=1, max_value=400)


@pytest.fixture(scope="module")
def model() -> DeviceModel:
    return fit_device_model(points(50, seed=1))


@settings(max_examples=30, deadline=None)
@given(layers=st.integers(1, 5), filters=SIZES, size=st.integers(2, 40), batch=SIZES, nodes=SIZES, epochs=SIZES)
def test_ranges_are_in_order_and_finite_for_any_program(layers, filters, size, batch, nodes, epochs) -> None:
    work = workload(layers=layers, filters=filters, size=size, batch=batch, nodes=nodes, epochs=epochs)
    found = estimate(work, allocation(rows=(batch,)), PRIOR, memory_limit_bytes=1 << 30)
    for interval in (found.step_s, found.run_s, found.peak_bytes, found.energy_j):
        assert 0 < interval.low <= interval.mid <= interval.high < float("inf")
    assert found.run_s.mid > found.step_s.mid
    assert 0 < found.start_s < found.run_s.mid
    assert found.fits == (found.peak_bytes.high <= 1 << 30)
    json.dumps(found.to_dict())
    assert found.to_dict() == asdict(found)


@settings(max_examples=20, deadline=None)
@given(st.integers(4, 200), st.integers(1, 200))
def test_more_parameters_never_take_less_memory(nodes: int, more: int) -> None:
    small, large = (estimate(workload(nodes=n), allocation(), PRIOR).peak_bytes for n in (nodes, nodes + more))
    assert small.low <= large.low and small.mid <= large.mid and small.high <= large.high


@settings(max_examples=30, deadline=None)
@given(st.floats(1e5, 1e12), st.floats(1.0, 100.0), st.floats(1e-7, 1e-2), st.floats(1, 1e10), st.integers(2, 64))
def test_a_wider_link_is_never_slower(bandwidth, wider, latency_s, size, ranks) -> None:
    link = LinkModel(latency_s=latency_s, bytes_per_s=bandwidth, basis=Basis.MEASURED)
    assert allreduce_s(replace(link, bytes_per_s=bandwidth * wider), size, ranks) <= allreduce_s(link, size, ranks)
    assert allreduce_s(replace(link, latency_s=latency_s / wider), size, ranks) <= allreduce_s(link, size, ranks)


def test_a_link_is_found_from_its_probe_whatever_the_number_of_ranks() -> None:
    true = LinkModel(latency_s=2e-4, bytes_per_s=5e8, basis=Basis.MEASURED)
    sizes = [1e3, 1e5, 1e6, 1e7, 1e8]
    for ranks in (2, 4):
        found = fit_link(sizes, [allreduce_s(true, size, ranks) for size in sizes], ranks=ranks)
        assert found.latency_s == pytest.approx(2e-4, rel=0.02)
        assert found.bytes_per_s == pytest.approx(5e8, rel=0.02)


@pytest.mark.parametrize(
    ("sizes", "seconds"),
    [([1, 2, 3], [0.1, float("nan"), 0.2]), ([1, 2, 3], [0.1, -1, 0.2]), ([1, 2], [0.1, 0.2]), ([1, 1, 1], [1, 1, 1])],
)
def test_a_link_probe_that_says_nothing_is_refused(sizes, seconds) -> None:
    with pytest.raises(ValueError, match="link probe"):
        fit_link(sizes, seconds)


def test_more_epochs_take_more_time_and_energy(model) -> None:
    short, long = (estimate(workload(epochs=n), allocation(), model) for n in (3, 30))
    assert long.run_s.mid > short.run_s.mid and long.energy_j.mid > short.energy_j.mid
    assert long.step_s == short.step_s


def test_a_run_is_its_start_its_steps_its_evaluations_and_its_end(model) -> None:
    work = workload(epochs=10)
    found = estimate(work, allocation(), model)
    steps_s = work.epochs * work.steps_per_epoch * found.step_s.mid
    assert found.run_s.mid > steps_s + model.overheads.start_s + model.overheads.end_s
    assert found.run_s.mid < 1.5 * steps_s + 2 * (model.overheads.start_s + model.overheads.end_s)


@pytest.mark.parametrize(("rows", "whole"), [(960, 15), (962, 15), (991, 15), (992, 15), (1020, 15), (33, 0)])
def test_the_last_step_of_an_epoch_counts_by_its_rows(model, rows: int, whole: int) -> None:
    work = replace(workload(layers=4, filters=48, size=32, batch=64, epochs=10), train_rows=rows)
    way = allocation(rows=(64,))
    step_s, steps_s = estimate(work, way, model).step_s.mid, run_parts(work, way, model).steps_s
    last = estimate(replace(work, train_rows=64 * 15), allocation(rows=(work.last_rows,)), model).step_s.mid
    assert work.steps_per_epoch == max(1, whole + (rows - 64 * whole >= 32))
    assert steps_s == pytest.approx(10 * ((work.steps_per_epoch - 1) * step_s + last), rel=0.01)
    assert steps_s / (10 * step_s) == pytest.approx(rows / 64, rel=0.05)


def test_the_peak_is_that_of_the_largest_step_of_an_epoch(model) -> None:
    whole = replace(workload(layers=4, filters=48, size=32, batch=64), train_rows=640)
    folded, way = replace(whole, train_rows=640 + 31), allocation(rows=(64,))
    plain, larger = (estimate(work, way, model).peak_bytes.mid for work in (whole, folded))
    assert larger == pytest.approx(estimate(at_batch(whole, 95), allocation(rows=(95,)), model).peak_bytes.mid)
    probe = Probe(allocation=way, step_s=(0.1,), peak_bytes=plain)
    seen = [estimate(work, way, model, probe=probe) for work in (whole, folded)]
    assert [one.memory_basis for one in seen] == [Basis.MEASURED, Basis.MODELLED]
    assert seen[0].peak_bytes.high < larger < seen[1].peak_bytes.high
    stages = replace(allocation(2, rows=(64, 64)), mode="pipeline")
    plain, larger = (estimate(work, stages, model).peak_bytes.mid for work in (whole, folded))
    assert larger > 1.2 * plain


def test_the_last_step_of_a_pipeline_counts_by_its_rows_too(model) -> None:
    work = replace(workload(batch=64, epochs=10), train_rows=64 * 10 + 16)
    way = replace(allocation(2, rows=(64, 64)), mode="pipeline")
    step_s = estimate(work, way, model).step_s.mid
    assert run_parts(work, way, model).steps_s == pytest.approx(10 * 10.25 * step_s)


def test_stages_cut_before_they_start_and_pass_rows_at_the_pace_of_the_slowest(model) -> None:
    work, alone = workload(batch=64, epochs=10), allocation(rows=(64,))
    stages = replace(allocation(2, rows=(64, 64)), mode="pipeline")
    one, two = run_parts(work, alone, model), run_parts(work, stages, model)
    assert two.start_s == pytest.approx(one.start_s + model.overheads.rank_start_s + CUT_S)
    assert one.passes_s / 2 < two.passes_s < one.passes_s
    probe = Probe(allocation=alone, step_s=(estimate(work, alone, model).step_s.mid,), evaluation_row_s=1e-3)
    probed = [run_parts(work, way, model, probe).passes_s for way in (alone, stages)]
    assert probed[0] == pytest.approx(forward_rows(work) * 1e-3)
    assert probed[1] / probed[0] == pytest.approx(two.passes_s / one.passes_s)


def test_a_model_that_computes_nothing_is_priced_by_its_steps(model) -> None:
    """It gives every row the same answer, to be compared with."""
    work = replace(workload(), operators=())
    probe = Probe(allocation=allocation(1), step_s=(0.01, 0.01), evaluation_row_s=1e-6)
    priced = estimate(work, allocation(1), model, probe=probe)
    assert priced.step_s.mid == pytest.approx(0.01) and math.isfinite(priced.run_s.high)


def test_two_devices_share_the_rows_and_cost_what_their_link_costs(model) -> None:
    work = workload(layers=5, filters=48, size=32, batch=64)
    one, two = estimate_all(Steps(work), [(allocation(rows=(64,)), None), (allocation(2, rows=(32, 32)), None)], model)
    assert 0.4 * one.step_s.mid < two.step_s.mid < one.step_s.mid
    assert two.power_w == 2 * one.power_w
    assert two.time_basis is Basis.ASSUMED and one.time_basis is Basis.MODELLED
    slow = replace(model, link=replace(model.link, bytes_per_s=1e4))
    assert estimate(work, allocation(2, rows=(32, 32)), slow).step_s.mid > one.step_s.mid


def test_an_uneven_share_is_as_slow_as_its_largest_part(model) -> None:
    even, uneven = (estimate(workload(batch=64), allocation(2, rows=rows), model) for rows in ((32, 32), (48, 16)))
    assert uneven.step_s.mid > even.step_s.mid and uneven.peak_bytes.mid > even.peak_bytes.mid


def test_a_probe_rescales_and_narrows() -> None:
    work = workload()
    before = estimate(work, allocation(), PRIOR)
    probe = Probe(allocation=allocation(), step_s=(0.0500, 0.0505), peak_bytes=1.5 * true_peak(work))
    after = estimate(work, allocation(), PRIOR, probe=probe)
    assert after.step_s.mid == pytest.approx(0.05025)
    assert after.step_s.high / after.step_s.low < before.step_s.high / before.step_s.low
    assert after.time_basis is after.memory_basis is Basis.MEASURED
    assert after.peak_bytes.mid == pytest.approx(1.5 * true_peak(work))
    assert "2 real steps" in after.note


def test_memory_that_was_seen_on_another_number_of_rows_than_the_steps_counts_for_these() -> None:
    work = workload(batch=64)
    here, there = allocation(rows=(64,)), allocation(2, rows=(32, 32))
    probe = Probe(allocation=there, step_s=(0.05,), peak_bytes=2e9, peak_rows=64)
    on_one, on_two = estimate_all(Steps(work), [(here, None), (there, None)], PRIOR, probe=probe)
    assert on_one.peak_bytes.mid == pytest.approx(2e9) and on_one.memory_basis is Basis.MEASURED
    assert on_two.peak_bytes.mid < 2e9 and on_two.memory_basis is Basis.MODELLED


def test_a_probe_elsewhere_moves_the_other_allocations_with_more_doubt(model) -> None:
    work = workload(batch=64)
    here, there = allocation(rows=(64,)), allocation(2, rows=(32, 32))
    probe = Probe(allocation=here, step_s=(3 * true_step_s(work),))
    plain = estimate(work, there, model)
    on_one, on_two = estimate_all(Steps(work), [(here, None), (there, None)], model, probe=probe)
    assert on_two.step_s.mid > 2 * plain.step_s.mid
    assert on_two.time_basis is Basis.ASSUMED, "nobody has measured what two ranks send each other"
    assert on_two.step_s.high / on_two.step_s.mid > on_one.step_s.high / on_one.step_s.mid


def test_steps_of_one_device_say_nothing_of_what_ranks_send_each_other(model) -> None:
    work, alone = workload(layers=4, filters=48, batch=64), allocation(rows=(32,))
    link = LinkModel(latency_s=1e-3, bytes_per_s=1e7, basis=Basis.MEASURED)
    known = replace(model, link=link, contention=0.2, contention_basis=Basis.MODELLED)
    sent_s = allreduce_s(link, work.gradient_bytes, 2)
    foretold = estimate(work, allocation(2, (32, 32)), known).step_s.mid
    probe = Probe(allocation=alone, step_s=(5 * estimate(work, alone, known).step_s.mid,))
    found = estimate(work, allocation(2, (32, 32)), known, probe=probe)
    assert found.step_s.mid == pytest.approx(5 * (foretold - sent_s) + sent_s)
    assert found.time_basis is Basis.MODELLED
    assert found.note.startswith("1 real step of this program on one device measured, messages modelled;")
    seen = replace(probe, allocation=allocation(2, (32, 32)), step_s=(5 * foretold,))
    four = allocation(4, (16,) * 4)
    plain, whole = estimate(work, four, known), estimate(work, four, known, probe=seen)
    assert whole.step_s.mid == pytest.approx(5 * plain.step_s.mid), "two ranks waited for their messages, too"


def test_stages_on_devices_of_which_one_was_tried_hand_on_as_fast_as_modelled(model) -> None:
    work, stages = workload(layers=4, filters=48, batch=64), replace(allocation(2, rows=(64, 64)), mode="pipeline")
    (time,) = staged_times(Steps(work), [stages], model)
    micro = allocation(rows=(16,))
    probe = Probe(allocation=micro, step_s=(3 * estimate(work, micro, model).step_s.mid,))
    found = estimate(work, stages, model, probe=probe)
    assert found.step_s.mid == pytest.approx(3 * time.local_s + time.communication_s)
    assert "on one device measured, its stages modelled, messages assumed" in found.note


def test_the_last_step_of_a_gang_waits_for_its_messages_whatever_a_probe_showed(model) -> None:
    work = replace(workload(layers=4, filters=48, batch=64, epochs=10), train_rows=64 * 10 + 32)
    known = replace(model, link=LinkModel(latency_s=0.3, bytes_per_s=1e9, basis=Basis.MEASURED))
    probe = Probe(allocation=allocation(rows=(32,)), step_s=(1.0,))
    told = run_parts(work, allocation(2, (32, 32)), known, probe)
    step_s = estimate(work, allocation(2, (32, 32)), known, probe=probe).step_s.mid
    sent_s = allreduce_s(known.link, work.gradient_bytes, 2)
    assert told.steps_s == pytest.approx(10 * (10 * step_s + sent_s + (step_s - sent_s) / 2), rel=0.005)


def test_the_power_that_a_probe_read_counts_for_the_energy_and_is_called_measured() -> None:
    work, here, there = workload(), allocation(), allocation(2, (16, 16))
    blind = Probe(allocation=here, step_s=(0.05, 0.05))
    probe = replace(blind, power_w=3.5)
    before, _ = estimate_all(Steps(work), [(here, None), (there, None)], PRIOR, probe=blind)
    on_one, on_two = estimate_all(Steps(work), [(here, None), (there, None)], PRIOR, probe=probe)
    assert (before.power_w, before.energy_basis) == (PRIOR.power.busy_w, Basis.ASSUMED)
    assert (on_one.power_w, on_two.power_w) == (3.5, 7.0)
    assert on_one.energy_j.mid == pytest.approx(before.energy_j.mid * 3.5 / PRIOR.power.busy_w)
    assert on_one.energy_basis is Basis.MEASURED
    assert "data sheet" in before.note and "data sheet" not in on_one.note and "power read" in on_one.note
    assert on_two.energy_basis is not Basis.MEASURED, "nobody saw two of them"
    both = replace(probe, allocation=allocation(2, (32,), threads=2))
    assert estimate(work, here, PRIOR, probe=both).power_w == 1.75, "two cores drew it"


def spread(interval: Interval) -> tuple[float, float]:
    return math.log(interval.low / interval.mid), math.log(interval.high / interval.mid)


def test_the_range_of_energy_holds_the_doubt_of_time_and_that_of_power(model) -> None:
    work, here = workload(), allocation()
    known = replace(model, power=replace(model.power, held_out_half=0.2, basis=Basis.MEASURED))
    found = estimate(work, here, known)
    for of_energy, of_run in zip(spread(found.energy_j), spread(found.run_s), strict=True):
        assert abs(of_energy) == pytest.approx(math.hypot(of_run, 0.2))
    assert found.energy_j.mid == found.run_s.mid * found.power_w


def test_a_probe_without_a_meter_leaves_the_doubt_about_the_power() -> None:
    work, here = workload(), allocation()
    blind = Probe(allocation=here, step_s=(0.05, 0.05))
    metered = replace(blind, power_w=3.5)
    without, told = (estimate(work, here, PRIOR, probe=probe) for probe in (blind, metered))
    assert spread(without.energy_j)[1] >= PRIOR.power.half > spread(told.energy_j)[1]
    assert spread(told.energy_j)[1] > spread(told.run_s)[1]


def test_the_words_say_that_the_power_was_read_during_the_real_steps() -> None:
    """Calibration points and finished jobs are named after them."""
    known = replace(PRIOR, n_points=40, correction=Correction(factor=1.1, n_jobs=3))
    probe = Probe(allocation=allocation(), step_s=(0.05,), power_w=3.5)
    told = estimate(workload(), allocation(), known, probe=probe).note
    assert told == (
        "1 real step of this program on this very allocation, with the power read meanwhile; "
        f"40 calibration points of {NAME}; 3 finished jobs"
    )


def test_a_probe_on_another_kind_of_device_changes_nothing(model) -> None:
    probe = Probe(allocation=replace(allocation(), model_name="Other"), step_s=(9.0,))
    assert estimate(workload(), allocation(), model, probe=probe) == estimate(workload(), allocation(), model)


@pytest.mark.parametrize("step_s", [(), (0.0,), (-1.0,), (float("nan"),), (float("inf"),), (1e300,)])
def test_a_probe_that_says_nothing_is_refused(step_s) -> None:
    with pytest.raises(ValueError, match="probe"):
        Probe(allocation=allocation(), step_s=step_s)


def test_a_model_of_another_device_is_refused(model) -> None:
    with pytest.raises(ValueError, match="the model is of"):
        estimate(workload(), replace(allocation(), kind="cuda"), model)


def test_micro_batches_take_the_memory_of_one_and_the_time_of_all(model: DeviceModel) -> None:
    whole = estimate(workload(batch=64), allocation(rows=(64,)), model)
    parts = estimate(replace(workload(batch=64), micro_batches=4), allocation(rows=(64,)), model)
    quarter = estimate(workload(batch=64), allocation(rows=(16,)), model)
    assert parts.peak_bytes.mid == pytest.approx(quarter.peak_bytes.mid)
    assert parts.peak_bytes.mid < whole.peak_bytes.mid
    assert parts.step_s.mid == pytest.approx(4 * quarter.step_s.mid)


def test_synced_statistics_cost_ranks_the_latency_of_their_messages(model: DeviceModel) -> None:
    own, synced = workload(batch=64), replace(workload(batch=64), step_messages=6)
    ways = [allocation(rows=(64,)), allocation(rows=(32, 32)), allocation(rows=(16,) * 4)]
    more_s = [estimate(synced, way, model).step_s.mid - estimate(own, way, model).step_s.mid for way in ways]
    assert more_s == pytest.approx([0.0, 6 * model.link.latency_s, 18 * model.link.latency_s])


def test_a_declared_slowdown_draws_out_steps_and_nothing_else(model: DeviceModel) -> None:
    work = workload(layers=4, filters=48)
    slow = replace(model, slowdown=3.0)
    way = replace(allocation(), model_name=slow.key[1])
    plain, emulated = estimate(work, allocation(), model), estimate(work, way, slow)
    assert emulated.step_s.mid == pytest.approx(3 * plain.step_s.mid)
    more_s = 2 * run_parts(work, allocation(), model).steps_s
    assert more_s == pytest.approx(2 * work.epochs * work.steps_per_epoch * plain.step_s.mid, rel=0.1)
    assert emulated.run_s.mid == pytest.approx(plain.run_s.mid + more_s)
    assert emulated.peak_bytes == plain.peak_bytes
    assert "emulated: steps are stretched to 3 times their length" in emulated.note
    with pytest.raises(ValueError, match="the model is of"):
        estimate(work, allocation(), slow)


def test_a_probe_at_the_devices_own_speed_refines_its_emulated_twin(model: DeviceModel) -> None:
    work = workload(layers=4, filters=48)
    probe = Probe(allocation=allocation(), step_s=(2 * estimate(work, allocation(), model).step_s.mid,))
    slow = replace(model, slowdown=3.0)
    way = replace(allocation(), model_name=slow.key[1])
    plain, emulated = estimate(work, allocation(), model, probe=probe), estimate(work, way, slow, probe=probe)
    assert emulated.step_s.mid == pytest.approx(3 * plain.step_s.mid)
    assert (plain.time_basis, emulated.time_basis) == (Basis.MEASURED, Basis.MODELLED)


def test_ranks_on_slow_devices_send_as_fast_as_others(model: DeviceModel) -> None:
    work, slow = workload(layers=4, filters=48), replace(model, slowdown=3.0)
    for way in (allocation(2, (16, 16)), replace(allocation(2, (32, 32)), mode="pipeline")):
        plain = estimate(work, way, model).step_s.mid
        emulated = estimate(work, replace(way, model_name=slow.key[1]), slow).step_s.mid
        sent_s = allreduce_s(model.link, work.gradient_bytes, 2)
        if way.mode == "pipeline":
            (sent_s,) = (time.communication_s for time in staged_times(Steps(work), [way], model))
        assert emulated - sent_s == pytest.approx(3 * (plain - sent_s))


def test_a_run_that_stops_early_costs_what_one_of_so_many_epochs_is_estimated_at(model: DeviceModel) -> None:
    no_saves = replace(model, overheads=replace(model.overheads, checkpoint_s=0.0, checkpoint_bytes_per_s=1e30))
    whole, short = (estimate(workload(epochs=count), allocation(), no_saves) for count in (10, 3))
    found = whole.of_epochs(3, 10)
    for told, made in ((found.run_s, short.run_s), (found.energy_j, short.energy_j)):
        assert (told.low, told.mid, told.high) == pytest.approx((made.low, made.mid, made.high))
    assert found.step_s == whole.step_s and found.peak_bytes == whole.peak_bytes
    with pytest.raises(ValueError, match="what an epoch takes"):
        replace(whole, epoch_s=0.0).of_epochs(3, 10)


@pytest.mark.parametrize("rows", [(32,), (16, 16)])
def test_what_its_own_code_took_to_load_counts_for_the_start_of_each_rank_and_is_told(rows) -> None:
    own, way = replace(workload(), load_s=40.0), allocation(len(rows), rows)
    others_s = load_s(workload(), PRIOR.overheads)
    start_s = run_parts(workload(), way, PRIOR).start_s
    assert run_parts(own, way, PRIOR).start_s == pytest.approx(start_s - others_s + 40.0)
    assert "by the 40 s that its code took to load when it was read" in estimate(own, way, PRIOR).note
    assert "to load" not in estimate(workload(), way, PRIOR).note


def test_what_a_probe_loads_once_is_no_more_for_more_rows() -> None:
    few, many = (replace(workload(), train_rows=rows) for rows in (1000, 9000))
    probe = Probe(allocation=allocation(), step_s=(0.1,), load_row_s=1e-3, load_once_s=2.0)
    short_s, long_s = (run_parts(one, allocation(), PRIOR, probe).start_s for one in (few, many))
    bare_s = run_parts(few, allocation(), PRIOR, replace(probe, load_once_s=None)).start_s
    assert short_s == pytest.approx(bare_s + 2.0)
    assert long_s == pytest.approx(short_s + 1e-3 * (all_rows(many) - all_rows(few)))


def test_a_probe_that_timed_the_rows_says_more_than_the_reading_did() -> None:
    own, probe = replace(workload(), load_s=40.0), Probe(allocation=allocation(), step_s=(0.1,), load_row_s=1e-3)
    assert run_parts(own, allocation(), PRIOR, probe) == run_parts(workload(), allocation(), PRIOR, probe)
    assert "to load" not in estimate(own, allocation(), PRIOR, probe=probe).note
