"""When nodes were there: one that is switched off draws no power, and its devices stand idle for nobody."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime

import numpy as np
from django.db.models import Q
from django.utils import timezone
from numpy.typing import NDArray

from harness.pool.models import Device, Node, NodeAbsence

Stretch = tuple[datetime, datetime]
Seconds = NDArray[np.float64]


def absence_begin(node: Node) -> None:
    """The node went down: it was last there at its last heartbeat."""
    if not NodeAbsence.objects.filter(node=node, until=None).exists():
        now = timezone.now()
        NodeAbsence.objects.create(node=node, since=min(node.heartbeat_at or now, now))


def absence_end(node: Node, now: datetime) -> None:
    """The node is back. After the clock was set back it may have gone in the future: then it was never away."""
    NodeAbsence.objects.filter(node=node, until=None, since__gte=now).delete()
    NodeAbsence.objects.filter(node=node, until=None).update(until=now)


def absence_until(node: Node, since: datetime, now: datetime, *, device: Device | None = None) -> None:
    """The node, or one device of it, was not there since then, and is now."""
    if since < now:
        NodeAbsence.objects.create(node=node, device=device, since=since, until=now)


def absences_forget(before: datetime) -> int:
    """Delete those that ended before; how many there were."""
    return NodeAbsence.objects.filter(until__lt=before).delete()[0]


class Presence:
    """When the devices of a pool were there, within `[since, until)`, by its stretches of the same length."""

    def __init__(self, since: datetime, until: datetime, stretches: int = 1) -> None:
        self._since, self._until = since, until
        self._edges = np.linspace(0.0, (until - since).total_seconds(), stretches + 1)
        self._away: dict[str, list[Stretch]] = defaultdict(list)
        """By a node's or a device's key."""
        reaching = NodeAbsence.objects.filter(Q(until=None) | Q(until__gt=since), since__lt=until)
        for node_id, device_id, began, ended in reaching.values_list("node_id", "device_id", "since", "until"):
            self._away[device_id or node_id].append((began, ended or until))
        self._known: dict[tuple[object, ...], Seconds] = {}
        """Devices of a node come and go together, but for those that it does not see."""

    def seconds(self, device: Device) -> Seconds:
        """How long the device was there in each stretch: from when its node joined, without what it was away."""
        apart = tuple(self._away.get(device.pk, ()))
        key = (device.node_id, device.away_since, apart)
        if key not in self._known:
            self._known[key] = self._seconds(device, apart)
        return self._known[key]

    def _seconds(self, device: Device, apart: Iterable[Stretch]) -> Seconds:
        if device.node.heartbeat_at is None:
            return np.zeros(len(self._edges) - 1)
        ended = min(self._until, device.away_since) if device.away_since else self._until
        began = max(self._since, device.node.created_at)
        there = self._inside(began, ended)
        for since, until in self._absences(device, apart):
            there = there - self._inside(max(began, since), min(ended, until))
        return np.clip(there, 0.0, None)

    def _absences(self, device: Device, apart: Iterable[Stretch]) -> Iterator[Stretch]:
        """Of its node and of itself, each moment once."""
        known = self._since
        for since, until in sorted([*self._away.get(device.node_id, ()), *apart]):
            if until > known:
                yield max(since, known), until
                known = until

    def _inside(self, began: datetime, ended: datetime) -> Seconds:
        """Seconds of each stretch that lie between two moments."""
        first_s, last_s = (began - self._since).total_seconds(), (ended - self._since).total_seconds()
        inside_s: Seconds = np.minimum(last_s, self._edges[1:]) - np.maximum(first_s, self._edges[:-1])
        return np.clip(inside_s, 0.0, None)
