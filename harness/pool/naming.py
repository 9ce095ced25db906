"""The node of a name, and what to do where there is none."""

from __future__ import annotations

from harness.errors import NotFound
from harness.pool.models import Node
from scheduler.placing.obstacles import HOW_TO_JOIN


def node_named(name: str, *, field: str | None = None) -> Node:
    """The node. Raises `NotFound`, which names `field` and says how a machine joins."""
    node = Node.objects.filter(name=name).first()
    if node is None:
        hint = f"The pool page and dlh pool list the nodes. {HOW_TO_JOIN}"
        raise NotFound(f"There is no node {name[:60]}.", field=field, hint=hint)
    return node
