from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.estimation.values import Basis, Estimate, Interval
from scheduler.offers.recommend import batch_split, candidates, recommend, takes
from scheduler.offers.values import DeviceGroup, Hindrance, Mark, Offer, Wish
from scheduler.workload import OpClass, Operator, Workload

NOW_S = 1_000_000.0
UNHURRIED = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine must not fail a property."""
GIB = 2**30


def workload(*, batch=32, epochs=10):
    return Workload(
        batch_size=batch, operators=(Operator(op=OpClass.GEMM, flops=1e6, read_bytes=1e4, write_bytes=1e4),),
        parameters=1000, parameter_bytes=4000, gradient_bytes=4000, optimizer_bytes=8000, activation_bytes=1e5,
        transient_bytes=1e4, data_bytes=1 << 20, fixed_parameters_ops=4, train_rows=1000, evaluated_rows=200,
        epochs=epochs, global_batch_size=batch,
    )  # fmt: skip


def cpus(*sizes, memory_gib=2, quota=None, **more):
    return DeviceGroup(
        kind="cpu", model_name="Xeon", sizes=sizes, memory_bytes=int(memory_gib * GIB), quota=quota, **more
    )


def gpus(*sizes, model="H100", memory_gib=80, **more):
    return DeviceGroup(kind="cuda", model_name=model, sizes=sizes, memory_bytes=int(memory_gib * GIB), **more)


def priced(way, *, work_s=100.0, overhead=0.3, watts=10.0, peak_bytes=GIB // 2, spread=1.2):
    """Amdahl time and linear power: closed forms, so that the best way is known beforehand."""
    count = way.allocation.count
    speed = 8.0 if way.allocation.kind == "cuda" else 1.0
    run_s = work_s / speed * ((1 - overhead) / count + overhead)
    power_w = watts * speed * count
    run = Interval(low=run_s / spread, mid=run_s, high=run_s * spread)
    peak = Interval(low=peak_bytes * 0.8, mid=peak_bytes, high=peak_bytes * 1.1)
    return Estimate(
        allocation=way.allocation, step_s=run.scaled(0.001), run_s=run, peak_bytes=peak, power_w=power_w,
        energy_j=run.scaled(power_w), fits=peak.high <= way.memory_limit_bytes, time_basis=Basis.MODELLED,
        memory_basis=Basis.MODELLED, energy_basis=Basis.ASSUMED,
    )  # fmt: skip


def offer(
    groups, *, deadline_s=None, wish=None, batch=32, start_of=lambda way, run_s: NOW_S, epochs=10, epoch_steps=0, **cost
):
    ways = candidates(workload(batch=batch), groups, wish=wish)
    return recommend(
        ways, estimate_of=lambda way: priced(way, **cost), start_of=start_of, now_s=NOW_S,
        deadline_s=deadline_s, wish=wish, epochs=epochs, epoch_steps=epoch_steps,
    )  # fmt: skip


def test_the_cheapest_way_that_keeps_the_deadline_is_recommended():
    found = offer([cpus(4)], deadline_s=NOW_S + 90)
    # one core takes up to 120 s, two up to 78 s: two is the least that is in time
    assert found.chosen.allocation.count == 2
    assert found.marked(Mark.FASTEST).allocation.count == 4
    assert found.marked(Mark.CHEAPEST).allocation.count == 1
    assert found.marked(Mark.CHEAPEST).hindrance is Hindrance.DEADLINE


def test_without_a_deadline_the_recommended_is_the_cheapest():
    found = offer([cpus(4), gpus(2)])
    assert found.chosen is found.marked(Mark.CHEAPEST)
    assert found.changes == ()


def test_it_is_the_upper_end_of_the_finish_that_must_keep_the_deadline():
    found = offer([cpus(1)], deadline_s=NOW_S + 110)
    assert found.lines[0].finish_s.mid < found.deadline_s < found.lines[0].finish_s.high
    assert found.chosen is None
    assert found.lines[0].why.startswith("It is on time with a chance of ")


def test_what_does_not_fit_in_memory_is_kept_in_the_list_with_its_reason():
    found = offer([cpus(2, memory_gib=0.25), gpus(1)])
    reasons = {line.allocation.kind: line.why for line in found.lines}
    assert reasons["cuda"] == ""
    assert reasons["cpu"] == "Needs up to 563 MiB per rank; there are 256 MiB."
    assert found.chosen.allocation.kind == "cuda"


def test_cores_of_one_process_share_their_memory_and_gpus_do_not():
    assert cpus(4, memory_gib=1).rank_memory_bytes(count=4, ranks=1) == 4 * GIB
    assert cpus(4, memory_gib=1).rank_memory_bytes(count=4, ranks=4) == GIB
    assert gpus(4, memory_gib=40, idle_bytes=GIB).rank_memory_bytes(count=4, ranks=4) == 39 * GIB


def test_a_refusal_names_the_earliest_finish_that_can_be_kept_and_what_would_have_to_change():
    found = offer([cpus(2)], deadline_s=NOW_S + 50)
    assert found.chosen is None
    assert found.earliest_finish_s == pytest.approx(NOW_S + 78)
    assert "28 s later" in found.text
    assert found.changes[0].startswith("Set the deadline 78 s from now or later")
    assert found.changes[1] == "Train 6 epochs instead of 10: they are done in time."


def test_fewer_epochs_save_their_steps_and_not_the_start_of_the_run():
    # up to 78 s of which steps are six tenths: 31.2 s remain, and 4.68 s for each epoch
    found = offer([cpus(2)], deadline_s=NOW_S + 50, epoch_steps=60)
    assert found.changes[1] == "Train 4 epochs instead of 10: they are done in time."
    assert not any("epochs" in change for change in offer([cpus(2)], deadline_s=NOW_S + 35, epoch_steps=60).changes)


def test_the_change_of_deadline_that_a_refusal_names_is_enough():
    refused = offer([cpus(2), gpus(1)], deadline_s=NOW_S + 1)
    assert refused.chosen is None
    assert offer([cpus(2), gpus(1)], deadline_s=refused.earliest_finish_s).chosen is not None


def test_a_refusal_offers_the_likeliest_way_without_a_promise_and_says_how_likely():
    found = offer([cpus(2)], deadline_s=NOW_S + 65)
    assert found.chosen is None
    assert found.likeliest.allocation.count == 2
    assert found.likeliest.chance(found.deadline_s) == pytest.approx(0.5)
    assert any("without a promise" in change and "a chance of 50 %" in change for change in found.changes)


def test_a_deadline_that_is_out_of_reach_is_no_chance():
    found = offer([cpus(2)], deadline_s=NOW_S + 5)
    assert found.likeliest is None
    assert not any("without a promise" in change for change in found.changes)
    assert {line.why for line in found.lines} == {"It finishes after the deadline."}


def test_a_deadline_in_the_past_is_said_so():
    assert offer([cpus(2)], deadline_s=NOW_S - 5).text == "The deadline has passed already."


def test_a_pool_without_devices_is_said_so():
    found = offer([])
    assert (found.chosen, found.earliest_finish_s, found.lines) == (None, None, ())
    assert found.text == "No node that takes work has a device for this job."
    assert found.changes


def test_what_a_person_fixes_is_kept_and_the_way_out_is_named():
    found = offer([cpus(2), gpus(1)], deadline_s=NOW_S + 60, wish=Wish(kind="cpu"))
    assert found.chosen is None
    assert {line.hindrance for line in found.lines if line.allocation.kind == "cuda"} == {Hindrance.NOT_WISHED}
    assert any("Leave the devices open: 1 GPU (H100)" in text for text in found.changes)
    assert offer([cpus(2), gpus(1)], deadline_s=NOW_S + 60).chosen.allocation.kind == "cuda"


def test_zero_devices_is_no_wish():
    with pytest.raises(ValueError, match="at least one device"):
        Wish(count=0)


def test_more_than_the_quota_is_not_offered():
    found = offer([cpus(4, quota=1)], deadline_s=NOW_S + 60)
    assert found.chosen is None
    assert {line.hindrance for line in found.lines if line.allocation.count > 1} == {Hindrance.QUOTA}
    assert any("quota" in text for text in found.changes)


def test_a_way_whose_devices_are_never_free_is_not_offered():
    found = offer([cpus(2)], start_of=lambda way, run_s: NOW_S if way.count == 1 else None)
    assert {line.allocation.count for line in found.lines if takes(line)} == {1}


def test_a_wait_in_the_queue_counts_against_the_deadline():
    late = offer([cpus(2)], deadline_s=NOW_S + 130, start_of=lambda way, run_s: NOW_S + 100)
    assert late.chosen is None
    assert late.earliest_finish_s == pytest.approx(NOW_S + 178)


def test_a_gang_stays_on_one_node_unless_the_pool_spans_nodes():
    assert max(way.allocation.count for way in candidates(workload(), [cpus(2, 3)])) == 3
    spanning = [cpus(2, 3, spans_nodes=True)]
    assert max(way.allocation.count for way in candidates(workload(), spanning)) == 5
    singles = [way.allocation.count for way in candidates(workload(), spanning) if way.allocation.mode == "single"]
    assert max(singles) == 3


def test_no_more_ranks_than_rows():
    ways = [way.allocation for way in candidates(workload(batch=3), [cpus(8)]) if way.allocation.mode == "sync"]
    assert {way.count for way in ways} == {2, 3}


@pytest.mark.parametrize("mode", ["replicated", "async"])
def test_other_modes_are_ways_only_where_they_are_wished(mode):
    assert {way.allocation.mode for way in candidates(workload(), [cpus(4), gpus(2)])} == {"single", "sync"}
    ways = [way.allocation for way in candidates(workload(), [cpus(4), gpus(2)], wish=Wish(mode=mode))]
    mine = [way for way in ways if way.mode == mode]
    assert {(way.kind, way.count) for way in mine} == {("cpu", 2), ("cpu", 3), ("cpu", 4), ("cuda", 2)}
    assert all(sum(way.batch_split) == workload().global_batch_size for way in mine)


@pytest.mark.parametrize("mode", [None, "single", "replicated", "sync", "async", "pipeline", "pipeline+sync"])
def test_no_way_is_offered_twice_whatever_mode_is_wished(mode):
    ways = [way.allocation for way in candidates(workload(), [cpus(4), gpus(2)], wish=Wish(mode=mode))]
    assert len(set(ways)) == len(ways)


def test_an_offer_survives_json():
    found = offer([cpus(2, memory_gib=0.25), gpus(2)], deadline_s=NOW_S + 50, wish=Wish(kind="cuda"))
    assert Offer.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    with pytest.raises(ValueError, match="not an offer"):
        Offer.from_dict({"lines": [{}]})


POOLS = st.lists(
    st.builds(
        lambda kind, sizes, memory, model: (
            cpus(*sizes, memory_gib=memory) if kind else gpus(*sizes, memory_gib=memory, model=model)
        ),
        st.booleans(),
        st.lists(st.integers(0, 6), min_size=1, max_size=3),
        st.floats(0.1, 4.0),
        st.sampled_from(["A100", "H100"]),
    ),
    max_size=3,
)
COSTS = st.fixed_dictionaries(
    {
        "work_s": st.floats(1.0, 1e4),
        "overhead": st.floats(0.0, 1.0),
        "watts": st.floats(0.0, 300.0),
        "peak_bytes": st.integers(1, 3 * GIB),
        "spread": st.floats(1.0, 2.0),
    }
)
DEADLINES = st.none() | st.floats(-10.0, 2e4)
WISHES = st.builds(
    Wish,
    kind=st.none() | st.sampled_from(["cpu", "cuda"]),
    count=st.none() | st.integers(1, 6),
    mode=st.none() | st.sampled_from(["single", "sync"]),
)


def after(seconds):
    return None if seconds is None else NOW_S + seconds


@UNHURRIED
@given(POOLS, COSTS, DEADLINES, WISHES, st.integers(1, 40))
def test_the_recommended_way_is_feasible_and_never_dominated(groups, cost, deadline, wish, batch):
    found = offer(groups, deadline_s=after(deadline), wish=wish, batch=batch, **cost)
    chosen = found.chosen
    if chosen is None:
        assert not any(line.feasible for line in found.lines)
        return
    assert chosen.frontier
    assert chosen.feasible
    assert deadline is None or chosen.latest_s <= NOW_S + deadline
    assert wish.allows(chosen.allocation)
    for line in (line for line in found.lines if takes(line)):
        mine = (chosen.estimate.energy_j.mid, chosen.latest_s)
        theirs = (line.estimate.energy_j.mid, line.latest_s)
        assert not (theirs[0] <= mine[0] and theirs[1] <= mine[1] and theirs != mine)


@UNHURRIED
@given(POOLS, COSTS, DEADLINES, WISHES)
def test_fixing_nothing_never_costs_more_energy_than_fixing_something(groups, cost, deadline, wish):
    open_offer = offer(groups, deadline_s=after(deadline), **cost)
    fixed = offer(groups, deadline_s=after(deadline), wish=wish, **cost)
    if fixed.chosen is not None:
        assert open_offer.chosen is not None
        assert open_offer.chosen.estimate.energy_j.mid <= fixed.chosen.estimate.energy_j.mid


@UNHURRIED
@given(POOLS, COSTS, st.floats(0, 2e4), st.floats(0, 2e4))
def test_a_later_deadline_is_never_refused_nor_dearer(groups, cost, first, second):
    early, late = sorted((first, second))
    tight = offer(groups, deadline_s=after(early), **cost).chosen
    loose = offer(groups, deadline_s=after(late), **cost).chosen
    if tight is not None:
        assert loose is not None
        assert loose.estimate.energy_j.mid <= tight.estimate.energy_j.mid


@UNHURRIED
@given(POOLS, COSTS, DEADLINES, WISHES)
def test_every_way_is_free_of_hindrance_or_says_why_and_marks_stand_on_ways_that_can_be_taken(
    groups, cost, deadline, wish
):
    found = offer(groups, deadline_s=after(deadline), wish=wish, **cost)
    for line in found.lines:
        assert (line.hindrance is None) == (line.why == "")
        assert takes(line) or not (line.marks or line.frontier)
    for mark in Mark:
        assert sum(mark in line.marks for line in found.lines) <= 1
    if found.chosen is None:
        assert found.changes


@UNHURRIED
@given(st.integers(1, 5000), st.integers(1, 64))
def test_a_split_keeps_every_row_and_is_even(rows, ranks):
    split = batch_split(rows, ranks)
    assert sum(split) == rows
    assert len(split) == ranks
    assert max(split) - min(split) <= 1
