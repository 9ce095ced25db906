"""Objects inside of rows: each of their fields becomes a column of a dotted name; lists are left out.

`worker.runtime.tables` reads rows to predict for in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from codegen.profile.types import Finding, Severity
from worker.words import counted

NESTED_LEVELS = 5
"""A column's name has at most so many parts: `a.b.c.d.e`. What lies deeper is left out."""
_SHOWN = 5


def flat(row: Mapping[str, Any], above: str = "", level: int = 1) -> Iterator[tuple[str, Any]]:
    """(dotted name, value) of every field. A list comes as it is, as does an object that lies too deep."""
    for key, value in row.items():
        if isinstance(value, dict) and level < NESTED_LEVELS:
            yield from flat(value, f"{above}{key}.", level + 1)
        else:
            yield above + key, value


def parents(names: Iterable[str]) -> set[str]:
    """What stands in front of the dots: `a` and `a.b` of `a.b.c`."""
    found: set[str] = set()
    for name in names:
        while name := name.rpartition(".")[0]:
            found.add(name)
    return found


def taken_apart(names: list[str]) -> list[Finding]:
    """Told where objects became columns; `names` are those of the columns."""
    if not names:
        return []
    shown = ", ".join(f"'{name}'" for name in names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    return [
        Finding(
            code="nested_fields",
            severity=Severity.INFO,
            message=f"Objects were taken apart to {counted(len(names), 'column')}: {shown}.",
            meaning="Rows to predict for may have the objects, or fields of these names.",
        )
    ]
