"""An offer counts the way of the data to nodes that do not have them, and tells it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from scheduler.data_way import AHEAD_LAG_S, Travel
from scheduler.estimation.values import Basis
from scheduler.offers.bringing import Bringing
from scheduler.offers.promisable import Promisable
from scheduler.offers.recommend import candidates, recommend
from scheduler.offers.values import Mark, Offer
from scheduler.offers.words import bringing_words
from tests.scheduler.offers.ways import GIB, NOW_S, cpus, gpus, offer, priced, workload

FAR = Bringing(
    seconds=110.0, high_s=110.0, least_s=110.0, low_s=110.0, size_bytes=3 * GIB, node="far", basis=Basis.MEASURED
)


def told(groups, bringing, *, deadline_s=None, start_of=lambda way, run_s: NOW_S, promised=None, epochs=10, kind="cpu"):
    """Ways on devices of one kind have their data brought."""
    ways = [
        replace(way, bringing=bringing, promised=promised) if way.allocation.kind == kind else way
        for way in candidates(workload(), groups)
    ]
    return recommend(
        ways, estimate_of=priced, start_of=start_of, now_s=NOW_S, deadline_s=deadline_s, epochs=epochs, epoch_steps=32
    )


VARIES = replace(FAR, high_s=220.0, low_s=55.0)


def test_the_finish_has_its_range_and_that_of_the_run():
    (line,), (near,) = told([cpus(1)], VARIES).lines, offer([cpus(1)]).lines
    ends = [getattr(line.finish_s, end) - getattr(near.finish_s, end) for end in ("low", "mid", "high")]
    assert ends == pytest.approx([55.0, 110.0, 220.0])
    (late,) = told([cpus(1)], VARIES, deadline_s=NOW_S + 300).lines
    (sure,) = told([cpus(1)], FAR, deadline_s=NOW_S + 300).lines
    assert (late.feasible, sure.feasible) == (False, True)
    assert 0.5 < late.chance(NOW_S + 300) < 0.9 < sure.chance(NOW_S + 300)
    assert late.chance(NOW_S + 340) == pytest.approx(0.9)


def test_devices_that_wait_for_it_draw_their_idle_power_and_the_sum_rests_on_that():
    idle = replace(VARIES, idle_w=3.0)
    (line,), (near,) = told([cpus(1)], idle).lines, offer([cpus(1)]).lines
    more_j = [getattr(line.energy_j, end) - getattr(near.energy_j, end) for end in ("low", "mid", "high")]
    assert more_j == pytest.approx([165.0, 330.0, 660.0])
    assert line.estimate == near.estimate
    metered = replace(line.estimate, energy_basis=Basis.MEASURED)
    little, read = replace(idle, idle_w=0.01), replace(line.bringing, idle_basis=Basis.MODELLED)
    bases = [replace(line, estimate=metered, bringing=one).energy_basis for one in (line.bringing, read, little)]
    assert bases == [Basis.ASSUMED, Basis.MODELLED, Basis.MEASURED], "what is too little to tell leaves it measured"
    assert Bringing.from_dict(asdict(read)) == read and Bringing.from_dict({}).idle_basis is Basis.ASSUMED


def test_of_two_ways_that_draw_as_much_that_which_has_the_data_is_cheapest():
    groups = [gpus(1), gpus(1, model="Other")]
    ways = candidates(workload(), groups)
    found = {}
    for far, way in enumerate(ways):
        brought = [replace(one, bringing=replace(FAR, idle_w=3.0)) if one is way else one for one in ways]
        best = recommend(brought, estimate_of=priced, start_of=lambda way, run_s: NOW_S, now_s=NOW_S)
        found[far] = best.chosen.allocation.model_name
    assert found == {0: ways[1].allocation.model_name, 1: ways[0].allocation.model_name}


def test_data_that_are_sent_ahead_likely_keep_no_device_waiting():
    start_s = NOW_S + 220.0 + AHEAD_LAG_S
    (line,) = told([cpus(1)], replace(FAR, idle_w=3.0), start_of=lambda way, run_s: start_s).lines
    held_j = line.bringing.held_j
    assert (held_j.low, held_j.mid, held_j.high) == (0.0, 0.0, pytest.approx(330.0))


def test_the_finish_holds_it_and_the_run_does_not():
    (line,), (near,) = told([cpus(1)], FAR).lines, offer([cpus(1)]).lines
    assert line.estimate == near.estimate and line.start_s == near.start_s
    for end in ("low", "mid", "high"):
        assert getattr(line.finish_s, end) == pytest.approx(getattr(near.finish_s, end) + 110.0)


def test_a_way_is_held_against_the_deadline_with_it_and_one_without_it_is_taken():
    groups = [cpus(1), gpus(1)]
    assert offer(groups, deadline_s=NOW_S + 122).chosen.allocation.kind == "cuda"
    found = told(groups, FAR, deadline_s=NOW_S + 122, kind="cuda")
    assert found.chosen.allocation.kind == "cpu"
    (late,) = [line for line in found.lines if line.allocation.kind == "cuda"]
    assert "after the deadline, and is on time with a chance of " in late.why
    assert late.chance(NOW_S + 122.5) == pytest.approx(0.5)
    assert late.chance(NOW_S + 110) < 0.01


def test_advice_on_epochs_leaves_time_for_it():
    found = told([cpus(1)], FAR, deadline_s=NOW_S + 220)
    assert "Train 7 epochs instead of 10: those finish in time." in found.changes
    assert not any("epochs" in change for change in told([cpus(1)], FAR, deadline_s=NOW_S + 180).changes)


def test_devices_have_to_be_free_for_as_long():
    asked = []
    told([cpus(1)], FAR, start_of=lambda way, run_s: asked.append(run_s) or NOW_S)
    assert asked == [pytest.approx(110.0 + 120.0)]


def test_what_may_lie_on_several_nodes_ends_at_the_soonest_where_that_is_and_at_the_latest_where_that_is():
    (line,) = told([cpus(1)], replace(FAR, least_s=0.0, low_s=0.0)).lines
    (near,) = offer([cpus(1)]).lines
    assert line.finish_s.low == near.finish_s.low
    assert line.finish_s.high == pytest.approx(near.finish_s.high + 110.0)


def test_data_that_can_be_sent_ahead_of_a_late_start_delay_the_latest_finish_alone():
    start_s = NOW_S + 220.0 + AHEAD_LAG_S
    (line,) = told([cpus(1)], FAR, start_of=lambda way, run_s: start_s).lines
    assert line.finish_s.mid == pytest.approx(start_s + 100.0)
    assert line.finish_s.high == pytest.approx(start_s + 110.0 + 120.0)


def test_what_the_scheduler_would_promise_is_never_made_less_of():
    slot = Promisable(NOW_S + 5.0, NOW_S + 300.0, Travel(110.0, 110.0), "far")
    (line,) = told([cpus(1)], FAR, deadline_s=NOW_S + 400, promised=slot).lines
    assert (line.start_s, line.finish_s.high) == (NOW_S + 5.0, NOW_S + 300.0)


def test_it_is_told_in_plain_words_with_what_it_rests_on():
    assert bringing_words(FAR) == "2 min to bring 3 GiB to node far (measured)"
    assert bringing_words(VARIES) == "up to 4 min, likely 2 min, to bring 3 GiB to node far (measured)"
    unsure = replace(FAR, least_s=0.0, basis=Basis.ASSUMED)
    assert bringing_words(unsure) == "up to 2 min to bring 3 GiB to node far (assumed)"
    assert bringing_words(Bringing()) == ""
    found = told([cpus(1)], FAR)
    assert "done within 4 min of its start (modelled), of that 2 min for its data (measured)" in found.text


def test_an_offer_comes_back_from_its_plain_values_and_one_of_before_has_none():
    found = told([cpus(2)], FAR)
    body = json.loads(json.dumps(found.to_dict()))
    assert Offer.from_dict(body) == found
    for line in body["lines"]:
        del line["bringing"]["high_s"], line["bringing"]["low_s"]
    narrow = Offer.from_dict(body).lines[0].bringing
    assert replace(narrow, likely_s=0.0) == FAR, "of before it had a range"
    for line in body["lines"]:
        del line["bringing"]
    old = Offer.from_dict(body)
    assert {line.bringing for line in old.lines} == {Bringing()}
    assert old.marked(Mark.RECOMMENDED) is not None
