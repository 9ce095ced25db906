"""How the nodes' devices of one name compare, as plans count with it (`Device.pace`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from django.utils import timezone

from harness.pool.models import Device


class PaceChange(NamedTuple):
    """Some devices of a kind and name count as so slow now, and as so slow before."""

    old: float
    new: float


def paces_known(nodes: Collection[str]) -> dict[tuple[str, str, str], float]:
    """(node, kind, model) -> pace, of devices on these nodes; 1 is left out."""
    rows = Device.objects.filter(node__name__in=nodes).exclude(pace=1.0)
    named = rows.values_list("node__name", "kind", "model_name", "pace")
    return {(node, kind, model_name): pace for node, kind, model_name, pace in named}


def paces_in_force(kind: str, model_name: str) -> dict[str, float]:
    """Node -> pace, of all nodes of the pool with such devices. One that is new there counts as the others."""
    rows = Device.objects.filter(kind=kind, model_name=model_name).values_list("node__name", "pace")
    found: dict[str, float] = {}
    for node, pace in rows:
        found[node] = pace if pace != 1.0 else found.get(node, 1.0)
    return found


def paces_stale(kind: str, model_name: str, steps: Mapping[str, float]) -> bool:
    """Whether plans count otherwise with any of the devices."""
    rows = Device.objects.filter(kind=kind, model_name=model_name).values_list("node__name", "pace")
    return any(steps.get(node, pace) != pace for node, pace in rows)


def paces_set(kind: str, model_name: str, steps: Mapping[str, float]) -> frozenset[PaceChange]:
    """Have plans count so from now on; returns what has changed. Call it in a transaction that changes facts."""
    changed, now = set(), timezone.now()
    devices = Device.objects.filter(kind=kind, model_name=model_name)
    for device_id, node, pace in devices.values_list("pk", "node__name", "pace"):
        step = steps.get(node, pace)
        if step != pace:
            changed.add(PaceChange(pace, step))
            devices.filter(pk=device_id).update(pace=step, paced_at=now)
    return frozenset(changed)
