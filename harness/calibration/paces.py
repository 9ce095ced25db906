"""Nodes whose devices surely are of another pace than the others of their name become a kind of device of their own.

Names of kinds change by that, so whatever waits is given ways on the new names in the same transaction
(`harness.estimates.renaming`): who could be placed on a device before can be placed there afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from django.db import transaction

from harness.broker import publish_pool, task_send_on_commit
from harness.calibration.models import DeviceModelRow
from harness.estimates.renaming import ways_rename
from harness.pool.paces import paces_in_force, paces_set, paces_stale
from harness.pool.turn import facts_change
from scheduler.estimation.device_model import DeviceModel

_log = logging.getLogger(__name__)


def paces_follow(kind: str, model_name: str) -> int:
    """Have plans count with the paces that the model has learnt; return how many names of devices changed."""
    if not paces_stale(kind, model_name, _steps(kind, model_name)):
        return 0
    with transaction.atomic():
        facts_change()  # nobody decides on the names from before
        changed = paces_set(kind, model_name, _steps(kind, model_name))
        ways_rename(kind, model_name, changed)
        task_send_on_commit("control.estimates_renew")
        task_send_on_commit("control.tick")
    publish_pool("calibration", {"kind": kind})
    for change in changed:
        _log.warning("%s %s: a pace of %.2f is one of %.2f now", kind, model_name, change.old, change.new)
    return len(changed)


def _steps(kind: str, model_name: str) -> Mapping[str, float]:
    """Node -> what plans are to count with."""
    now = paces_in_force(kind, model_name)
    row = DeviceModelRow.objects.get(kind=kind, model_name=model_name)
    learnt = DeviceModel.from_dict(row.model).correction.paces
    return now | {node: pace.step for node, pace in learnt.items() if node in now}
