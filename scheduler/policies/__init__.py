"""Policies by name."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.policies.deadline_energy import DeadlineEnergy, deadline_only
from scheduler.policies.edf import Edf
from scheduler.policies.edf_widest import EdfWidest
from scheduler.policies.fair_share import FairShare
from scheduler.policies.fifo import Fifo
from scheduler.types import Policy

_POLICIES: dict[str, Callable[[], Policy]] = {
    "deadline": deadline_only,
    "deadline_energy": DeadlineEnergy,
    "edf": Edf,
    "edf_widest": EdfWidest,
    "fair_share": FairShare,
    "fifo": Fifo,
}


def names() -> tuple[str, ...]:
    """All policies."""
    return tuple(sorted(_POLICIES))


def policy_of(name: str) -> Policy:
    """The policy with its usual settings. Raises `ValueError` for a name that does not exist."""
    try:
        return _POLICIES[name]()
    except KeyError:
        raise ValueError(f"no policy is called {name!r}: there are {', '.join(names())}") from None
