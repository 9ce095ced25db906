from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from scheduler.offers.recommend import candidates, recommend, reserved_offer, takes
from scheduler.offers.values import Hindrance, Mark, Offer, Wish, finish_told_s
from scheduler.offers.words import BORROWED_WAY, LARGER_QUOTA, NO_PROMISE, NOT_OF_BORROWED
from tests.scheduler.offers.ways import GIB, NOW_S, cpus, gpus, offer, priced, workload
from worker.shares import even
from worker.words import duration_words


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


def test_the_sentence_tells_energy_in_the_unit_of_the_ways_below_it():
    found = offer([cpus(4)], watts=5.0)
    assert max(line.energy_j.high for line in found.lines) > 1000 > found.chosen.energy_j.high
    assert re.search(r"about [\d.]+ Wh", found.text)


def test_it_is_the_upper_end_of_the_finish_that_must_keep_the_deadline():
    found = offer([cpus(1)], deadline_s=NOW_S + 110)
    assert found.lines[0].finish_s.mid < found.deadline_s < found.lines[0].finish_s.high
    assert found.chosen is None
    assert found.lines[0].why.startswith("It finishes up to ")
    assert "after the deadline, and is on time with a chance of " in found.lines[0].why


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
    assert found.earliest_told_s == NOW_S + 110, "there is time to set it"
    assert "1 min later" in found.text
    assert found.changes[0].startswith("Set the deadline 1 min 50 s from now or later")
    assert found.changes[1] == "Train 6 epochs instead of 10: those finish in time."


@pytest.mark.parametrize(("after_s", "told_s"), [(1, 40), (10, 40), (569.5, 600), (600, 660), (601, 720)])
def test_near_finishes_are_told_to_ten_seconds_and_later_ones_to_the_minute(after_s, told_s):
    now_s = 1_200_000.0  # a whole minute
    assert finish_told_s(now_s + after_s, now_s) == now_s + told_s


def test_fewer_epochs_save_their_steps_and_not_the_start_of_the_run():
    # up to 78 s of which steps are six tenths: 31.2 s remain, and 4.68 s for each epoch
    found = offer([cpus(2)], deadline_s=NOW_S + 50, epoch_steps=60)
    assert found.changes[1] == "Train 4 epochs instead of 10: those finish in time."
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
    for line in found.lines:
        late = duration_words(line.latest_s - found.deadline_s, up=True)
        assert line.why == f"It finishes up to {late} after the deadline."


def test_a_deadline_in_the_past_is_said_so():
    assert offer([cpus(2)], deadline_s=NOW_S - 5).text == "The deadline has already passed."


def test_after_a_deadline_in_the_past_nobody_is_told_that_fewer_devices_alone_would_do():
    later = "Set a later deadline, and ask again: no device that was asked for could keep any."
    for groups, wish in (([cpus(2, quota=1)], Wish(count=2)), ([cpus(2)], Wish(kind="cuda"))):
        assert offer(groups, deadline_s=NOW_S - 5, wish=wish).changes == (later,)


def test_a_pool_without_devices_is_said_so():
    found = offer([])
    assert (found.chosen, found.earliest_finish_s, found.lines) == (None, None, ())
    assert found.text == "No node that takes work has a device for this job."
    assert found.changes


def test_a_pool_that_is_reserved_is_said_so_and_nobody_is_told_to_start_nodes():
    found = reserved_offer(offer([]), NOW_S + 600.0)
    assert found.text == "Every device that this job could take is reserved for something else."
    assert found.changes == ("Ask again in 10 min, when the first reservation ends, or have an admin release it.",)


def test_devices_that_the_pool_does_not_have_are_named():
    assert offer([cpus(2)], wish=Wish(kind="cuda")).text == "The pool has no GPU that takes work."
    many = offer([cpus(2)], wish=Wish(kind="cpu", count=5))
    assert many.text == "The pool has no 5 CPU cores together that take work: 2 at most."
    assert many.changes[0].startswith("Ask for 2: 2 CPU cores (Xeon)")
    unlike = offer([gpus(1, model="A100"), gpus(1, model="T4")], wish=Wish(kind="cuda", count=4))
    assert unlike.text == "The pool has no 4 GPUs together that take work: 1 at most."
    (fewer,) = offer([cpus(1)], wish=Wish(kind="cpu", count=2, mode="sync")).changes
    assert fewer == "Ask for 1 in mode single: 1 CPU core (Xeon) would do."
    assert any("Leave the devices open" in text for text in many.changes)
    named = offer([cpus(2), gpus(1)], wish=Wish(kind="cuda", model_name="A100"))
    assert named.text == "The pool has no GPU (A100) that takes work. It has H100."


def test_no_figure_of_what_is_offered_stands_without_its_basis():
    found = offer([cpus(2)])
    cost = found.chosen.estimate
    assert f"of its start ({cost.time_basis}), about" in found.text
    assert found.text.endswith(f"({cost.energy_basis}).")


def test_what_a_person_fixes_is_kept_and_the_way_out_is_named():
    found = offer([cpus(2), gpus(1)], deadline_s=NOW_S + 60, wish=Wish(kind="cpu"))
    assert found.chosen is None
    assert {line.hindrance for line in found.lines if line.allocation.kind == "cuda"} == {Hindrance.NOT_WISHED}
    assert any("Leave the devices open: 1 GPU (H100)" in text for text in found.changes)
    assert offer([cpus(2), gpus(1)], deadline_s=NOW_S + 60).chosen.allocation.kind == "cuda"


def test_a_mode_that_the_devices_do_not_allow_is_named_and_the_devices_are_kept():
    found = offer([cpus(2), gpus(1)], wish=Wish(kind="cpu", count=1, mode="sync"))
    assert found.text == "Mode sync is no way to run this job on the devices you asked for."
    assert found.changes[0] == "Leave the mode open: 1 CPU core (Xeon) would do."
    two = offer([cpus(1), gpus(2)], wish=Wish(kind="cuda", count=2, mode="single"))
    assert "Leave the mode open: 2 GPUs (H100), one rank each would do." in two.changes


def test_a_refusal_names_other_devices_that_are_late_too_where_they_are_much_sooner():
    found = offer([cpus(1), gpus(1)], deadline_s=NOW_S + 10, wish=Wish(kind="cpu"))
    (change,) = (text for text in found.changes if "Leave the devices open" in text)
    assert change == ("Leave the devices open and set the deadline 50 s from now or later: 1 GPU (H100) would meet it.")
    assert offer([cpus(1), gpus(1)], deadline_s=NOW_S + 15).chosen.allocation.kind == "cuda"


def test_a_run_that_is_to_bear_the_loss_of_ranks_is_offered_such_ranks_alone():
    found = offer([cpus(4), gpus(2)], wish=Wish(least=2))
    assert {(line.allocation.kind, line.allocation.mode) for line in found.lines if line.feasible} == {("cpu", "sync")}
    assert min(line.allocation.count for line in found.lines if line.feasible) == 3
    assert any("could not go on with 2 of its ranks" in line.why for line in found.lines)
    refused = offer([cpus(2)], wish=Wish(least=2))
    assert refused.text == "On these devices the job could not go on with 2 of its ranks."
    assert refused.changes == ("Leave resources.least open: 1 CPU core (Xeon) would do.",)


def test_what_is_to_be_left_open_is_all_that_stands_in_the_way():
    late = offer([cpus(4), gpus(1)], deadline_s=NOW_S + 50, wish=Wish(kind="cpu", count=4, least=2))
    assert "Leave the devices open: 1 GPU (H100) would do." not in late.changes
    assert "Leave the devices and resources.least open: 1 GPU (H100) would do." in late.changes
    both = offer([cpus(2), gpus(1)], deadline_s=NOW_S + 60, wish=Wish(kind="cpu", count=2, mode="sync"))
    assert "Leave the devices and the mode open: 1 GPU (H100) would do." in both.changes
    sooner = offer([cpus(4), gpus(1)], deadline_s=NOW_S + 10, wish=Wish(kind="cpu", count=4, least=2))
    told = "Leave the devices and resources.least open and set the deadline 50 s from now or later"
    assert any(change.startswith(told) for change in sooner.changes)


def test_ways_that_other_devices_alone_would_open_are_named_before_cheaper_ones():
    found = offer([cpus(2), gpus(2)], deadline_s=NOW_S + 60, wish=Wish(kind="cpu", count=2, mode="sync"))
    assert "Leave the devices open: 2 GPUs (H100), one rank each would do." in found.changes


def test_zero_devices_is_no_wish():
    with pytest.raises(ValueError, match="at least one device"):
        Wish(count=0)


def test_more_than_the_quota_is_not_offered():
    found = offer([cpus(4, quota=1)], deadline_s=NOW_S + 60)
    assert found.chosen is None
    assert {line.hindrance for line in found.lines if line.allocation.count > 1} == {Hindrance.QUOTA}
    assert any("quota" in text for text in found.changes)


@pytest.mark.parametrize(
    "more",
    [
        {"wish": Wish(kind="cpu", count=5)},
        {"wish": Wish(model_name="nobody has it")},
        {"deadline_s": NOW_S - 60},
        {"deadline_s": NOW_S + 1},
        {"wish": Wish(kind="cuda")},
    ],
    ids=["more than there are", "unknown", "past", "too soon", "another kind"],
)
def test_a_larger_quota_is_not_advised_where_it_does_not_help(more):
    found = offer([cpus(4, quota=1)], **more)
    assert found.chosen is None and not any("quota" in text for text in (found.text, *found.changes))


def test_a_larger_quota_is_advised_where_only_that_is_missing():
    found = offer([cpus(4, quota=1)], wish=Wish(count=2))
    assert found.text == "The project's quota is too small for this job."
    assert "Ask an admin for a larger quota of the project." in found.changes


def test_a_refusal_of_what_is_only_lent_names_the_quota():
    ways = candidates(workload(), [cpus(4, promised_quota=1)], wish=Wish(count=2))
    asked = [replace(way, promisable=way.allocation.count < 2) for way in ways]
    found = recommend(
        asked, estimate_of=priced, start_of=lambda way, run_s: NOW_S, now_s=NOW_S, deadline_s=NOW_S + 9000,
        wish=Wish(count=2),
    )  # fmt: skip
    assert found.chosen is None and found.text == NOT_OF_BORROWED
    assert {line.why for line in found.lines if line.allocation.count == 2} == {BORROWED_WAY}
    assert LARGER_QUOTA in found.changes and not any("Ask again later" in text for text in found.changes)
    others = recommend(
        [replace(way, borrows=False) for way in asked], estimate_of=priced, start_of=lambda way, run_s: NOW_S,
        now_s=NOW_S, deadline_s=NOW_S + 9000, wish=Wish(count=2),
    )  # fmt: skip
    assert others.text == NO_PROMISE and any("Ask again later" in text for text in others.changes)


def test_a_way_whose_devices_are_never_free_is_not_offered():
    found = offer([cpus(2)], start_of=lambda way, run_s: NOW_S if way.count == 1 else None)
    assert {line.allocation.count for line in found.lines if takes(line)} == {1}


def test_a_wait_in_the_queue_counts_against_the_deadline():
    late = offer([cpus(2)], deadline_s=NOW_S + 130, start_of=lambda way, run_s: NOW_S + 100)
    assert late.chosen is None
    assert late.earliest_finish_s == pytest.approx(NOW_S + 178)


def test_a_way_names_the_nodes_it_may_lie_on_where_no_single_one_has_its_devices():
    spanning = [cpus(2, 3, nodes=("n1", "n2"), spans_nodes=True)]
    over = {way.allocation.count: way.over_nodes for way in candidates(workload(), spanning)}
    assert over == {1: (), 2: (), 3: (), 4: ("n1", "n2"), 5: ("n1", "n2")}
    assert not any(way.over_nodes for way in candidates(workload(), [cpus(2, 3, nodes=("n1", "n2"))]))


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


@pytest.mark.parametrize("mode", ["sync", "async", "pipeline+sync"])
def test_a_way_shares_its_rows_out_as_its_run_does(mode):
    ways = [way.allocation for way in candidates(workload(batch=37), [cpus(8)], wish=Wish(mode=mode))]
    found = [way for way in ways if way.mode == mode]
    assert found
    for way in found:
        each = way.stages or 1
        assert way.batch_split[::each] == even(37, way.count // each)
