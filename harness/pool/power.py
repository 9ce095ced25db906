"""Watts of devices that no meter reads: a shipped table, over it the one an admin edits. Always labelled as assumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import Invalid
from scheduler.estimation.device_table import figures_for
from scheduler.estimation.power_table import power_table_fault


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


def power_table_check(table: Any) -> None:
    """Pass for `{name: {"idle_w": .., "busy_w": ..}}` with idle <= busy. Raises `Invalid` that names the entry."""
    if fault := power_table_fault(table):
        raise Invalid(fault, field="power_table", hint='Write it like {"cpu": {"idle_w": 1.5, "busy_w": 8}}.')
