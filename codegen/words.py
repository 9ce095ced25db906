"""How counts are written for people."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """`number` with the words for one or for many, by default those for one with an s: "1 core", "2 cores"."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
