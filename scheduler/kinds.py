"""Names of kinds of device, as plans, offers and their words use them.

A device that is declared slower than it is counts as a kind of its own: nothing may be promised on it that only the
undeclared one keeps, and whoever reads the name reads the declaration with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

Parts = tuple[tuple[str, int], ...]
"""A mixture of one kind of device: (model, how many of it), each model once."""
_MIXED = "mixed: "
_DECLARED = re.compile(rf"(?!{_MIXED})(?:(?P<model>.+), )?declared (?P<factor>\d+(?:\.\d+)?) times as slow", re.DOTALL)


def declared_name(model_name: str, slowdown: float) -> str:
    """`Xeon`; `Xeon, declared 3 times as slow`. `slowdown`: >= 1, as an admin declared it."""
    if slowdown <= 1.0:
        return model_name
    factor = f"{slowdown:.6f}".rstrip("0").rstrip(".")
    return ", ".join(filter(None, (model_name, f"declared {factor} times as slow")))


def real_name(name: str) -> tuple[str, float]:
    """(kind of device as its maker names it, declared slowdown): inverse of `declared_name`."""
    found = _DECLARED.fullmatch(name)
    return (found["model"] or "", float(found["factor"])) if found else (name, 1.0)


def mixed_name(parts: Iterable[tuple[str, int]]) -> str:
    """`mixed: 2 Xeon + 1 EPYC`."""
    return _MIXED + " + ".join(f"{count} {model_name}" for model_name, count in parts)


def checked_parts(parts: Iterable[tuple[str, int]], count: int) -> Parts:
    """The mixture, from whatever held it. Raises `ValueError` where it is none of `count` devices."""
    found = tuple((str(name), int(number)) for name, number in parts)
    names = {name for name, _ in found}
    if len(names) != len(found) or len(found) < 2 or "" in names or min(number for _, number in found) < 1:
        raise ValueError(f"not a mixture of devices: {found}")
    if sum(number for _, number in found) != count:
        raise ValueError(f"a mixture of {found} has not {count} devices")
    return found
