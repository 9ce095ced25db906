"""Links between nodes: from what agents timed to what ranks over several nodes pay for a sum."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.device_parts import LinkModel
from scheduler.estimation.estimate import estimate
from scheduler.estimation.link import allreduce_s, pair_link, spanning_link, step_sums_s
from scheduler.estimation.prior import prior_for
from scheduler.estimation.probe import Probe
from scheduler.estimation.ranks import step_time
from scheduler.estimation.values import Basis
from tests.scheduler.made_workloads import KIND, NAME, allocation, workload

PRIOR = prior_for(KIND, NAME)
INSIDE = LinkModel(latency_s=2e-4, bytes_per_s=5e8, basis=Basis.MEASURED)
WORK = workload(layers=4, filters=48, batch=64)
TWO = allocation(2, rows=(32, 32))


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_a_pair_is_turned_into_a_ring_of_any_number_of_ranks(ranks: int) -> None:
    """2 (k - 1) messages, each half of the way there and back, and 2 (k - 1) / k of the bytes over each link."""
    found = allreduce_s(pair_link(3e-4, 1e8), 4e6, ranks)
    assert found == pytest.approx(2 * (ranks - 1) * (3e-4 / 2) + 2 * (ranks - 1) / ranks * 4e6 / 1e8)


@pytest.mark.parametrize("figures", [(0.0, 1e8), (1e-4, 0.0), (-1.0, 1e8), (float("nan"), 1e8), (1e-4, float("inf"))])
def test_figures_that_no_link_has_are_refused(figures: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="link between nodes"):
        pair_link(*figures)


def test_the_slowest_pair_counts_for_the_bytes_that_are_summed() -> None:
    far, thin = pair_link(2e-2, 1e9), pair_link(1e-3, 1e7)
    assert spanning_link(replace(INSIDE, basis=Basis.ASSUMED), [far, thin], 2, 1e3) == far
    assert spanning_link(replace(INSIDE, basis=Basis.ASSUMED), [far, thin], 2, 1e8) == thin


def test_the_slowest_pair_counts_for_the_small_sums_of_a_step_too() -> None:
    """One whose gradients take longest may be quick at the many sums of synced statistics."""
    thin, far = pair_link(2e-4, 1e7), pair_link(5e-3, 1e8)
    guessed = replace(INSIDE, basis=Basis.ASSUMED)
    assert spanning_link(guessed, [thin, far], 2, 1e6) == thin
    assert spanning_link(guessed, [thin, far], 2, 1e6, 40) == far
    assert step_sums_s(thin, 1e6, 2, 40) == pytest.approx(0.1082)
    assert step_sums_s(far, 1e6, 2, 40) == pytest.approx(0.215)


def test_no_network_spares_ranks_what_they_need_within_a_node() -> None:
    quick = pair_link(2e-5, 1e10)
    found = spanning_link(INSIDE, [quick], 1, 1e6)
    assert (found.latency_s, found.bytes_per_s, found.basis) == (2e-4, 5e8, Basis.MEASURED)
    guessed = spanning_link(replace(INSIDE, basis=Basis.ASSUMED), [quick], 1, 1e6)
    assert guessed == quick, "what was measured is not changed by a guess"


def test_without_a_measurement_the_link_within_a_node_is_assumed() -> None:
    assert spanning_link(INSIDE, [], 1, 1e6) == replace(INSIDE, basis=Basis.ASSUMED)


def test_one_pair_that_was_not_measured_makes_it_assumed_and_no_faster() -> None:
    slow = pair_link(1e-3, 1e7)
    found = spanning_link(INSIDE, [slow], 3, 1e6)
    assert (found.latency_s, found.bytes_per_s, found.basis) == (1e-3, 1e7, Basis.ASSUMED)


LINKS = st.builds(pair_link, st.floats(1e-6, 1.0), st.floats(1e4, 1e11))


@given(
    measured=st.lists(LINKS, min_size=1, max_size=6),
    missing=st.integers(0, 3),
    size=st.floats(1.0, 1e10),
    small=st.integers(0, 400),
)
def test_ranks_on_several_nodes_never_pay_less_than_on_their_slowest_pair(
    measured: list[LinkModel], missing: int, size: float, small: int
) -> None:
    found = spanning_link(INSIDE, measured, len(measured) + missing, size, small)
    least_s = max(step_sums_s(link, size, 2, small) for link in measured)
    assert step_sums_s(found, size, 2, small) >= least_s * (1 - 1e-9)
    assert found.basis is (Basis.ASSUMED if missing else Basis.MEASURED)


def over(link: LinkModel) -> DeviceModel:
    return replace(PRIOR, nodes_link=link)


def test_a_step_over_nodes_pays_for_their_link_and_says_what_it_rests_on() -> None:
    link = pair_link(5e-3, 1e6)
    near, far = step_time(WORK, TWO, PRIOR), step_time(WORK, TWO, over(link))
    assert far.communication_s == pytest.approx(5e-3 + WORK.gradient_bytes / 1e6)
    assert far.local_s == near.local_s
    assert "the network between the nodes is measured" in estimate(WORK, TWO, over(link)).note
    assumed = estimate(WORK, TWO, over(replace(link, basis=Basis.ASSUMED)))
    assert "the network between the nodes is assumed, not measured" in assumed.note
    assert assumed.time_basis is Basis.ASSUMED
    assert "between the nodes" not in estimate(WORK, TWO, PRIOR).note


@pytest.mark.parametrize(("mode", "rows"), [("pipeline", (64, 64)), ("pipeline+sync", (32, 32, 32, 32))])
def test_stages_on_several_nodes_pay_for_their_link_too(mode: str, rows: tuple[int, ...]) -> None:
    way = replace(allocation(len(rows), rows=rows), mode=mode)
    assert estimate(WORK, way, over(pair_link(0.05, 1e5))).step_s.mid > 1.05 * estimate(WORK, way, PRIOR).step_s.mid


def test_a_probe_on_one_node_is_compared_with_what_one_node_takes() -> None:
    """Its factor is of the device; the link between nodes is added to it, and a guess at that stays one."""
    probe = Probe(allocation=TWO, step_s=(step_time(WORK, TWO, PRIOR).step_s,))
    four, link = allocation(4, rows=(16,) * 4), pair_link(5e-3, 1e6)
    plain, probed = estimate(WORK, four, over(link)), estimate(WORK, four, over(link), probe=probe)
    assert probed.step_s.mid == pytest.approx(plain.step_s.mid)
    assert probed.time_basis is Basis.MODELLED
    guessed = over(replace(link, basis=Basis.ASSUMED))
    assert estimate(WORK, four, guessed, probe=probe).time_basis is Basis.ASSUMED


def test_the_link_between_nodes_goes_through_json() -> None:
    model = over(pair_link(3e-4, 1e8))
    assert DeviceModel.from_dict(model.to_dict()).nodes_link == model.nodes_link
    old = {name: value for name, value in PRIOR.to_dict().items() if name != "nodes_link"}
    assert DeviceModel.from_dict(old).nodes_link is None
