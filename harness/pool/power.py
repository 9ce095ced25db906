"""Watts of devices that no meter reads: a shipped table, over it the one an admin edits; and which watts count idle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness.errors import Invalid
from scheduler.estimation.device_parts import PowerModel
from scheduler.estimation.device_table import figures_for
from scheduler.estimation.power_table import power_table_fault
from scheduler.estimation.values import Basis


@dataclass(frozen=True, kw_only=True)
class DevicePower:
    """What one device draws."""

    idle_w: float
    busy_w: float

    def at(self, load: float) -> float:
        """Watts at a load from 0 to 1: straight between both, as servers draw it within some 10 %."""
        return self.idle_w + (self.busy_w - self.idle_w) * min(1.0, max(0.0, load))


def table_power(kind: str, model_name: str, table: Mapping[str, Any]) -> DevicePower | None:
    """The admin's entry for the model or the kind; None where there is none."""
    for key in (model_name, kind):
        entry = table.get(key)
        if entry:
            return DevicePower(idle_w=float(entry["idle_w"]), busy_w=float(entry["busy_w"]))
    return None


def device_power(kind: str, model_name: str, table: Mapping[str, Any]) -> DevicePower:
    """The admin's entry, else what the maker's data sheet says (`scheduler.estimation.device_table`)."""
    shipped = figures_for(kind, model_name)
    return table_power(kind, model_name, table) or DevicePower(idle_w=shipped.idle_w, busy_w=shipped.busy_w)


@dataclass(frozen=True, kw_only=True)
class IdleWatts:
    """What one device draws while nobody holds it."""

    watts: float
    basis: Basis


def idle_watts(
    kind: str,
    model_name: str,
    table: Mapping[str, Any],
    *,
    measured_w: float | None = None,
    like_w: float | None = None,
    assumed_w: float | None = None,
) -> IdleWatts:
    """The admin's entry, else what its meter told, else what those of devices like it did, else what is assumed (the
    maker's data sheet where nothing else is given)."""
    entered = table_power(kind, model_name, table)
    if entered is not None:
        return IdleWatts(watts=entered.idle_w, basis=Basis.ASSUMED)
    if measured_w is not None:
        return IdleWatts(watts=measured_w, basis=Basis.MEASURED)
    if like_w is not None:
        return IdleWatts(watts=like_w, basis=Basis.MODELLED)
    return IdleWatts(
        watts=figures_for(kind, model_name).idle_w if assumed_w is None else assumed_w, basis=Basis.ASSUMED
    )


def with_idle(power: PowerModel, idle: IdleWatts) -> PowerModel:
    """The same with these watts idle. Who works draws no less: watts at work give way only where they are assumed."""
    if power.basis is not Basis.ASSUMED:
        least_w = power.busy_w if power.waiting_w is None else min(power.waiting_w, power.busy_w)
        return replace(power, idle_w=min(idle.watts, least_w), idle_basis=idle.basis)
    waiting_w = None if power.waiting_w is None else max(power.waiting_w, idle.watts)
    return replace(
        power, idle_w=idle.watts, idle_basis=idle.basis, waiting_w=waiting_w,
        busy_w=max(power.busy_w, waiting_w or idle.watts),
    )  # fmt: skip


def power_table_check(table: Any) -> None:
    """Pass for `{name: {"idle_w": .., "busy_w": ..}}` with idle <= busy. Raises `Invalid` that names the entry."""
    if fault := power_table_fault(table):
        raise Invalid(fault, field="power_table", hint='Write it like {"cpu": {"idle_w": 1.5, "busy_w": 8}}.')
