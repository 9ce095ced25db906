"""What slows a rank down is what is beside it on its own node: ranks of its gang on other nodes do not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.estimation.estimate import estimate
from scheduler.estimation.finished import Finished
from scheduler.estimation.learning import corrected
from scheduler.estimation.link import pair_link, spanned
from scheduler.estimation.pipelines import staged_times
from scheduler.estimation.prior import prior_for
from scheduler.estimation.probe import Probe
from scheduler.estimation.ranks import step_time
from scheduler.estimation.split import rank_line
from scheduler.estimation.steps import Steps
from scheduler.estimation.values import Allocation, Basis
from tests.run_parts import run_parts
from tests.scheduler.made_workloads import KIND, NAME, allocation, workload
from worker.shares import even

PRIOR = prior_for(KIND, NAME)
BATCH = 128
WORK = workload(batch=BATCH)


def gang(ranks: int, together: int = 0) -> Allocation:
    """`together`: of them on any one node; 0: all."""
    return replace(allocation(ranks, rows=even(BATCH, ranks)), most_on_node=together)


def local_s(way: Allocation) -> float:
    return step_time(WORK, way, PRIOR).local_s


def alone_s(way: Allocation) -> float:
    """Of the rank with most rows, without any other."""
    return local_s(replace(allocation(), batch_split=(max(way.batch_split),)))


@pytest.mark.parametrize("ranks", [2, 16, 32])
def test_ranks_that_are_alone_on_their_nodes_do_not_slow_each_other_down(ranks: int) -> None:
    assert PRIOR.contention == 0.1
    assert local_s(gang(ranks, 1)) == pytest.approx(alone_s(gang(ranks)))
    assert local_s(gang(ranks)) == pytest.approx((1.0 + 0.1 * (ranks - 1)) * alone_s(gang(ranks))), "all on one node"


@given(st.integers(1, BATCH), st.integers(1, BATCH), st.integers(0, BATCH))
def test_the_fewer_ranks_share_a_node_the_shorter_is_a_step_and_never_shorter_than_alone(
    ranks: int, together: int, fewer: int
) -> None:
    near, far = local_s(gang(ranks, together)), local_s(gang(ranks, max(1, together - fewer)))
    assert alone_s(gang(ranks)) * (1 - 1e-9) <= far <= near <= local_s(gang(ranks))
    if together >= ranks:
        assert near == local_s(gang(ranks)), "as on one node"


@pytest.mark.parametrize(("mode", "rows"), [("pipeline", (BATCH,) * 4), ("pipeline+sync", (64, 64, 64, 64))])
def test_stages_on_nodes_of_their_own_do_not_slow_each_other_down(mode: str, rows: tuple[int, ...]) -> None:
    way = replace(allocation(4, rows=rows), mode=mode)
    ways = [way, replace(way, most_on_node=1)]
    (near, far), (quiet, _) = (
        staged_times(Steps(WORK), ways, model) for model in (PRIOR, replace(PRIOR, contention=0.0))
    )
    assert far.local_s == pytest.approx(quiet.local_s)
    assert near.local_s == pytest.approx(1.3 * far.local_s)


def test_the_line_of_a_rank_counts_those_on_its_own_node() -> None:
    every, pair, lone = (rank_line(WORK, PRIOR, ranks=8, together=together)(32) for together in (0, 2, 1))
    assert every == pytest.approx(1.7 * lone) and pair == pytest.approx(1.1 * lone)


def test_what_is_assumed_of_neighbours_says_nothing_of_ranks_without_any() -> None:
    model = replace(PRIOR, basis=Basis.MODELLED, link=replace(PRIOR.link, basis=Basis.MEASURED))
    assert estimate(WORK, gang(4), model).time_basis is Basis.ASSUMED
    assert estimate(WORK, gang(4, 2), model).time_basis is Basis.ASSUMED
    assert estimate(WORK, gang(4, 1), model).time_basis is Basis.MODELLED


@pytest.mark.parametrize("mode", ["sync", "pipeline"])
def test_ranks_on_other_nodes_start_on_cores_of_their_own(mode: str) -> None:
    def start_s(ranks: int, together: int) -> float:
        way = replace(gang(ranks, together), mode=mode)
        return run_parts(WORK, way, PRIOR).start_s

    assert start_s(8, 2) - start_s(8, 1) == pytest.approx(PRIOR.overheads.rank_start_s)
    assert start_s(8, 8) - start_s(8, 1) == pytest.approx(7 * PRIOR.overheads.rank_start_s)
    assert start_s(8, 3) == pytest.approx(start_s(3, 3)), "others wait for the node with most of them, and for no other"


def test_a_probe_of_ranks_on_one_node_is_compared_with_what_one_node_takes() -> None:
    """What they slowed each other down there is not taken off again for ranks that lie apart."""
    probe = Probe(allocation=gang(4), step_s=(step_time(WORK, gang(4), PRIOR).step_s,), evaluation_row_s=1e-4)
    plain, probed = (estimate(WORK, gang(16, 1), PRIOR, probe=each) for each in (None, probe))
    assert probed.step_s.mid == pytest.approx(plain.step_s.mid)


def test_gangs_over_many_nodes_that_took_what_is_foretold_teach_nothing_and_bend_no_estimate_of_one_node() -> None:
    link = pair_link(1e-3, 1e8)
    found = []
    for number in range(20):
        work = workload(filters=8 + number, batch=BATCH)
        over = spanned(PRIOR, [link], 1, work)
        alone = replace(over, contention=0.0)
        step_s = step_time(work, gang(16), alone).step_s
        found.append(Finished(workload=work, allocation=gang(16, 1), step_s=step_s, nodes_link=link))
    assert corrected(PRIOR, found).correction.factor == pytest.approx(1.0)
    as_one = [replace(job, allocation=gang(16)) for job in found]
    assert corrected(PRIOR, as_one).correction.factor < 0.7, "if they had been slowed down as on one node"


@settings(max_examples=50)
@given(st.integers(1, BATCH), st.integers(0, BATCH))
def test_how_many_share_a_node_makes_it_no_other_way(ranks: int, together: int) -> None:
    assert gang(ranks, together) == gang(ranks) and hash(gang(ranks, together)) == hash(gang(ranks))
