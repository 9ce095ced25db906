"""What brings the data of a run to a node that does not have them, as an offer tells it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.estimation.values import Basis


@dataclass(frozen=True, kw_only=True)
class Bringing:
    """Before the run, on the devices that it has got."""

    seconds: float = 0.0
    """0: the data are there."""
    least_s: float = 0.0
    """To the one of the nodes that it may get where that is soonest."""
    size_bytes: int = 0
    node: str = ""
    """To which it takes `seconds`, the longest."""
    basis: Basis | None = None
    """Of the rate: measured at former fetches of that node, else assumed; None: nothing is brought."""

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> Bringing:
        """From plain values; an offer that was made before data counted has none. Raises `TypeError`, `ValueError`."""
        basis = body.get("basis")
        return Bringing(**{**body, "basis": Basis(basis) if basis else None})
