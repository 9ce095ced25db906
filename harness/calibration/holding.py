"""Keep jobs off the devices of a sweep: one reservation per device, renewed while the sweep lives.

A reservation that nobody renews runs out by itself, so that a sweep whose control process is gone blocks nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Q
from django.utils import timezone

from harness.calibration.models import CalibrationRun
from harness.calibration.selectors import run_progress
from harness.pool.models import Device, Reservation
from harness.pool.reservations import (
    reservation_hold,
    reservation_prolong,
    reservation_release,
    reservations_expect,
)

HOLD = timedelta(minutes=10)
"""How far ahead a hold reaches; renewed when half of it is over."""
SOONEST, MOVED = timedelta(minutes=1), timedelta(seconds=30)
"""An expected end is never nearer, and is told anew when it has moved by more than that."""


def run_devices(run: CalibrationRun) -> list[Device]:
    """The devices of its kind and model on its node, by index: what is there, and what it holds already."""
    found = Device.objects.filter(node_id=run.node_id, kind=run.kind, model_name=run.model_name)
    wanted = Q(away_since=None) | Q(pk__in=Reservation.objects.filter(pk__in=run.reservations).values("device"))
    return list(found.filter(wanted).select_related("node").order_by("index"))


def devices_hold(run: CalibrationRun) -> None:
    """Reserve the devices, or renew what holds them. Raises `Conflict` where somebody else has reserved one."""
    now = timezone.now()
    live = Reservation.objects.filter(pk__in=run.reservations, cancelled_at=None, ends_at__gt=now)
    for row in live.filter(starts_at__gt=now):
        # The clock was set back: until then it would keep nobody off.
        reservation_release(row)
    held = {row.device_id: row for row in live}
    expected = _expected_end(run, now)
    if any(not row.planned_until or abs(row.planned_until - expected) > MOVED for row in held.values()):
        reservations_expect([row.pk for row in held.values()], expected)
    if any(row.ends_at - now < HOLD / 2 for row in held.values()):
        for row in held.values():
            reservation_prolong(row, ends_at=now + HOLD)
    missing = [device for device in run_devices(run) if device.pk not in held]
    if not missing:
        return
    purpose = f"Calibration of {run.node_name}"
    made = [
        reservation_hold(
            target=device,
            ends_at=now + HOLD,
            purpose=purpose,
            by=run.started_by,
            open_ended=True,
            planned_until=expected,
        )
        for device in missing
    ]
    run.reservations = [row.pk for row in (*held.values(), *made)]
    run.save(update_fields=["reservations"])


def _expected_end(run: CalibrationRun, now: datetime) -> datetime:
    """By its own pace; before its first point by its budget."""
    left_s = run_progress(run).eta_s
    if left_s is None:
        left_s = run.budget_s - run.used_s
    return now + max(SOONEST, timedelta(seconds=left_s))


def devices_release(run: CalibrationRun) -> None:
    """Give the devices back."""
    for reservation in Reservation.objects.filter(pk__in=run.reservations, cancelled_at=None):
        reservation_release(reservation)
