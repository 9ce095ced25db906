"""A pool whose gangs may span nodes, and jobs that stay on one: they are promised no devices that lie apart."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler.admit import admit, promisable
from scheduler.place import place
from tests.scheduler.pools import carry_out, held_by, job, node, pool, runs, way
from tests.scheduler.replays import late, small

NOW_S = 10.0


def alone(job_id, *options, **more):
    return job(job_id, *(replace(option, mode="single") for option in options), **more)


def gang(job_id, *options, **more):
    return job(job_id, *(replace(option, mode="sync") for option in options), **more)


def promised(comers, held, view):
    """All that run, and those that come, promised one after another."""
    jobs = list(held)
    for one in comers:
        assert admit(one, jobs, view, NOW_S).accepted, one.job_id
        jobs.append(replace(one, promised=True))
    return jobs


def one_second_later(jobs, view):
    """The next decision, once this one's placements have begun."""
    jobs, view = carry_out(place(jobs, view, NOW_S), jobs, view, NOW_S)
    return place(jobs, view, NOW_S + 1.0)


def two_nodes(*held):
    return held_by(held, pool(node("n1", cpus=4), node("n2", cpus=4), spans=True))


def test_devices_that_lie_apart_are_not_promised_to_one_process():
    held = [runs(gang(name, way(2, run_s=100.0)), name, "cpu0", "cpu1") for name in ("n1", "n2")]
    asked = alone("asked", way(4, run_s=30.0), at=5.0, deadline_s=NOW_S + 60.0)
    found = admit(asked, held, two_nodes(*held), NOW_S)
    assert not found.accepted and found.earliest_finish_s >= NOW_S + 130.0
    assert [one.start_s for one in promisable(asked, held, two_nodes(*held), NOW_S).values()] == [NOW_S + 100.0]
    assert admit(replace(asked, deadline_s=found.earliest_told_s), held, two_nodes(*held), NOW_S).accepted
    assert admit(gang("asked", way(4, run_s=30.0), deadline_s=NOW_S + 60.0), held, two_nodes(*held), NOW_S).accepted


def test_a_gang_that_begins_leaves_its_node_to_who_was_promised_it():
    """The fullest node would do for the gang, if nobody needed all of it soon."""
    held = [
        runs(gang("soon", way(3, run_s=40.0)), "n1", "cpu0", "cpu1", "cpu2"),
        runs(gang("long", way(2, run_s=500.0)), "n2", "cpu0", "cpu1"),
    ]
    asked = alone("asked", way(4, run_s=30.0), at=5.0, deadline_s=NOW_S + 100.0, promised=True)
    comes = gang("comes", way(1, run_s=200.0), at=6.0)
    decision = place([*held, asked, comes], two_nodes(*held), NOW_S)
    assert not decision.warnings
    assert [(start.job_id, start.node) for start in decision.placements] == [("comes", "n2")]
    begun = place([*held, comes], two_nodes(*held), NOW_S)
    assert [start.node for start in begun.placements] == ["n1"], "nobody else waits"


def test_a_gang_that_would_need_a_part_of_that_node_waits_until_it_is_left():
    held = [
        runs(gang("soon", way(2, run_s=40.0)), "n1", "cpu0", "cpu1"),
        runs(gang("other", way(2, run_s=40.0)), "n2", "cpu0", "cpu1"),
    ]
    asked = alone("asked", way(4, run_s=30.0), at=5.0, deadline_s=NOW_S + 100.0, promised=True)
    comes = gang("comes", way(3, run_s=200.0), at=6.0, can_pause=False)
    decision = place([*held, asked, comes], two_nodes(*held), NOW_S)
    assert not decision.placements and decision.expected["asked"][1] == NOW_S + 70.0
    assert decision.expected["comes"][0] == NOW_S + 40.0


def test_who_begins_wider_beside_it_gets_all_the_devices_it_is_planned_on():
    soon = runs(gang("soon", way(1, run_s=40.0)), "n1", "cpu0")
    asked = alone("asked", way(4, run_s=30.0), at=5.0, deadline_s=NOW_S + 100.0, promised=True)
    comes = gang("comes", way(1, run_s=2000.0), way(2, run_s=1000.0), at=6.0, can_pause=True)
    decision = place([soon, asked, comes], two_nodes(soon), NOW_S)
    assert {start.job_id: len(start.device_ids) for start in decision.placements} == {"asked": 4, "comes": 2}


def test_a_gang_with_many_starts_to_try_never_begins_on_what_was_promised():
    """Sixteen devices come free one by one, and each time those of both promises would make it enough."""
    held = [runs(alone(f"w{number}", way(1, run_s=1000.0)), f"n{number}", "cpu0") for number in (1, 2)]
    held += [
        runs(alone(f"s{number}", way(1, run_s=10.0 * (number + 1))), f"m{number // 4}", f"cpu{number % 4}")
        for number in range(16)
    ]
    nodes = [node("n1", cpus=8), node("n2", cpus=8), *(node(f"m{number}", cpus=4) for number in range(4))]
    view = held_by(held, pool(*nodes, spans=True))
    asked = [alone(f"a{number}", way(8, run_s=100.0), at=5.0, deadline_s=NOW_S + 1150.0) for number in (1, 2)]
    jobs = [*promised(asked, held, view), gang("comes", way(14, run_s=5000.0), at=6.0)]
    decision = place(jobs, view, NOW_S)
    assert not decision.placements and decision.expected["comes"][0] == NOW_S + 140.0
    assert one_second_later(jobs, view).expected["a1"][1] == NOW_S + 1101.0


def test_a_gang_that_begins_lies_where_it_was_planned_before_who_needs_a_node_came():
    held = [
        runs(gang("half", way(2, run_s=500.0)), "n1", "cpu0", "cpu1"),
        runs(gang("long", way(1, run_s=20000.0)), "n1", "cpu2"),
        runs(gang("other", way(2, run_s=1000.0)), "n2", "cpu0", "cpu1"),
    ]
    view = held_by(held, pool(node("n1", cpus=6), node("n2", cpus=6), spans=True))
    comers = [
        gang("wide", way(10, run_s=200.0), at=1.0, deadline_s=NOW_S + 1300.0),
        gang("small", way(3, run_s=800.0), at=2.0, deadline_s=NOW_S + 1310.0),
        alone("asked", way(5, run_s=300.0), at=3.0, deadline_s=NOW_S + 1320.0),
    ]
    later = one_second_later(promised(comers, held, view), view)
    assert not later.warnings and later.expected["asked"][1] == NOW_S + 801.0


def test_a_gang_takes_of_each_nodes_memory_what_it_has_there():
    view = pool(node("n1", cpus=4, memory_gib=16), node("n2", cpus=4, memory_gib=16), spans=True)
    wide = gang("wide", way(6, run_s=100.0, memory_gib=12), at=1.0, deadline_s=NOW_S + 110.0, promised=True)
    asked = alone("asked", way(2, run_s=20.0, memory_gib=8), at=5.0, deadline_s=NOW_S + 60.0)
    assert admit(asked, [wide], view, NOW_S).accepted
    decision = place([wide, asked], view, NOW_S)
    assert {start.job_id for start in decision.placements} == {"wide", "asked"}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.booleans())
@example(35, True, False)
@example(114, True, False)
def test_every_promise_is_kept_by_exact_estimates(seed, spans, limited):
    comers, view, quotas = small(seed, spans=spans, limited=limited)
    assert not late(comers, view, policy="deadline_energy", quotas=quotas)[0]
