"""What brings the data of a run to a node that does not have them, as an offer tells it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.data_way import Travel
from scheduler.estimation.values import Basis


@dataclass(frozen=True, kw_only=True)
class Bringing:
    """Before the run, on the devices that it has got."""

    seconds: float = 0.0
    """Middle; 0: the data are there."""
    high_s: float = 0.0
    """Upper end."""
    least_s: float = 0.0
    """Middle to the one of the nodes that it may get where that is soonest ..."""
    low_s: float = 0.0
    """... and the lower end of that."""
    size_bytes: int = 0
    node: str = ""
    """To which it takes `seconds`, the longest."""
    basis: Basis | None = None
    """Of the rate: measured at former fetches of that node, else assumed; None: nothing is brought."""

    @property
    def way(self) -> Travel:
        """To `node`."""
        return Travel(self.seconds, self.high_s)

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> Bringing:
        """From plain values; an offer that was made before data counted has none, and one of before their way had a
        range one of no width. Raises `TypeError`, `ValueError`."""
        basis = body.get("basis")
        ends = {"high_s": body.get("seconds", 0.0), "low_s": body.get("least_s", 0.0)}
        return Bringing(**{**ends, **body, "basis": Basis(basis) if basis else None})
