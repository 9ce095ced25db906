"""Names at the broker that a node's Celery uses, each with the node's name in it: its login reaches no other's."""

from __future__ import annotations


def node_queue_name(name: str) -> str:
    """The queue of the node's tasks."""
    return f"node.{name}"


def mailbox_name(queue: str) -> str:
    """Where the node's Celery takes remote control, with `control_exchange` its queue: a place that nobody else has.

    Nobody uses it, but its socket notices a broker that went away while tasks were acknowledged; without it an agent
    waited for ever on a connection that was gone. Celery's own name for it is one for all, and ends whoever listens.
    """
    return f"{queue}.pidbox"


def unacked_keys(queue: str) -> dict[str, str]:
    """Options of the transport: where messages lie that were taken from the queue and are not yet begun with."""
    return {f"{part}_key": f"{queue}.{part}" for part in ("unacked", "unacked_index", "unacked_mutex")}
