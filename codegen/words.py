"""How counts are written for people."""

from __future__ import annotations


def counted(number: int, word: str) -> str:
    """`number` with `word` in the plural where it needs one: "1 core", "2 cores"."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
