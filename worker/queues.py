"""Names at the broker that a node's Celery uses, each with the node's name in it: its login reaches no other's."""

from __future__ import annotations


def node_queue_name(name: str) -> str:
    """The queue of the node's tasks."""
    return f"node.{name}"


def unacked_keys(queue: str) -> dict[str, str]:
    """Options of the transport: where messages lie that were taken from the queue and are not yet begun with."""
    return {f"{part}_key": f"{queue}.{part}" for part in ("unacked", "unacked_index", "unacked_mutex")}
