"""Watts of devices that no meter reads: a shipped table, over it the one an admin edits. Always labelled as assumed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import Invalid
from scheduler.estimation.device_table import figures_for

ENTRIES_MAX = 200
WATTS_MAX = 10_000.0


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
    if not isinstance(table, dict) or len(table) > ENTRIES_MAX:
        raise _wrong(f"power_table maps at most {ENTRIES_MAX} names of models or kinds to watts.")
    for name, entry in table.items():
        if not isinstance(entry, dict) or set(entry) != {"idle_w", "busy_w"} or not name or len(name) > 120:
            raise _wrong(f"The entry {str(name)[:120]!r} of power_table needs a name, idle_w and busy_w, and no more.")
        watts = [entry["idle_w"], entry["busy_w"]]
        plain = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in watts)
        if not plain or not all(math.isfinite(value) for value in watts) or not 0 <= watts[0] <= watts[1] <= WATTS_MAX:
            raise _wrong(
                f"The entry {name!r} of power_table needs numbers of watts, 0 <= idle_w <= busy_w <= {WATTS_MAX:,.0f}."
            )


def _wrong(message: str) -> Invalid:
    return Invalid(message, field="power_table", hint='Write it like {"cpu": {"idle_w": 1.5, "busy_w": 8}}.')
