"""How counts and sizes are written for people."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """`number` with the words for one or for many, by default those for one with an s: "1 core", "2 cores"."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def size_words(size_bytes: float) -> str:
    """Bytes in binary units: "512 B", "1.5 MiB", "20.0 GiB"."""
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    for unit in units:
        if size_bytes < 1023.95 or unit == units[-1]:  # what is rounded up to 1024.0 is one of the next unit
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    raise AssertionError("the last unit takes all")
