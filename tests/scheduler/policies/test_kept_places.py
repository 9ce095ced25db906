"""Under the policies that serve a queue, a promise is kept against whoever comes later."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.place import place
from scheduler.policies.order import kept_places
from tests.scheduler.pools import carry_out, job, node, pool, way

JOBS = st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=8)


@given(JOBS)
def test_nobody_overtakes_a_promised_job_and_the_others_keep_their_order(told):
    queue = [
        job(f"j{at}", at=float(when), promised=promised, deadline_s=1e9) for at, (when, promised) in enumerate(told)
    ]
    kept = kept_places(queue)
    assert sorted(kept, key=queue.index) == queue
    for at, one in enumerate(kept):
        if one.promised:
            assert all(other.submitted_s <= one.submitted_s for other in kept[:at])
    others = [one for one in kept if not one.promised]
    assert others == [one for one in queue if not one.promised]


@pytest.mark.parametrize("policy", ["fifo", "edf", "fair_share"])
@pytest.mark.parametrize(
    "later",
    [{"priority": 9}, {"deadline_s": 6_000.0}, {"project": "poor"}, {"priority": 9, "deadline_s": 6_000.0}],
)
def test_a_promised_job_starts_when_it_was_told_whoever_comes_later(policy, later):
    view = pool(node(cpus=2))
    runs = job("runs", way(2, run_s=1_000.0), project="rich", can_pause=False)
    held, idle = carry_out(place([runs], view, 0.0, policy=policy), [runs], view, 0.0)
    promised = job("promised", way(2, run_s=1_000.0), at=1.0, project="rich", deadline_s=7_000.0, promised=True)
    told = place([*held, promised], idle, 2.0, policy=policy).expected["promised"]
    later_job = job("later", way(2, run_s=5_000.0), at=2.0, **({"project": "rich"} | later))
    decision = place([*held, promised, later_job], idle, 3.0, policy=policy)
    assert decision.expected["promised"] == pytest.approx(told, abs=2.0)
    assert decision.expected["later"][0] >= told[1] - 2.0
