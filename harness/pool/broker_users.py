"""The users of joined nodes at the broker: each signs in as itself; of its password we keep the SHA-256 only."""

from __future__ import annotations

import logging
from typing import Any

import redis

from harness.broker import client
from harness.pool.models import Node
from harness.pool.terms import broker_user

NEWER = "+client|setinfo"
"""What brokers before Redis 7.2 have no name for, and then refuse the whole line. Clients do without it."""
_log = logging.getLogger(__name__)


def broker_rules(name: str, digest: str) -> list[str]:
    """What the node's user may do: its own queue, control's queue, streams and leases; no administration."""
    keys = [f"node.{name}", f"node.{name}\x06*", "control", "control\x06*", "_kombu*", "unacked*", "dlh:*"]
    keys += [f"node@{name}.celery.pidbox*", "*.reply.celery.pidbox*"]  # Celery's own remote control
    commands = ["+@all", "-@admin", "-@dangerous", "+info", "+client|setname", NEWER]
    return ["reset", "on", f"#{digest}", *(f"~{key}" for key in keys), "&*", *commands]


def _acl(*words: str) -> Any:
    return client().execute_command("ACL", *words)  # type: ignore[no-untyped-call]


def broker_user_set(name: str, digest: str) -> bool:
    """Make the node's user at the broker. False where the broker does not let us: nodes then share our own login."""
    rules = broker_rules(name, digest)
    try:
        try:
            _acl("SETUSER", broker_user(name), *rules)
        except redis.ResponseError as error:
            if NEWER not in str(error):
                raise
            _acl("SETUSER", broker_user(name), *(rule for rule in rules if rule != NEWER))
    except redis.ResponseError as error:
        _log.warning("the broker makes no user for node %s, it gets the shared one: %s", name, error)
        return False
    return True


def broker_users_restore() -> int:
    """Make the users of joined nodes anew where the broker has lost them (it keeps none through a restart)."""
    wanted = dict(Node.objects.exclude(secret_digest="").values_list("name", "secret_digest"))
    if not wanted:
        return 0
    try:
        have = {str(name) for name in _acl("USERS")}
    except redis.ResponseError:
        return 0
    missing = [name for name in wanted if broker_user(name) not in have]
    return sum(broker_user_set(name, wanted[name]) for name in missing)


def broker_user_remove(name: str) -> None:
    """End the node's login at the broker."""
    try:
        _acl("DELUSER", broker_user(name))
    except redis.RedisError as error:
        _log.warning("cannot remove the broker's user of node %s: %s", name, error)
