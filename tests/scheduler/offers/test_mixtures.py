"""Mixtures of unlike devices: which ones a pool could give, and what a run on one costs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.estimation.estimate import estimate
from scheduler.estimation.link import pair_link
from scheduler.estimation.prior import prior_for
from scheduler.estimation.probe import Probe
from scheduler.estimation.split import Member, gang_split, rank_line
from scheduler.estimation.steps import Steps
from scheduler.estimation.values import Allocation
from scheduler.kinds import declared_name
from scheduler.offers.candidates import Candidate, DeviceGroup
from scheduler.offers.mixed_estimates import mixed_estimates
from scheduler.offers.mixtures import MOST_MIXTURES, _within, is_there, mixed_candidates
from scheduler.offers.recommend import candidates, recommend
from scheduler.offers.values import Wish
from scheduler.offers.words import devices_words
from scheduler.workload import Piece
from tests.scheduler.made_workloads import KIND, NAME, allocation, workload

SLOW = declared_name(NAME, 3.0)
WORK = workload(layers=4, filters=48, batch=64)
FAST_MODEL = prior_for(KIND, NAME)
MODELS = {NAME: FAST_MODEL, SLOW: replace(FAST_MODEL, slowdown=3.0)}
GIB = 2**30


def group(name: str = NAME, *sizes: int, nodes: tuple[str, ...] = ("n1",), **more) -> DeviceGroup:
    return DeviceGroup(kind=KIND, model_name=name, sizes=sizes or (2,), nodes=nodes, memory_bytes=2 * GIB, **more)


def ways(*groups: DeviceGroup, work=WORK, **wish) -> list[Candidate]:
    return mixed_candidates(work, groups, Wish(**wish))


def parts_of(found: list[Candidate]) -> list[dict[str, int]]:
    return [dict(way.allocation.parts) for way in found]


def test_devices_of_one_node_are_mixed_in_every_number() -> None:
    found = parts_of(ways(group(NAME, 2), group(SLOW, 1)))
    assert found == [{NAME: 1, SLOW: 1}, {NAME: 2, SLOW: 1}]


def test_devices_of_different_nodes_are_mixed_only_where_gangs_span_nodes() -> None:
    apart = [group(NAME, 2, nodes=("n1",)), group(SLOW, 2, nodes=("n2",))]
    assert not ways(*apart)
    assert {NAME: 2, SLOW: 2} in parts_of(ways(*(replace(one, spans_nodes=True) for one in apart)))


def test_a_mixture_names_the_nodes_it_may_lie_on_where_no_single_one_has_its_devices() -> None:
    first, second = group(NAME, 2, 1, nodes=("n1", "n2")), group(SLOW, 1, nodes=("n2",))
    over = {
        way.allocation.parts: way.over_nodes
        for way in ways(*(replace(one, spans_nodes=True) for one in (first, second)))
    }
    assert over == {((NAME, count), (SLOW, 1)): ("n1", "n2") if count > 1 else () for count in (1, 2, 3)}


def test_a_mixture_over_nodes_waits_for_the_link_between_them() -> None:
    found = ways(group(NAME, 2), group(SLOW, 2))
    slow = {name: replace(model, nodes_link=pair_link(5e-3, 1e6)) for name, model in MODELS.items()}
    near, far = mixed_estimates(Steps(WORK), found, MODELS), mixed_estimates(Steps(WORK), found, slow)
    assert all(far[way].step_s.mid > near[way].step_s.mid for way in far)
    assert all("the network between the nodes is measured" in estimate.note for estimate in far.values())


def test_kinds_are_not_mixed_and_devices_without_a_name_neither() -> None:
    gpu = DeviceGroup(kind="cuda", model_name="H100", sizes=(2,), nodes=("n1",), memory_bytes=80 * GIB)
    assert not ways(group(NAME, 2), gpu, group("", 2))


def test_only_what_a_person_wishes_is_mixed() -> None:
    groups = group(NAME, 4), group(SLOW, 4)
    assert not ways(*groups, mode="single") and not ways(*groups, kind="cuda")
    assert {sum(parts.values()) for parts in parts_of(ways(*groups, count=3, mode="sync"))} == {3}
    assert len(ways(*groups, count=3)) == 2


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 200), min_size=2, max_size=5), st.booleans(), st.sampled_from([None, 2, 3, 17, 100]))
def test_there_are_few_mixtures_of_any_pool_and_the_pool_has_each(sizes, spans, count) -> None:
    groups = [group(f"M{number}", size, spans_nodes=spans) for number, size in enumerate(sizes)]
    found = mixed_candidates(workload(batch=512), groups, Wish(count=count))
    assert len(found) <= MOST_MIXTURES and len({way.allocation for way in found}) == len(found)
    have = {one.model_name: one.most for one in groups}
    for way in found:
        assert all(have[name] >= number for name, number in way.allocation.parts)
        assert (
            sum(number for _, number in way.allocation.parts) == way.allocation.count == len(way.allocation.batch_split)
        )
        assert count in (None, way.allocation.count)
        assert is_there(groups, way.allocation)


def test_a_pool_of_many_models_is_not_looked_at_in_every_combination() -> None:
    groups = [group(f"Model {number}", *[1] * 64) for number in range(12)]
    assert len(list(_within(tuple(64 for _ in groups), None))) < 20_000
    found = mixed_candidates(workload(batch=4096), groups, Wish())
    assert 0 < len(found) <= MOST_MIXTURES


def test_a_pool_that_lost_a_device_has_the_mixture_no_more() -> None:
    groups = group(NAME, 2), group(SLOW, 1)
    way = ways(*groups)[-1].allocation
    assert is_there(groups, way)
    assert not is_there([group(NAME, 1), groups[1]], way)
    assert not is_there([groups[0]], way)
    assert not is_there([groups[0], replace(groups[1], nodes=("n2",))], way)


def priced(*groups: DeviceGroup, work=WORK, models=MODELS, **more):
    found = ways(*groups, work=work)
    return mixed_estimates(Steps(work), found, models, **more), found


def test_a_mixture_is_timed_with_the_split_that_a_run_begins_with() -> None:
    found, (way, *_) = priced(group(NAME, 1), group(SLOW, 1))
    told = found[way.allocation]
    lines = [rank_line(WORK, MODELS[name], ranks=2) for name in (NAME, SLOW)]
    shares = gang_split(64, [Member(name="", seconds_of=line) for line in lines]).shares
    assert told.allocation.batch_split == shares and shares[0] > 2 * shares[1]
    # Between the two alone: faster than without the slow one, slower than beside a second fast one.
    alone = estimate(WORK, allocation(1, (64,)), FAST_MODEL).step_s.mid
    alike = estimate(WORK, allocation(2, (32, 32)), FAST_MODEL).step_s.mid
    assert alike < told.step_s.mid < alone
    assert told.power_w == pytest.approx(2 * FAST_MODEL.power.busy_w)
    assert told.energy_j.mid == pytest.approx(told.run_s.mid * told.power_w)
    assert told.power_half == pytest.approx(FAST_MODEL.power.half)
    assert told.energy_j.high / told.energy_j.mid > told.run_s.high / told.run_s.mid


def test_even_shares_are_timed_by_the_slow_device() -> None:
    by_speed, (way, *_) = priced(group(NAME, 1), group(SLOW, 1))
    evenly, _ = priced(group(NAME, 1), group(SLOW, 1), even_shares=True)
    assert evenly[way.allocation].allocation.batch_split == (32, 32)
    assert evenly[way.allocation].step_s.mid > 1.3 * by_speed[way.allocation].step_s.mid


def test_a_device_that_would_only_delay_makes_no_mixture() -> None:
    name = declared_name(NAME, 1000.0)
    found, asked = priced(
        group(NAME, 1), group(name, 1), models={NAME: FAST_MODEL, name: replace(FAST_MODEL, slowdown=1000.0)}
    )
    assert asked and not found


def test_memory_that_is_too_small_for_any_split_is_said() -> None:
    tight = [replace(group(name, 1), memory_bytes=1 << 20) for name in (NAME, SLOW)]
    found, (way, *_) = priced(*tight)
    assert not found[way.allocation].fits


def test_a_probe_of_one_model_refines_both_as_they_are_one_device_at_two_speeds() -> None:
    plain, (way, *_) = priced(group(NAME, 1), group(SLOW, 1))
    twice = 2 * estimate(WORK, allocation(1, (64,)), FAST_MODEL).step_s.mid
    probe = Probe(allocation=allocation(1, (64,)), step_s=(twice,))
    probed, _ = priced(group(NAME, 1), group(SLOW, 1), probes={(KIND, NAME): probe})
    assert probed[way.allocation].step_s.mid == pytest.approx(2 * plain[way.allocation].step_s.mid, rel=0.05)


def test_the_power_that_a_probe_read_counts_for_both_parts() -> None:
    probe = Probe(allocation=allocation(1, (64,)), step_s=(0.1,), power_w=3.0)
    found, (way, *_) = priced(group(NAME, 1), group(SLOW, 1), probes={(KIND, NAME): probe})
    assert found[way.allocation].power_w == pytest.approx(6.0)


def test_words_name_the_devices_and_the_rows_of_each() -> None:
    found, (*_, way) = priced(group(NAME, 2), group(SLOW, 1))
    words = devices_words(found[way.allocation].allocation)
    assert words.startswith("3 CPU cores (mixed: 2 Test core + 1 Test core, declared 3 times as slow), one rank each")
    assert words.count("rows of a step: 2 x ") == 1


@pytest.mark.parametrize("deadline_factor", [0.5, 0.75, 1.0, 2.0])
def test_the_offer_over_a_mixed_pool_is_the_cheapest_way_that_is_in_time(deadline_factor: float) -> None:
    groups = [group(NAME, 2), group(SLOW, 2)]
    found = candidates(WORK, groups)
    mixed = [way for way in found if way.allocation.parts]
    costs = mixed_estimates(Steps(WORK), mixed, MODELS)
    for way in found:
        if not way.allocation.parts:
            costs[way.allocation] = estimate(WORK, way.allocation, MODELS[way.allocation.model_name])
    alone_s = costs[found[0].allocation].run_s.high
    offer = recommend(
        [way for way in found if way.allocation in costs], estimate_of=lambda way: costs[way.allocation],
        start_of=lambda way, run_s: 0.0, now_s=0.0, deadline_s=deadline_factor * alone_s,
    )  # fmt: skip
    assert any(line.allocation.parts for line in offer.lines)
    in_time = [cost for cost in costs.values() if cost.run_s.high <= deadline_factor * alone_s]
    best = min((cost.energy_j.mid for cost in in_time), default=None)
    assert (offer.chosen.estimate.energy_j.mid if offer.chosen else None) == best


def test_a_mixture_is_priced_in_the_precision_that_all_of_its_gpus_are_built_for() -> None:
    names = ("NVIDIA H100", "Tesla P100")
    found = ways(*(replace(group(name, 1), kind="cuda", memory_bytes=16 * GIB) for name in names))
    models = {name: prior_for("cuda", name) for name in names}
    (priced,) = mixed_estimates(Steps(WORK), found, models).values()
    in_32 = Steps(replace(WORK, precision="float32"))
    assert [priced] == list(mixed_estimates(in_32, found, models).values())
    alone = Allocation(kind="cuda", model_name=names[0], count=1, mode="single", batch_split=(64,))
    probe = {("cuda", names[0]): Probe(allocation=alone, step_s=(9.0, 9.0))}
    (beside,) = mixed_estimates(Steps(WORK), found, models, probes=probe).values()
    assert beside == priced, "a probe on the H100 ran in bfloat16"


CUT = replace(WORK, pieces=(Piece(parameter_bytes=8e5, output_bytes=64.0),) * 4)


def test_stages_are_on_unlike_devices_only_where_they_are_wished() -> None:
    groups = group(NAME, 2), group(SLOW, 2)
    assert {way.allocation.mode for way in ways(*groups, work=CUT)} == {"sync"}
    (one,) = ways(*groups, work=CUT, mode="pipeline", count=4)
    assert one.allocation.parts == ((NAME, 2), (SLOW, 2)) and one.allocation.batch_split == (64,) * 4
    (several,) = ways(*groups, work=CUT, mode="pipeline+sync", count=4)
    assert (several.allocation.stages, several.allocation.batch_split) == (2, (32,) * 4)
    assert not ways(*groups, work=replace(CUT, pieces=CUT.pieces[:3]), mode="pipeline", count=4), "too few pieces"


def test_a_step_of_few_rows_passes_as_many_stages_on_unlike_devices_as_the_model_has_pieces() -> None:
    small, groups = replace(CUT, batch_size=2, global_batch_size=2), (group(NAME, 2), group(SLOW, 2))
    assert {way.allocation.count for way in ways(*groups, work=small, mode="pipeline")} == {2, 3, 4}
    (several,) = ways(*groups, work=small, mode="pipeline+sync", count=4)
    assert several.allocation.batch_split == (1,) * 4
    assert not ways(*groups, work=small), "of ranks that share out rows each needs two"


def test_stages_on_unlike_devices_are_as_slow_as_on_the_slow_ones_alone_and_all_see_the_same_rows() -> None:
    found = ways(group(NAME, 2), group(SLOW, 2), work=CUT, mode="pipeline", count=4)
    ((way, told),) = mixed_estimates(Steps(CUT), found, MODELS).items()
    alone = replace(way, model_name=SLOW, parts=())
    assert told.step_s == estimate(CUT, alone, MODELS[SLOW]).step_s
    assert told.power_w == pytest.approx(4 * FAST_MODEL.power.busy_w)
    assert told.fits and "rows of a step" not in told.note
    assert devices_words(way) == f"4 CPU cores (mixed: 2 {NAME} + 2 {SLOW}), a stage of the model on each"
