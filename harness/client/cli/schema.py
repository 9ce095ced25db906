"""A JSON Schema as rows for people: every field with what it takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.client.cli.output import number
from harness.client.client import Json

Row = tuple[str, str, str, str]
"""Field, what it takes, default, meaning."""
_TYPES = {
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "boolean": "true or false",
    "null": "nothing",
}
_LIMITS = {"minimum": "from {}", "exclusiveMinimum": "above {}", "maximum": "to {}", "exclusiveMaximum": "below {}"}


def schema_rows(schema: Json) -> list[Row]:
    """One row for each field, parts before what is in them, names dotted."""
    return list(_rows(schema, schema, ""))


def _rows(schema: Json, node: Json, before: str) -> Iterator[Row]:
    for name, field in node.get("properties", {}).items():
        inner = _part(schema, field)
        default = field.get("default")
        shown = "" if inner or default is None else str(default)
        takes = "" if inner else takes_of(schema, field)
        yield before + name, takes, shown, str(field.get("description", ""))
        if inner:
            yield from _rows(schema, inner, f"{before}{name}.")


def _resolved(schema: Json, node: Json) -> Json:
    found: Any = schema
    for name in str(node.get("$ref", "#")).split("/")[1:]:
        found = found[name]
    return found if "$ref" in node else node


def _part(schema: Json, field: Json) -> Json | None:
    """The part of the schema that the field holds, if it holds one."""
    for member in [field, *field.get("anyOf", ()), *field.get("allOf", ())]:
        found = _resolved(schema, member)
        if "properties" in found:
            return found
    return None


def takes_of(schema: Json, node: Json) -> str:
    """What a field takes, in words."""
    node = _resolved(schema, node)
    if members := node.get("anyOf") or node.get("allOf"):
        return " or ".join(dict.fromkeys(takes_of(schema, member) for member in members))
    if "const" in node:
        return str(node["const"])
    if "enum" in node:
        return ", ".join(str(value) for value in node["enum"])
    kind = node.get("type", "")
    if kind == "array":
        return f"list of {takes_of(schema, node.get('items', {}))}"
    if kind == "object":
        return "names with values"
    limits = [words.format(number(node[name])) for name, words in _LIMITS.items() if name in node]
    kind = "time (ISO 8601)" if node.get("format") == "date-time" else _TYPES.get(kind, "anything")
    return " ".join([kind, *limits])
