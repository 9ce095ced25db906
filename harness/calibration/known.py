"""What is known of a kind of device: the fitted model, else a prior with its wide intervals."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db.models import F, Q, QuerySet, Window
from django.db.models.functions import RowNumber

from harness.calibration.models import DeviceModelRow, FinishedJobRow, RanOutRow
from harness.calibration.shipped import prior_of
from harness.pool.idle_power import IdleMeasured
from harness.pool.models import Device, DeviceKind, Node, NodeState
from harness.pool.power import device_power, idle_watts, table_power, with_idle
from harness.pool.services import pool_setting_get
from harness.pool.sums import nodes_by_host
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.device_parts import POOL_TABLE, PowerModel
from scheduler.estimation.device_table import IDLE_USUAL, figures_for
from scheduler.estimation.learning import OWN_RECENT, RECENT
from scheduler.estimation.prior import by_host
from scheduler.estimation.values import Basis
from scheduler.kinds import real_name
from worker.words import counted

IDLE_READ = "; idle power: read on idle devices here"
_log = logging.getLogger(__name__)

Key = tuple[str, str]


def device_model(kind: str, model_name: str) -> DeviceModel:
    """The model to estimate with: fitted and corrected where there are points, else the prior.

    `model_name` as the scheduler names devices: a declared slowdown is part of it, and of the model.
    """
    return device_models([(kind, model_name)])[kind, model_name]


def fitted_since(kind: str, names: Collection[str], moment: datetime) -> bool:
    """Whether a calibration of one of these devices tells since then what it takes; `names` as the scheduler has them.

    What finished jobs correct does not count: that goes on all day, and moves figures within their ranges.
    """
    rows = DeviceModelRow.objects.filter(kind=kind, model_name__in=[real_name(name)[0] for name in names])
    return rows.filter(fitted_at__gt=moment, n_points__gt=0).exists()


def device_models(keys: Collection[Key]) -> dict[Key, DeviceModel]:
    """The same of many (kind, name); those that differ in their declared slowdown alone share what is read."""
    real = {(kind, name): real_name(name) for kind, name in keys}
    rows = DeviceModelRow.objects.filter(model_name__in={name for name, _ in real.values()})
    known = {(row.kind, row.model_name): DeviceModel.from_dict(row.model) for row in rows}
    setting = pool_setting_get()
    hosts = nodes_by_host(setting) if any(kind == DeviceKind.CUDA for kind, _ in keys) else {}
    found, idle = {}, IdleMeasured()
    for key, (name, slowdown) in real.items():
        kind, _ = key
        model = known.get((kind, name)) or known.setdefault((kind, name), prior_of(kind, name))
        model = replace(_powered(_of_pool(model), setting.power_table, idle), slowdown=max(1.0, slowdown))
        found[key] = by_host(model, _host_words(hosts[name])) if kind == DeviceKind.CUDA and name in hosts else model
    return found


class ModelsRead:
    """`device_models`, of which each is read once."""

    def __init__(self) -> None:
        self._known: dict[Key, DeviceModel] = {}

    def of(self, keys: Collection[Key]) -> Mapping[Key, DeviceModel]:
        """(At least) these."""
        if missing := set(keys) - self._known.keys():
            self._known |= device_models(missing)
        return self._known


def _host_words(nodes: Sequence[str]) -> str:
    more = f" and {counted(len(nodes) - 1, 'other node')}" if len(nodes) > 1 else ""
    return f"Horovod has no NCCL on {nodes[0]}{more}"


def _of_pool(model: DeviceModel) -> DeviceModel:
    """Without the slow starts and the paces of nodes that take no work: nothing is placed there.

    Such a pace is still known to whoever measured there.
    """
    slow, paces = model.overheads.slow_starts, model.paces
    if not slow and not paces:
        return model
    there = set(Node.objects.filter(name__in={*slow, *paces}, state=NodeState.UP).values_list("name", flat=True))
    left = {name: factor for name, factor in slow.items() if name in there}
    told = {name: replace(pace, takes_work=name in there) for name, pace in paces.items()}
    return replace(model, overheads=replace(model.overheads, slow_starts=left), paces=told)


def _powered(model: DeviceModel, table: Mapping[str, Any], idle: IdleMeasured) -> DeviceModel:
    """With the watts that an admin entered, where none were measured here: offers and bills count by the same table."""
    key, power = (model.kind, model.model_name), model.power
    entered = table_power(*key, table) if power.basis is not Basis.MEASURED else None
    if entered is not None:
        power = PowerModel(idle_w=entered.idle_w, busy_w=entered.busy_w, basis=Basis.ASSUMED, source=POOL_TABLE)
    return replace(model, power=_idle_known(power, key, table, idle))


def powers_known(keys: Collection[Key]) -> dict[Key, PowerModel]:
    """What one device of each (kind, real name) draws, as estimates count it: as a calibration measured it, else the
    admin's entry, else a data sheet; idle as `harness.pool.power.idle_watts` says."""
    rows = DeviceModelRow.objects.filter(model_name__in={name for _, name in keys})
    told = {(kind, name): power for kind, name, power in rows.values_list("kind", "model_name", "model__power")}
    table, idle = pool_setting_get().power_table, IdleMeasured()
    return {key: _idle_known(_power(key, told.get(key), table), key, table, idle) for key in keys}


def _power(key: Key, told: Mapping[str, Any] | None, table: Mapping[str, Any]) -> PowerModel:
    if told and told["basis"] == Basis.MEASURED:
        return PowerModel.from_dict(told)
    entered = device_power(*key, table)
    source = POOL_TABLE if table_power(*key, table) else figures_for(*key).source
    return PowerModel(idle_w=entered.idle_w, busy_w=entered.busy_w, basis=Basis.ASSUMED, source=source)


def _idle_known(power: PowerModel, key: Key, table: Mapping[str, Any], idle: IdleMeasured) -> PowerModel:
    """With what is known of such devices while nobody holds them; the calibration's own idle watts are a table's."""
    found = idle_watts(*key, table, measured_w=idle.like_w(*key), assumed_w=power.idle_w)
    power = with_idle(power, found)
    if found.basis is not Basis.MEASURED:
        return power
    return replace(power, source=power.source.removesuffix(IDLE_USUAL) + IDLE_READ)


def pool_powers() -> dict[Key, PowerModel]:
    """The same of all models of device that the pool has, by kind and name."""
    keys = Device.objects.order_by("kind", "model_name").values_list("kind", "model_name").distinct()
    return powers_known(list(keys))


def finished_teaching(kind: str, model_name: str) -> QuerySet[FinishedJobRow]:
    """The rows that a model of device is corrected by, newest first: older ones count no more.

    Those of generated programs and of people's are counted apart, and of one person fewer: nobody makes others' old.
    """
    rows = FinishedJobRow.objects.filter(kind=kind, model_name=model_name).exclude(step_s=None)
    rows = rows.exclude(workload={}).exclude(allocation={}).order_by("-finished_at", "-pk")
    of_person = Window(RowNumber(), partition_by="author", order_by=[F("finished_at").desc(), F("pk").desc()])
    own = rows.filter(own_code=True).annotate(place=of_person).filter(place__lte=OWN_RECENT)
    generated = rows.filter(own_code=False)
    return rows.filter(Q(pk__in=generated.values("pk")[:RECENT]) | Q(pk__in=own.values("pk")[:RECENT]))


def ran_out_teaching(kind: str, model_name: str) -> QuerySet[RanOutRow]:
    """The rows that a model of memory is corrected by, newest first: older ones count no more."""
    rows = RanOutRow.objects.filter(kind=kind, model_name=model_name).exclude(limit_bytes=None)
    return rows.exclude(workload={}).exclude(allocation={}).order_by("-ended_at", "-pk")[:RECENT]
