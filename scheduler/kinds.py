"""Names of kinds of device, as plans, offers and their words use them.

A device that is declared slower than it is counts as a kind of its own: nothing may be promised on it that only the
undeclared one keeps, and whoever reads the name reads the declaration with it. So do the devices of a node whose
finished jobs showed another pace than those on the other nodes (`scheduler.estimation.node_paces`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

Parts = tuple[tuple[str, int], ...]
"""A mixture of one kind of device: (model, how many of it), each model once."""
_MIXED = "mixed: "
_DECLARED = re.compile(rf"(?!{_MIXED})(?:(?P<model>.+), )?declared (?P<factor>\d+(?:\.\d+)?) times as slow", re.DOTALL)
_MEASURED = re.compile(
    rf"(?!{_MIXED})(?:(?P<model>.+), )?measured (?P<factor>\d+\.\d) times as (?P<way>slow|fast)", re.DOTALL
)


class Real(NamedTuple):
    """What a name of a kind of device says."""

    model_name: str
    """As its maker names it."""
    slowdown: float = 1.0
    """Declared."""
    pace: float = 1.0
    """Measured: everything takes so many times as long as on the others of its name."""

    @property
    def unpaced(self) -> str:
        """The name that it has where all nodes are alike."""
        return kind_name(self.model_name, self.slowdown)


def kind_name(model_name: str, slowdown: float = 1.0, pace: float = 1.0) -> str:
    """`Xeon`; `Xeon, measured 1.4 times as slow`; `Xeon, declared 3 times as slow`.

    `slowdown`: >= 1, as an admin declared it. `pace`: 1, or as `node_paces.coarse` has it, to a tenth.
    """
    said = [model_name] if model_name else []
    if pace != 1.0:
        said.append(f"measured {pace_words(pace)}")
    if slowdown > 1.0:
        factor = f"{slowdown:.6f}".rstrip("0").rstrip(".")
        said.append(f"declared {factor} times as slow")
    return ", ".join(said)


def pace_words(pace: float) -> str:
    """`1.4 times as slow`."""
    return f"{max(pace, 1.0 / pace):.1f} times as {'slow' if pace > 1.0 else 'fast'}"


def real_name(name: str) -> Real:
    """Inverse of `kind_name`."""
    slowdown, pace = 1.0, 1.0
    if found := _DECLARED.fullmatch(name):
        name, slowdown = found["model"] or "", float(found["factor"])
    if found := _MEASURED.fullmatch(name):
        factor = float(found["factor"])
        name, pace = found["model"] or "", factor if found["way"] == "slow" else 1.0 / factor
    return Real(name, slowdown, pace)


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
