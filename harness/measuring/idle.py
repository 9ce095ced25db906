"""Whether devices and nodes are idle enough to be measured."""

from __future__ import annotations

from collections.abc import Sequence

from harness.calibration.holding import run_devices
from harness.calibration.models import OPEN, CalibrationRun
from harness.estimates.models import AskState, ProbeRow
from harness.jobs.models import Allocation
from harness.pool.links import Pair
from harness.rates.models import RateTest


def devices_idle(run: CalibrationRun) -> bool:
    """Whether no job runs on its devices any more: jobs that ran when it started end in peace."""
    devices = run_devices(run)
    return bool(devices) and not Allocation.objects.filter(device__in=devices).exists()


def pairs_idle(pairs: Sequence[Pair]) -> list[Pair]:
    """Those of which neither node runs a job or measures something."""
    if not pairs:
        return []
    nodes = {node.pk for pair in pairs for node in pair}
    names = [node.name for pair in pairs for node in pair]
    busy = set(Allocation.objects.filter(device__node__in=nodes).values_list("device__node__name", flat=True))
    busy |= set(CalibrationRun.objects.filter(state__in=OPEN, node__in=nodes).values_list("node__name", flat=True))
    waiting = {"state": AskState.WAITING, "node_name__in": names}
    busy |= set(ProbeRow.objects.filter(**waiting).values_list("node_name", flat=True))
    busy |= set(RateTest.objects.filter(**waiting).values_list("node_name", flat=True))
    return [pair for pair in pairs if not busy & {node.name for node in pair}]
