"""Take a node out of the pool for good."""

from __future__ import annotations

import redis
from django.db import transaction

from harness.accounts.access import require_admin
from harness.accounts.audit import audit_write
from harness.accounts.models import User
from harness.broker import publish_pool
from harness.errors import Conflict, Unavailable
from harness.pool.asked import RETURNING
from harness.pool.broker_users import broker_user_remove
from harness.pool.models import Device, Node
from harness.pool.naming import node_named
from harness.pool.services import is_heard
from worker.words import counted

_NAMED = 5


def node_remove(*, user: User, name: str, force: bool = False) -> None:
    """Take a node out of the pool; with `force` also one that has results to return, which are lost with it.

    Raises `Forbidden`, `NotFound`; `Conflict` while it runs jobs, has something to return, or its agent lives;
    `Unavailable` where its login at the broker cannot be ended: it would take part again as soon as it is started.
    """
    require_admin(user)
    node = node_named(name)
    if Device.objects.filter(node=node, allocation__isnull=False).exists():
        raise Conflict(
            f"Jobs run on {name}.",
            hint="Drain the node and wait; or pause and resume its jobs, which then wait for other devices (a promise "
            "ends).",
        )
    if is_heard(node):
        raise Conflict(f"The agent on {name} is running and would join again.", hint="Stop the agent there first.")
    if not force:
        _returned_check(node)
    with transaction.atomic():
        node.delete()
        audit_write(user, "node_remove", name)
        try:
            if node.secret_digest:
                broker_user_remove(name)
        except redis.RedisError as error:
            raise Unavailable(
                f"The login of {name} at the broker cannot be ended: {str(error).rstrip('.')}.",
                hint="Try again in a moment; where this stays, see that the broker runs and takes control's password.",
            ) from error
    publish_pool("node", {"node": name, "state": "removed"})


def _returned_check(node: Node) -> None:
    """Pass if all that runs made there is in the store. Raises `Conflict`."""
    jobs = [job for found in RETURNING.ask(node) for job in found]
    if not jobs:
        return
    named = ", ".join(jobs[:_NAMED]) + (f" and {len(jobs) - _NAMED:,} more" if len(jobs) > _NAMED else "")
    raise Conflict(
        f"What {counted(len(jobs), 'job')} made is on {node.name} alone and not returned yet: {named}.",
        code="node_returning",
        hint="Start its agent and wait until they have ended, or cancel them. `dlh pool rm --force` removes the node "
        "all the same; they then train again.",
    )
