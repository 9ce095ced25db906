"""The users of joined nodes at the broker: each signs in as itself; of its password we keep the SHA-256 only."""

from __future__ import annotations

import logging
from typing import Any

import redis
from django.conf import settings
from django.db import transaction

from harness.broker import client
from harness.errors import Unavailable
from harness.pool.models import Node
from harness.pool.terms import broker_user
from worker.events import CONTROL_STREAM, job_stream, lease_key
from worker.meeting import MEETINGS
from worker.queues import mailbox_name, node_queue_name, unacked_keys

NEWER = "+client|setinfo"
"""What brokers before Redis 7.2 have no name for, and then refuse the whole line. Clients do without it."""
WRITE_ONLY = "%W~"
"""In front of keys that a node writes and need not read; with brokers before Redis 7, without it, it may read them."""
_given: set[str] = set()
"""Nodes whose users have the rules of this release."""
_log = logging.getLogger(__name__)


def broker_rules(name: str, digest: str) -> list[str]:
    """What the node's user may do: take from its own queue, hold leases and meet; only write to control's queue, to the
    streams of events and of jobs. No administration; channels: Celery's signs of life, and its own mailbox."""
    queue = node_queue_name(name)
    mailbox = mailbox_name(queue)
    own = [queue, f"{queue}\x06*", f"_kombu.binding*.{queue}", *unacked_keys(queue).values()]
    own += [f"_kombu.binding*.{mailbox}", f"*.{mailbox}", f"*.{mailbox}\x06*"]
    own += [lease_key("*"), f"{MEETINGS}*"]
    written = ["control", "control\x06*", CONTROL_STREAM, f"{CONTROL_STREAM}:*", job_stream("*")]
    keys = [*(f"~{key}" for key in own), *(WRITE_ONLY + key for key in written)]
    commands = ["+@all", "-@admin", "-@dangerous", "+info", "+client|setname", NEWER]
    return [
        "reset",
        "on",
        f"#{digest}",
        *keys,
        "resetchannels",
        "&/*.celeryev/*",
        f"&/{_database()}.{mailbox}",
        *commands,
    ]


def _database() -> int:
    """Number of the broker's database: channels of Celery are named by it."""
    return int(redis.connection.parse_url(settings.REDIS_URL).get("db", 0))  # type: ignore[no-untyped-call]


def _older(rules: list[str], refusal: str) -> list[str]:
    """The rules without what this broker has just refused; none where it is something else."""
    if NEWER in rules and NEWER in refusal:
        return [rule for rule in rules if rule != NEWER]
    if WRITE_ONLY in refusal and any(rule.startswith(WRITE_ONLY) for rule in rules):
        return [f"~{rule.removeprefix(WRITE_ONLY)}" if rule.startswith(WRITE_ONLY) else rule for rule in rules]
    return []


def _acl(*words: str) -> Any:
    return client().execute_command("ACL", *words)  # type: ignore[no-untyped-call]


def broker_user_set(name: str, digest: str) -> bool:
    """Make the node's user at the broker. False where the broker does not let us: nodes then share our own login."""
    rules = broker_rules(name, digest)
    while True:
        try:
            _acl("SETUSER", broker_user(name), *rules)
        except redis.ResponseError as error:
            rules = _older(rules, str(error))
            if not rules:
                _log.warning("the broker makes no user for node %s, it gets the shared one: %s", name, error)
                return False
        else:
            _given.add(name)
            return True


def broker_user_renew(name: str, digest: str) -> bool:
    """Make the node's user with a new password, as `broker_user_set`, and cut off who signed in with the one before.

    A broker lets connections that are open live on: another machine, or a thief, would go on taking the node's jobs.
    Raises `redis.RedisError` where it does not answer, or takes our own login no more.
    """
    broker_user_remove(name)
    return broker_user_set(name, digest)


def broker_trouble(error: redis.RedisError) -> Unavailable:
    """Why the broker was not asked: waiting helps where there is no answer, but against no wrong password."""
    if isinstance(error, redis.AuthenticationError):
        return Unavailable(
            "The portal's broker refuses the portal's own user or password.",
            hint="In the portal's settings, give DLH_REDIS_URL the user and the password that the broker knows, and "
            "start the portal again.",
        )
    if isinstance(error, redis.exceptions.NoPermissionError):
        return Unavailable(
            f"The portal's user at the broker lacks a right: {error}.",
            hint="Give the user of DLH_REDIS_URL that right at the broker (ACL SETUSER).",
        )
    return Unavailable("The portal's broker does not answer.", hint="Try again in a moment.")


def broker_users_restore() -> int:
    """Make the users of joined nodes anew where the broker has lost them (it keeps none through a restart), and once in
    each process: an earlier release may have given them other rules. Returns how many."""
    wanted = list(Node.objects.exclude(secret_digest="").values_list("name", flat=True))
    if not wanted:
        return 0
    try:
        have = {str(name) for name in _acl("USERS")}
    except redis.ResponseError:
        return 0
    return sum(_restore(name) for name in wanted if broker_user(name) not in have or name not in _given)


@transaction.atomic
def _restore(name: str) -> bool:
    """Make one by the secret that its node has now: it may have joined anew, or been removed, since the look."""
    node = Node.objects.select_for_update().filter(name=name).exclude(secret_digest="").first()
    return node is not None and broker_user_set(name, node.secret_digest)


def broker_user_remove(name: str) -> None:
    """End the node's login at the broker. Raises `redis.RedisError` where it does not answer."""
    try:
        _acl("DELUSER", broker_user(name))
    except redis.ResponseError as error:  # it lets us make none either
        _log.warning("cannot remove the broker's user of node %s: %s", name, error)
