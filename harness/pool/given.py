"""Nodes whose secret an operator made beforehand: they need no join token, and nobody at a terminal.

A container's file system may not outlive it, and a token lets a machine in once: such a node reads its secret from a
file whenever it starts, and the portal is told the same secret when it is prepared.
"""

from __future__ import annotations

from collections.abc import Iterable

import redis
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from harness.accounts.audit import audit_write
from harness.broker import publish_pool
from harness.errors import Conflict, Invalid
from harness.pool.broker_users import broker_trouble, broker_user_renew
from harness.pool.models import JoinToken, Node
from harness.pool.terms import NODE_NAME, SECRET, digest_of


def node_secret_give(*, name: str, secret: str) -> bool:
    """Let the node `name` in by this secret; of it the SHA-256 is kept. True where it is new. Idempotent.

    Raises `Invalid`, `Conflict` (another node has it), `Unavailable` (the broker does not answer, or refuses us).
    """
    if not NODE_NAME.fullmatch(name):
        raise Invalid(f"{name} is not a valid node name: use lower-case letters, digits and hyphens.", field="name")
    if not SECRET.fullmatch(secret) or len(set(secret)) < 16:
        raise Invalid(f"The secret of node {name} must be dlhn_ and at least 40 random characters.", field="secret")
    digest = digest_of(secret)
    with transaction.atomic():
        node, _ = Node.objects.get_or_create(name=name)
        if node.secret_digest == digest:
            return False
        if (other := Node.objects.filter(secret_digest=digest).first()) is not None:
            raise Conflict(f"The nodes {other.name} and {name} have the same secret: each needs its own.")
        Node.objects.filter(pk=node.pk).update(secret_digest=digest, joined_at=timezone.now(), check_result={})
        audit_write(None, "node_secret_give", name)
        try:
            broker_user_renew(name, digest)
        except redis.RedisError as error:
            raise broker_trouble(error) from error
    publish_pool("node", {"node": name, "state": node.state})
    return True


def nodes_given(nodes: Iterable[Node]) -> set[str]:
    """Ids of those whose secret was made beforehand: nobody looked the machine over, as one does that joins by a
    token."""
    joined = {node.pk for node in nodes if node.joined_at is not None}
    if not joined:
        return joined
    by_token = JoinToken.objects.filter(node__in=joined, used_at=F("node__joined_at"))
    return joined - set(by_token.values_list("node_id", flat=True))
