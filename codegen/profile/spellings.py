"""Values that are one value in two spellings: `Yes` and `yes`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from codegen.profile.types import ColumnProfile, ColumnType, Finding, Severity

_SHOWN, _SHOWN_LETTERS = 10, 80


def similar_categories(column: ColumnProfile, values: Iterable[str]) -> list[Finding]:
    """Values of an input that are one value in two spellings."""
    alike = _spelled_alike(values) if column.type is ColumnType.CATEGORY else []
    if not alike:
        return []
    return [
        Finding(
            code="similar_categories",
            severity=Severity.INFO,
            message=f"Values of '{column.name}' differ only in letter case or spaces: {_listed(alike)}.",
            meaning="They count as different values, each with fewer rows to learn it from. Write them alike if they "
            "mean the same.",
            column=column.name,
        )
    ]


def similar_classes(names: Iterable[str], remedy: str) -> list[Finding]:
    """Classes that are one class in two spellings."""
    alike = _spelled_alike(names)
    if not alike:
        return []
    return [
        Finding(
            code="similar_class_names",
            severity=Severity.WARNING,
            message=f"Classes differ only in letter case or spaces: {_listed(alike)}.",
            meaning=f"They are learned as different classes. {remedy} if they mean the same.",
        )
    ]


def _spelled_alike(names: Iterable[str]) -> list[str]:
    names = list(names)
    plain = Counter(_plain(name) for name in names)
    return sorted((name for name in names if plain[_plain(name)] > 1), key=lambda name: (_plain(name), name))


def _listed(names: list[str]) -> str:
    return ", ".join(repr(_cut(name)) for name in names[:_SHOWN])


def _cut(name: str) -> str:
    return name if len(name) <= _SHOWN_LETTERS else f"{name[:_SHOWN_LETTERS]}…"


def _plain(name: str) -> str:
    return name.casefold().strip()
