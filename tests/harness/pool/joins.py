"""How a machine joins, for tests: a token, the request, and a real broker that makes its user."""

from __future__ import annotations

import pytest
from django.utils import timezone

from harness.pool import joining, services
from harness.release import release
from worker.plan import PLAN_VERSION

LOCAL, ELSEWHERE = "127.0.0.1", "10.1.2.3"


@pytest.fixture(autouse=True)
def real_broker(broker, tasks_sent):
    """Users are made at a real one."""
    yield broker
    for name in broker.execute_command("ACL", "USERS"):
        if str(name).startswith("node-"):
            broker.execute_command("ACL", "DELUSER", name)


@pytest.fixture
def text(people):
    """A token for node-2."""
    services.node_add(user=people.admin, name="node-2")
    return joining.join_token_make(user=people.admin, name="node-2")[1]


def wish(text, **changes):
    fields = {
        "token": text,
        "version": release(),
        "plan_version": PLAN_VERSION,
        "time_s": timezone.now().timestamp(),
        **changes,
    }
    return joining.JoinRequest(**fields)


def join(text, caller=LOCAL, **changes):
    return joining.node_join(wish(text, **changes), caller=caller)
