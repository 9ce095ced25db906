"""What a sweep measures, in order: the plan of the scheduler, and some of its points again on several devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from harness.calibration.holding import run_devices
from harness.calibration.models import OPEN, CalibrationPointRow, CalibrationRun
from harness.pool.models import Device, DeviceKind
from scheduler.estimation.extent import Extent, extent_of
from scheduler.estimation.sweep import MOST_POINTS, SweepPoint, plan_sweep

AGAIN_EVERY = 12
"""Of so many points one is measured with two ranks too, and one with two threads: how devices hinder each other."""
_RANKS_AT, _THREADS_AT = 3, 9


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One measurement."""

    point: SweepPoint
    ranks: int = 1
    threads: int = 1

    @property
    def point_id(self) -> str:
        """Stable name of what is measured."""
        name = self.point.point_id
        if self.ranks > 1:
            return f"{name}-ranks{self.ranks}"
        return f"{name}-threads{self.threads}" if self.threads > 1 else name

    @property
    def family(self) -> str:
        """Of the program."""
        return self.point.family


@cache
def plan(kind: str, devices: int, extent: Extent) -> tuple[Planned, ...]:
    """Every measurement of a whole sweep on a node with so many devices of the kind and model, in order."""
    found: list[Planned] = []
    for number, point in enumerate(plan_sweep(most=MOST_POINTS, extent=extent)):
        found.append(Planned(point=point))
        if devices < 2:
            continue
        if number % AGAIN_EVERY == _RANKS_AT:
            found.append(Planned(point=point, ranks=2))
        elif number % AGAIN_EVERY == _THREADS_AT and kind == DeviceKind.CPU:
            found.append(Planned(point=point, threads=2))
    return tuple(found)


def run_extent(run: CalibrationRun) -> Extent:
    """How large its programs are: by the data sheet of its devices, and the memory that they themselves report."""
    return _extent(run, run_devices(run))


def _extent(run: CalibrationRun, devices: Sequence[Device]) -> Extent:
    return extent_of(run.kind, run.model_name, min((device.memory_bytes for device in devices), default=0))


def run_plan(run: CalibrationRun) -> tuple[Planned, ...]:
    """What there is to measure on its node."""
    devices = run_devices(run)
    return plan(run.kind, len(devices), _extent(run, devices))


def points_known(run: CalibrationRun) -> set[str]:
    """Points measured on this kind of device in this pool; what came from a file is measured again."""
    rows = CalibrationPointRow.objects.filter(kind=run.kind, model_name=run.model_name, imported=False)
    return set(rows.values_list("point_id", flat=True))


def others_measured(run: CalibrationRun) -> bool:
    """Whether other sweeps have measured points of this kind of device since it was started."""
    rows = CalibrationPointRow.objects.filter(kind=run.kind, model_name=run.model_name, imported=False)
    return rows.filter(measured_at__gte=run.created_at).exclude(run=run).exists()


def next_point(run: CalibrationRun) -> Planned | None:
    """The first point of the plan that was neither measured nor refused; None at its end.

    Points of one kind of device are fitted together: one that another sweep of such devices is at comes last.
    """
    done = points_known(run) | {item["point_id"] for item in run.refused} | set(run.pending)
    left = [planned for planned in run_plan(run) if planned.point_id not in done]
    others = CalibrationRun.objects.filter(kind=run.kind, model_name=run.model_name, state__in=OPEN).exclude(pk=run.pk)
    elsewhere = {point_id for pending in others.values_list("pending", flat=True) for point_id in pending}
    return min(left, key=lambda planned: planned.point_id in elsewhere, default=None)
