"""What brings the data of a run to a node that does not have them, as an offer tells it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.data_way import Travel
from scheduler.estimation.values import Basis, Interval


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
    idle_w: float = 0.0
    """Of all devices of the way while they are held for the run and do nothing."""
    idle_basis: Basis = Basis.ASSUMED
    """Of these watts: modelled where such devices were read idle."""
    likely_s: float = 0.0
    """Middle of what is left of it once they are held, where it may be sent ahead."""

    @property
    def way(self) -> Travel:
        """To `node`."""
        return Travel(self.seconds, self.high_s)

    @property
    def held_j(self) -> Interval:
        """What the devices draw meanwhile: a job that holds them is charged for it."""
        ends_s = (min(self.low_s, self.likely_s), self.likely_s, max(self.high_s, self.likely_s))
        return Interval(low=ends_s[0], mid=ends_s[1], high=ends_s[2]).scaled(self.idle_w)

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> Bringing:
        """From plain values; an offer that was made before data counted has none, and one of before their way had a
        range one of no width. Raises `TypeError`, `ValueError`."""
        basis, idle_basis = body.get("basis"), Basis(body.get("idle_basis", Basis.ASSUMED))
        ends = {"high_s": body.get("seconds", 0.0), "low_s": body.get("least_s", 0.0)}
        return Bringing(**{**ends, **body, "basis": Basis(basis) if basis else None, "idle_basis": idle_basis})


NOTHING_BROUGHT = Bringing()
