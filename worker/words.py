"""How counts are written for people; `codegen.words` is the same, and neither package may import the other."""

from __future__ import annotations


def counted(number: int, word: str) -> str:
    """`number` with `word` in the plural where it needs one: "1 rank", "2 ranks"."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
