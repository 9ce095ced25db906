"""UDP ports of the hosts for networks of ranks that are encrypted."""

from __future__ import annotations

import secrets
from collections.abc import Collection

from django.db.models import Q

from harness.jobs.models import Allocation
from harness.pool.models import Node, NodeLink
from worker.sandbox.wireguard import PORTS


def network_port_draw(nodes: Collection[Node]) -> int:
    """One that no attempt has on these nodes, and no link of theirs is timed by.

    One that is in use after all is named by the node: the attempt starts again, the link is timed later.
    """
    held = Allocation.objects.filter(device__node__in=nodes, attempt__plan__network_port__gt=0)
    timed = NodeLink.objects.filter(Q(first__in=nodes) | Q(second__in=nodes), order__network_port__gt=0)
    taken = set(held.values_list("attempt__plan__network_port", flat=True))
    taken |= set(timed.values_list("order__network_port", flat=True))
    return secrets.choice([port for port in PORTS if port not in taken] or PORTS)
