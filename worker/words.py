"""How counts and times of steps are written for people. Counts as in `codegen.words`: neither may import the other."""

from __future__ import annotations


def counted(number: int, word: str) -> str:
    """`number` with `word` in the plural where it needs one: "1 rank", "2 ranks"."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def step_words(seconds: float) -> str:
    """`4.2 ms`, `1.3 s`, `205 s`: three digits."""
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 99.95 else f"{seconds:.0f} s"
