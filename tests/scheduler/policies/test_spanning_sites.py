"""A pool whose gangs may span nodes, and jobs that stay on one: they are promised no devices that lie apart."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler.admit import admit, promisable
from scheduler.place import place
from tests.scheduler.pools import held_by, job, node, pool, runs, way
from tests.scheduler.replays import late, small

NOW_S = 10.0


def alone(job_id, option, **more):
    return job(job_id, replace(option, mode="single"), **more)


def gang(job_id, option, **more):
    return job(job_id, replace(option, mode="sync"), **more)


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


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.booleans())
@example(35, True, False)
@example(114, True, False)
def test_every_promise_is_kept_by_exact_estimates(seed, spans, limited):
    comers, view, quotas = small(seed, spans=spans, limited=limited)
    assert not late(comers, view, policy="deadline_energy", quotas=quotas)[0]
