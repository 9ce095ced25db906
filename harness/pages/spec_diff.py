"""Where specs differ, field by field."""

from __future__ import annotations

from typing import Any

from codegen.spec import TaskSpec


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
    """`{field, values}` for the fields that are not the same in all specs, in the order of the schema."""
    return [{"field": row["field"], "values": row["values"]} for row in spec_rows(specs) if row["differs"]]


def spec_rows(specs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """`{field, values, differs}` for every field of these specs but their names, in the order of the schema."""
    flats = [flatten(spec) for spec in specs]
    known = list(flatten(TaskSpec().model_dump(mode="json")))
    names = sorted({name for flat in flats for name in flat}, key=lambda name: (_place(name, known), name))
    rows = [(name, [flat.get(name) for flat in flats]) for name in names if name != "name"]
    return [
        {"field": name, "values": values, "differs": any(value != values[0] for value in values)}
        for name, values in rows
    ]


def _place(name: str, known: list[str]) -> int:
    """Place of the field in the schema; a part of a field stands where the field does, what is unknown at the end."""
    while name not in known and "." in name:
        name = name.rpartition(".")[0]
    return known.index(name) if name in known else len(known)
