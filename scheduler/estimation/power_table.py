"""A table of watts by model or kind of device, as admins edit it: what it may hold, and what it says of a device."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

ENTRIES_MAX = 200
WATTS_MAX = 10_000.0
_WATTS = ("idle_w", "busy_w")
_NAME_MAX = 120


def power_table_fault(table: Any, *, more: Collection[str] = ()) -> str:
    """What is wrong with `{name: {"idle_w": .., "busy_w": ..}}`, idle <= busy, in a sentence; empty: nothing.

    `more`: what else an entry may say; that is not looked at.
    """
    if not isinstance(table, Mapping) or len(table) > ENTRIES_MAX:
        return f"power_table maps at most {ENTRIES_MAX} names of models or kinds to watts."
    for name, entry in table.items():
        said = set(entry) - set(more) if isinstance(entry, Mapping) else set()
        if said != set(_WATTS) or not name or len(name) > _NAME_MAX:
            named = str(name)[:_NAME_MAX]
            return f"The entry {named!r} of power_table needs a name, idle_w and busy_w, and no more."
        watts = [entry[key] for key in _WATTS]
        plain = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in watts)
        if not plain or not 0 <= watts[0] <= watts[1] <= WATTS_MAX:  # NaN is in no order
            limits = f"0 <= idle_w <= busy_w <= {WATTS_MAX:,.0f}"
            return f"The entry {name!r} of power_table needs numbers of watts, {limits}."
    return ""
