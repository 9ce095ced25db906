"""Values that were read from JSON or CSV, checked field by field: every error names the field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

LARGEST = 1e30


def fields_check(of: type, body: Mapping[str, Any]) -> None:
    """Pass for values of a dataclass: all that it needs, none that it does not know. Raises `ValueError`."""
    known = {item.name: item for item in fields(of) if item.init}
    for name, item in known.items():
        if name not in body and item.default is MISSING and item.default_factory is MISSING:
            raise ValueError(f"the field {name} is missing")
    if unknown := next((name for name in body if name not in known), None):
        raise ValueError(f"there is no field {str(unknown)[:40]}")


def figures_check(values: Mapping[str, Any], *, within: str = "", signed: bool = False) -> None:
    """Pass for finite numbers from 0 on, or of either sign. Raises `ValueError`; `within` stands before each name."""
    for name, value in values.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= (abs(value) if signed else value) < LARGEST:
            raise ValueError(f"{within}{name} is not a figure: {value!r}")


def number_read(body: Mapping[str, Any], name: str, default: float) -> float:
    """A number, also of a text. Raises `ValueError`."""
    value = body.get(name, default)
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is {str(value)[:40]!r}; it must be a number") from error


def whole_read(body: Mapping[str, Any], name: str, default: int) -> int:
    """The same of a whole number."""
    value = number_read(body, name, default)
    if not value.is_integer():
        raise ValueError(f"{name} is {value:g}; it must be a whole number")
    return int(value)
