"""Where specs differ, field by field."""

from __future__ import annotations

from typing import Any


def flatten(spec: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted name."""
    flat: dict[str, Any] = {}
    for key, value in spec.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            flat |= flatten(value, f"{name}.")
        else:
            flat[name] = value
    return flat


def spec_differences(specs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """`{field, values}` for the fields that are not the same in all specs, in order of first appearance."""
    flats = [flatten(spec) for spec in specs]
    names = dict.fromkeys(name for flat in flats for name in flat)
    rows = [{"field": name, "values": [flat.get(name) for flat in flats]} for name in names if name != "name"]
    return [row for row in rows if any(value != row["values"][0] for value in row["values"])]
