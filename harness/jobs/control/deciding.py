"""What is decided on the facts, by control and by whoever foresees what it will do."""

from __future__ import annotations

from harness.jobs.control.views import Facts
from scheduler.place import place
from scheduler.types import Decision


def decide(facts: Facts) -> Decision:
    """By the policy of the pool. Pure: the same facts, the same decision."""
    return place(facts.views, facts.pool, facts.now_s, policy=facts.setting.policy, quotas=facts.quotas)
