"""Where the nodes of one attempt meet before their ranks start, as its plan and their network have it."""

from __future__ import annotations

from worker.attempt import Attempt
from worker.home import redis_url
from worker.meeting import Meeting, meeting_key
from worker.sandbox.overlay import Network


def ranks_meeting(attempt: Attempt, network: Network | None) -> Meeting:
    """This node's part of it. Where their `network` is encrypted, the others are let into it by the keys they tell."""
    plan = attempt.plan
    place = meeting_key(plan.job_id, plan.token)
    if network is None or not network.key:
        return Meeting(redis_url(), place, plan.nodes, attempt.node)
    return Meeting(
        redis_url(), place, plan.nodes, attempt.node, network.key,
        lambda keys: network.join(attempt.tunnel_peers(keys)),
    )  # fmt: skip
