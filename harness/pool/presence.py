"""When nodes were there: one that is switched off draws no power, and its devices stand idle for nobody."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

from django.db.models import Q
from django.utils import timezone

from harness.pool.models import Device, Node, NodeAbsence


def absence_begin(node: Node) -> None:
    """The node went down: it was last there at its last heartbeat."""
    if not NodeAbsence.objects.filter(node=node, until=None).exists():
        now = timezone.now()
        NodeAbsence.objects.create(node=node, since=min(node.heartbeat_at or now, now))


def absence_end(node: Node, now: datetime) -> None:
    """The node is back. After the clock was set back it may have gone in the future: then it was never away."""
    NodeAbsence.objects.filter(node=node, until=None, since__gte=now).delete()
    NodeAbsence.objects.filter(node=node, until=None).update(until=now)


def absences_forget(before: datetime) -> int:
    """Delete those that ended before; how many there were."""
    return NodeAbsence.objects.filter(until__lt=before).delete()[0]


class Presence:
    """When the devices of a pool were there, within `[since, until)`."""

    def __init__(self, since: datetime, until: datetime) -> None:
        self._away: dict[str, list[tuple[datetime, datetime]]] = defaultdict(list)
        reaching = NodeAbsence.objects.filter(Q(until=None) | Q(until__gt=since), since__lt=until)
        for node_id, began, ended in reaching.values_list("node_id", "since", "until"):
            self._away[node_id].append((began, ended or until))
        self._known: dict[tuple[str, datetime | None, datetime, datetime], float] = {}
        """Devices of a node come and go together, but for those that it does not see."""

    def seconds(self, device: Device, since: datetime, until: datetime) -> float:
        """How long the device was there in this stretch: from when its node joined, without what it was away."""
        key = (device.node_id, device.away_since, since, until)
        if key not in self._known:
            self._known[key] = self._seconds(device, since, until)
        return self._known[key]

    def _seconds(self, device: Device, since: datetime, until: datetime) -> float:
        if device.node.heartbeat_at is None:
            return 0.0
        ended = min(until, device.away_since) if device.away_since else until
        began = max(since, device.node.created_at)
        away_s = sum(_overlap_s(began, ended, *stretch) for stretch in self._away[device.node_id])
        return max(0.0, (ended - began).total_seconds() - away_s)


def _overlap_s(since: datetime, until: datetime, began: datetime, ended: datetime) -> float:
    return max(0.0, (min(until, ended) - max(since, began)).total_seconds())
