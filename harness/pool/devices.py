"""The devices of a node follow what its agent reports, and one that is only away stays what it was.

A GPU that its driver does not answer for (a hiccup of NVML, a fall off the bus) is missing from a report. Its row is
kept, with the slowness that an admin declared and what is reserved; nothing new starts on it, and a run that holds it
goes on until it ends by itself. It is known again by its UUID, whatever its number is then. A GPU that stays away for
`KEPT_FOR` is forgotten. CPU cores are a number that the node was given: those beyond it go at once, or once nobody
holds them and what people reserved of them is over.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, F, OuterRef, QuerySet
from django.utils import timezone

from harness.pool.models import Device, DeviceKind, Node, Reservation
from harness.pool.presence import absence_until

KEPT_FOR = timedelta(days=30)
"""Longer than a repair takes, shorter than anybody remembers the GPU."""
Key = tuple[str, int]
"""Kind and index."""
DeviceFields = Mapping[Key, Mapping[str, Any]]
"""What the agent says of each device: `model_name`, `memory_bytes`, `uuid`."""
_log = logging.getLogger(__name__)


def device_find(node: Node, kind: str, index: int) -> Device | None:
    """The device of that number; one that is there before one that was."""
    rows = node.devices.filter(kind=kind, index=index).order_by(F("away_since").desc(nulls_first=True))
    return rows.select_related("node").first()


def devices_follow(node: Node, told: DeviceFields, now: datetime) -> bool:
    """Make rows agree with a report; call it with the node locked. Returns whether anything has changed."""
    have = list(node.devices.all())
    found = _known(have, told)
    missing = [device for device in have if device.pk not in {known.pk for known in found.values()}]
    # Numbers are free before others take them.
    renumbered = [device for key, device in found.items() if device.index != key[1]]
    for device in missing:
        if device.away_since is None:
            _log.warning("the node %s does not see its device %s:%s", node.name, device.kind, device.index)
    changed = _go_away([*missing, *renumbered], now)
    for key, fields in told.items():
        changed |= _is_there(node, key, fields, found.get(key), now, is_added=bool(have))
    return _cores_drop(missing, now) or changed


def _known(have: Collection[Device], told: DeviceFields) -> dict[Key, Device]:
    """The rows of what is told: by UUID first, else by number, unless the UUIDs are known to differ."""
    by_uuid = {(device.kind, device.uuid): device for device in have if device.uuid}
    found = {
        key: device
        for key, fields in told.items()
        if fields["uuid"] and (device := by_uuid.pop((key[0], fields["uuid"]), None)) is not None
    }
    known = {device.pk for device in found.values()}
    left = sorted((device for device in have if device.pk not in known), key=_last_seen)
    by_number = {(device.kind, device.index): device for device in left}
    for key in told.keys() - found.keys():
        like = by_number.get(key)
        if like is not None and not (like.uuid and told[key]["uuid"]):
            found[key] = like
    return found


def _last_seen(device: Device) -> tuple[bool, float]:
    """Those that are there come last."""
    return (True, 0.0) if device.away_since is None else (False, device.away_since.timestamp())


def _go_away(devices: Collection[Device], now: datetime) -> bool:
    ids = [device.pk for device in devices]
    return bool(ids) and bool(Device.objects.filter(pk__in=ids, away_since=None).update(away_since=now))


def _is_there(
    node: Node, key: Key, fields: Mapping[str, Any], device: Device | None, now: datetime, *, is_added: bool
) -> bool:
    """Make or update one row; True where something of it is new. `is_added`: the node had others before."""
    told = {**fields, "index": key[1]}
    if device is None:
        made = Device.objects.create(node=node, kind=key[0], **told)
        if is_added:
            absence_until(node, node.created_at, now, device=made)
        return True
    told["uuid"] = fields["uuid"] or device.uuid
    if device.away_since is None and all(getattr(device, name) == value for name, value in told.items()):
        return False
    if device.away_since is not None:
        absence_until(node, device.away_since, now, device=device)
    Device.objects.filter(pk=device.pk).update(**told, away_since=None)
    return True


def _cores_drop(devices: Collection[Device], now: datetime) -> bool:
    """CPU cores that the node has no more; those that are held, or that a person has reserved, go when that is over: a
    reservation must not go with a number that may be a mistake. A calibration renews its own for as long as it waits
    for a core."""
    cores = [device.pk for device in devices if device.kind == DeviceKind.CPU]
    return bool(cores) and bool(_unwanted(_kept(now).filter(open_ended=False)).filter(pk__in=cores).delete()[0])


def _kept(now: datetime) -> QuerySet[Reservation]:
    """What is reserved of a device."""
    return Reservation.objects.filter(device=OuterRef("pk"), cancelled_at=None, ends_at__gt=now)


def _unwanted(kept: QuerySet[Reservation]) -> QuerySet[Device]:
    """Those that nobody holds, and that none of these keeps."""
    return Device.objects.filter(~Exists(kept), allocation__isnull=True)


def devices_forget() -> int:
    """Delete devices that have been away for too long, that nobody holds, and that nobody has reserved."""
    now = timezone.now()
    return _unwanted(_kept(now)).filter(away_since__lt=now - KEPT_FOR).delete()[0]
