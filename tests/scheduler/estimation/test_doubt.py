"""What a probe must not be believed for at once."""

from __future__ import annotations

import pytest

from scheduler.estimation.doubt import is_far, is_uneven, twice_words
from scheduler.estimation.estimate import estimate
from scheduler.estimation.prior import prior_for
from scheduler.estimation.probe import Probe
from scheduler.estimation.values import Allocation
from tests.factory_offers import workload_make

MODEL = prior_for("cpu", "core")
WORKLOAD = workload_make()
ALLOCATION = Allocation(
    kind="cpu", model_name=MODEL.model_name, count=1, mode="single", batch_split=(WORKLOAD.global_batch_size,)
)


def probe(*step_s, **more):
    return Probe(allocation=ALLOCATION, step_s=step_s, **more)


def test_steps_far_beyond_the_foretold_range_are_doubted_and_those_inside_are_not():
    foretold = estimate(WORKLOAD, ALLOCATION, MODEL).step_s
    assert not is_far(probe(foretold.mid), WORKLOAD, MODEL)
    assert not is_far(probe(foretold.high), WORKLOAD, MODEL)
    assert is_far(probe(31 * foretold.high), WORKLOAD, MODEL)


def test_steps_shorter_than_foretold_are_believed_for_no_load_makes_them_so():
    foretold = estimate(WORKLOAD, ALLOCATION, MODEL).step_s
    assert not is_far(probe(foretold.low / 100), WORKLOAD, MODEL)


@pytest.mark.parametrize(("steps", "uneven"), [((0.1, 0.12, 0.11), False), ((0.1, 0.3, 0.1), True), ((0.1,), False)])
def test_steps_of_a_probe_that_lie_far_apart_are_doubted(steps, uneven):
    assert is_uneven(probe(*steps)) == uneven


def test_two_looks_are_told_with_both_figures_where_they_disagree():
    assert twice_words(probe(0.1), "core") == ""
    words = twice_words(probe(0.1, left_out_s=(3.1,)), "core")
    assert "3.1 s" in words and "0.1 s" in words and "core" in words
    assert "the same" in twice_words(probe(0.1, left_out_s=(0.11,)), "core")
