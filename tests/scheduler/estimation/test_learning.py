"""Finished jobs correct the model of their device, a little for few, wholly for many, and not for wild ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.estimation.estimate import estimate
from scheduler.estimation.finished import Finished
from scheduler.estimation.learning import MOST_FACTOR, corrected
from scheduler.estimation.link import pair_link
from scheduler.estimation.prior import prior_for
from scheduler.estimation.probe import Probe
from scheduler.estimation.run_time import all_rows, joined_s, load_s, saves_s
from scheduler.estimation.values import Allocation, Basis
from tests.run_parts import run_parts
from tests.scheduler.made_workloads import KIND, NAME, allocation, workload

PRIOR = prior_for(KIND, NAME)


def jobs(*factors: float, **fields: object) -> list[Finished]:
    """Jobs whose steps took so many times what the prior says."""
    found = []
    for number, factor in enumerate(factors):
        work = workload(filters=8 + number)
        step_s = factor * estimate(work, allocation(), PRIOR).step_s.mid
        found.append(Finished(workload=work, allocation=allocation(), step_s=step_s, **fields))
    return found


def test_one_job_moves_the_model_a_little_and_many_move_it_wholly() -> None:
    one, many = corrected(PRIOR, jobs(2.0)), corrected(PRIOR, jobs(*[2.0] * 60))
    assert 1.1 < one.correction.factor < 1.3
    assert many.correction.factor == pytest.approx(2.0, rel=0.05)
    assert (
        estimate(workload(), allocation(), many).step_s.mid > 1.8 * estimate(workload(), allocation(), PRIOR).step_s.mid
    )


def test_jobs_that_agree_with_the_model_leave_it() -> None:
    assert corrected(PRIOR, jobs(1.0, 1.0, 1.0)).correction.factor == pytest.approx(1.0)
    assert corrected(PRIOR, []) == PRIOR


def test_a_slow_network_is_not_held_against_the_device() -> None:
    """Jobs that took what the model says of them on two nodes teach nothing; without the link they seem slow."""
    link = pair_link(5e-3, 2e6)
    way, over = allocation(2, rows=(32, 32)), replace(PRIOR, nodes_link=link)
    found = []
    for number in range(6):
        work = workload(filters=8 + number, batch=64)
        step_s = estimate(work, way, over).step_s.mid
        found.append(Finished(workload=work, allocation=way, step_s=step_s, nodes_link=link))
    assert corrected(PRIOR, found).correction.factor == pytest.approx(1.0)
    blind = [replace(job, nodes_link=None) for job in found]
    assert corrected(PRIOR, blind).correction.factor > 1.1


def test_a_wild_job_among_many_is_left_out_and_counted() -> None:
    found = corrected(PRIOR, jobs(*[1.2] * 20, 40.0)).correction
    assert (found.n_jobs, found.n_left_out) == (20, 1)
    assert found.factor < 1.2


def test_a_single_wild_job_is_not_believed() -> None:
    assert corrected(PRIOR, jobs(50.0)).correction.factor == 1.0


def test_learning_again_replaces_what_was_learnt() -> None:
    once = corrected(PRIOR, jobs(1.5, 1.5))
    assert corrected(once, jobs(1.5, 1.5)) == once


def test_jobs_on_other_devices_teach_nothing() -> None:
    other = [replace(job, allocation=replace(allocation(), model_name="Other")) for job in jobs(2.0, 2.0)]
    assert corrected(PRIOR, other) == PRIOR


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=12))
def test_no_jobs_can_move_the_model_beyond_its_bounds(factors: list[float]) -> None:
    found = corrected(PRIOR, jobs(*factors)).correction
    assert 1 / MOST_FACTOR <= found.factor <= MOST_FACTOR
    assert found.n_jobs + found.n_left_out == len(factors)


def test_runs_seen_whole_teach_their_start_and_their_end() -> None:
    work = workload()
    step_s = estimate(work, allocation(), PRIOR).step_s.mid
    steps_s = work.epochs * work.steps_per_epoch * step_s
    run = Finished(
        workload=work,
        allocation=allocation(),
        step_s=step_s,
        run_s=steps_s + 1.0 + 9.0,
        start_s=1.0,
        load_s=0.0,
        evaluation_s=0.0,
    )
    found = corrected(PRIOR, [run] * 30).overheads
    assert found.start_s == pytest.approx(1.0, abs=0.1)
    assert 8.0 < found.end_s < 9.2
    assert (found.basis, found.n_runs) == (Basis.MEASURED, 30)


def test_two_runs_that_agree_say_more_of_start_and_end_than_what_was_assumed() -> None:
    work = workload()
    step_s, assumed = estimate(work, allocation(), PRIOR).step_s.mid, PRIOR.overheads
    parts = run_parts(work, allocation(), PRIOR)
    start_s, end_s = assumed.start_s / 2, assumed.end_s / 2
    run_s = start_s + parts.steps_s + parts.saves_s + end_s
    given = {"run_s": run_s, "start_s": start_s, "load_s": 0.0, "evaluation_s": 0.0}
    run = Finished(workload=work, allocation=allocation(), step_s=step_s, **given)
    found = corrected(PRIOR, [run, run]).overheads
    assert start_s < found.start_s < 1.15 * start_s
    assert end_s < found.end_s < 1.15 * end_s


def ranges_after(*counts: int) -> list[float]:
    """Width of the range of a short run's time, over its middle, after so many runs that took what the model says."""
    work = replace(workload(), epochs=1)
    run_s = estimate(work, allocation(), PRIOR).run_s.mid
    step_s = estimate(work, allocation(), PRIOR).step_s.mid
    parts = run_parts(work, allocation(), PRIOR)
    run = Finished(
        workload=work, allocation=allocation(), step_s=step_s, run_s=run_s, start_s=parts.start_s,
        evaluation_s=parts.passes_s,
    )  # fmt: skip
    found = [estimate(work, allocation(), corrected(PRIOR, [run] * count)).run_s for count in counts]
    return [(each.high - each.low) / each.mid for each in found]


def test_one_run_says_little_about_how_long_starts_and_ends_take_and_many_say_more() -> None:
    none, one, few, many = ranges_after(0, 1, 3, 60)
    assert none > one > few > many
    assert none - one < 0.4 * (none - many)


def test_a_start_that_was_seen_does_not_vouch_for_an_end_that_nobody_saw() -> None:
    assert corrected(PRIOR, [begun("a", 3.0)] * 30).overheads.n_runs == 0


def begun(node: str, start_s: float) -> Finished:
    step_s = estimate(workload(), allocation(), PRIOR).step_s.mid
    way = allocation()
    return Finished(workload=workload(), allocation=way, step_s=step_s, start_s=start_s, load_s=0.0, nodes=(node,))


def test_a_node_where_runs_start_slowly_widens_the_range_upwards_and_is_named() -> None:
    usual = [begun("fast", 3.0)] * 20
    found = corrected(PRIOR, [*usual, *[begun("slow", 12.0)] * 5])
    assert list(found.overheads.slow_starts) == ["slow"]
    before, after = (estimate(workload(), allocation(), model) for model in (corrected(PRIOR, usual), found))
    assert after.run_s.mid == pytest.approx(before.run_s.mid, rel=0.02)
    assert after.run_s.high - before.run_s.high > 5.0
    assert "slow" in after.note


def test_where_runs_start_alike_no_node_is_named() -> None:
    found = corrected(PRIOR, [begun(name, 3.0) for name in "abcabcabc"])
    assert found.overheads.slow_starts == {}


@pytest.mark.parametrize("step_s", [0.0, -1.0, float("nan"), float("inf")])
def test_a_finished_job_without_a_step_time_is_refused(step_s: float) -> None:
    with pytest.raises(ValueError, match="finished job"):
        Finished(workload=workload(), allocation=allocation(), step_s=step_s)


def test_what_a_further_rank_adds_to_the_start_is_learnt_from_jobs_of_several_ranks() -> None:
    work = workload()

    def run(start_s: float, ranks: int) -> Finished:
        way = allocation(ranks, (32 // ranks,) * ranks)
        step_s = estimate(work, way, PRIOR).step_s.mid
        steps_s = work.epochs * work.steps_per_epoch * step_s
        run_s = start_s + steps_s + saves_s(work, PRIOR.overheads) + 2.0
        return Finished(
            workload=work, allocation=way, step_s=step_s, run_s=run_s, start_s=start_s, load_s=0.0, evaluation_s=0.0
        )

    found = corrected(PRIOR, [run(3.0, 1)] * 20 + [run(7.0, 2)] * 20 + [run(15.0, 4)] * 20)
    assert found.overheads.start_s == pytest.approx(3.0, abs=0.1)
    assert found.overheads.rank_start_s == pytest.approx(4.0, abs=0.2)
    assert found.overheads.end_s == pytest.approx(2.0, abs=0.1), "the start of ranks is not taken off the end again"
    told = run_parts(work, allocation(2, (16, 16)), found)
    assert told.start_s == pytest.approx(7.0 + load_s(work, found.overheads), abs=0.3)
    assert told.run_s == pytest.approx(estimate(work, allocation(2, (16, 16)), found).run_s.mid)


def test_without_jobs_of_one_rank_nobody_can_tell_what_a_further_one_adds() -> None:
    work, way = workload(), allocation(2, (16, 16))
    jobs_ = [
        Finished(workload=work, allocation=way, step_s=estimate(work, way, PRIOR).step_s.mid, start_s=7.0, load_s=0.0)
    ] * 30
    found = corrected(PRIOR, jobs_).overheads
    assert found.rank_start_s == PRIOR.overheads.rank_start_s
    assert found.start_s + found.rank_start_s == pytest.approx(7.0, abs=0.3)


def test_ranks_that_start_on_nodes_of_their_own_say_nothing_of_those_that_start_side_by_side() -> None:
    work, near = workload(), allocation(4, (8,) * 4)

    def run(start_s: float, way: Allocation) -> Finished:
        step_s = estimate(work, way, PRIOR).step_s.mid
        return Finished(workload=work, allocation=way, step_s=step_s, start_s=start_s, load_s=0.0)

    known = [run(3.0, allocation(1, (32,)))] * 20 + [run(9.0, near)] * 20
    apart = [run(30.0, replace(near, most_on_node=1))] * 40
    before, after = (corrected(PRIOR, seen).overheads for seen in (known, known + apart))
    assert (after.start_s, after.rank_start_s) == (before.start_s, before.rank_start_s)
    by_two = corrected(PRIOR, [*known[:20], *[run(5.5, replace(near, most_on_node=2))] * 40]).overheads
    assert by_two.rank_start_s == pytest.approx(2.0, abs=0.1), "one further rank on each of two nodes, which met"


def spread(start_s: float, **more: object) -> Finished:
    """Four ranks on as many nodes."""
    work, way = workload(), replace(allocation(4, (8,) * 4), most_on_node=1)
    step_s = estimate(work, way, PRIOR).step_s.mid
    return Finished(workload=work, allocation=way, step_s=step_s, start_s=start_s, load_s=0.0, **more)


def test_how_long_nodes_take_to_meet_is_what_jobs_over_several_took_longer_to_start() -> None:
    link = pair_link(0.01, 1e6)
    alone = [begun("a", 3.0)] * 20
    model = corrected(PRIOR, [*alone, *[spread(9.0, nodes_link=link)] * 20])
    joined = joined_s(workload(), spread(9.0).allocation, link)
    assert joined > 6 * 3 * 0.01
    assert model.overheads.meet_s == pytest.approx(6.0 - joined, abs=0.1) and model.overheads.n_met == 20
    assert model.overheads.start_s == corrected(PRIOR, alone).overheads.start_s
    over = replace(model, nodes_link=link)
    parts = run_parts(workload(), spread(9.0).allocation, over)
    assert parts.start_s - load_s(workload(), model.overheads) == pytest.approx(9.0, abs=0.1)


def test_until_jobs_have_shown_it_the_meeting_of_nodes_is_assumed_and_said_to_be() -> None:
    way, over = spread(9.0).allocation, replace(PRIOR, nodes_link=pair_link(1e-3, 1e8))
    near, far = run_parts(workload(), way, PRIOR), run_parts(workload(), way, over)
    joined = joined_s(workload(), way, pair_link(1e-3, 1e8))
    assert far.start_s == pytest.approx(near.start_s + PRIOR.overheads.meet_s + joined)
    words = "how long its nodes take to meet at the start is assumed"
    assert words in estimate(workload(), way, over).note and words not in estimate(workload(), way, PRIOR).note
    taught = corrected(PRIOR, [begun("a", 3.0), spread(9.0, nodes_link=over.nodes_link)])
    assert words not in estimate(workload(), way, replace(taught, nodes_link=over.nodes_link)).note
    alone = corrected(PRIOR, [spread(9.0)]).overheads
    assert (alone.meet_s, alone.n_met) == (PRIOR.overheads.meet_s, 0), "its ranks may just start slowly"


def test_weights_that_every_rank_gets_at_the_start_take_longer_over_a_thin_link_and_stages_get_none() -> None:
    work, way = replace(workload(), parameter_bytes=100_000_000), spread(9.0).allocation
    thin, thick = pair_link(1e-9, 1e7), pair_link(1e-9, 1e9)
    assert joined_s(work, way, thin) == pytest.approx(2 * 10.0), "two rounds to four ranks"
    assert joined_s(work, way, thick) == pytest.approx(0.2)
    assert joined_s(work, replace(way, mode="pipeline"), thin) < 1e-3


def test_reading_the_rows_of_large_data_is_not_taken_for_the_start_of_every_job() -> None:
    large = replace(workload(), dataset_bytes=400_000_000)
    step_s = estimate(large, allocation(), PRIOR).step_s.mid
    job = Finished(workload=large, allocation=allocation(), step_s=step_s, start_s=41.5, load_s=40.0)
    model = corrected(PRIOR, [job] * 30)
    assert model.overheads.start_s == pytest.approx(1.5, abs=0.1)
    assert model.overheads.load_bytes_per_s == pytest.approx(1e7, rel=0.01)
    assert run_parts(large, allocation(), model).start_s == pytest.approx(41.5, rel=0.05)
    assert run_parts(replace(large, dataset_bytes=1_000_000), allocation(), model).start_s < 2.0


def test_a_program_whose_own_code_is_slow_to_load_teaches_nothing_of_how_fast_others_read() -> None:
    own = replace(workload(), dataset_bytes=1_000_000, load_s=40.0)
    step_s = estimate(own, allocation(), PRIOR).step_s.mid
    job = Finished(workload=own, allocation=allocation(), step_s=step_s, start_s=41.5, load_s=40.0)
    overheads = corrected(PRIOR, [job] * 30).overheads
    assert overheads.load_bytes_per_s == PRIOR.overheads.load_bytes_per_s
    assert overheads.start_s == pytest.approx(1.5, abs=0.1)


def test_a_run_that_did_not_tell_how_long_it_read_is_taken_at_the_known_rate() -> None:
    large = replace(workload(), dataset_bytes=60_000_000)
    step_s = estimate(large, allocation(), PRIOR).step_s.mid
    read_s = load_s(large, PRIOR.overheads)
    job = Finished(workload=large, allocation=allocation(), step_s=step_s, start_s=read_s + 2.0)
    overheads = corrected(PRIOR, [job] * 30).overheads
    assert overheads.start_s == pytest.approx(2.0, abs=0.1)
    assert overheads.load_bytes_per_s == pytest.approx(PRIOR.overheads.load_bytes_per_s)


def test_a_probe_that_timed_a_row_says_more_than_the_bytes() -> None:
    large = replace(workload(), dataset_bytes=60_000_000)
    probe = Probe(allocation=allocation(), step_s=(0.1,), load_row_s=1e-3)
    told = run_parts(large, allocation(), PRIOR, probe).start_s
    assert told == pytest.approx(PRIOR.overheads.start_s + 1e-3 * all_rows(large))
