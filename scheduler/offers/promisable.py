"""What the scheduler answers where an offer asks what it would promise. Times are unix seconds."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.data_way import HERE, Travel


class Promisable(NamedTuple):
    """The first run of one way that the scheduler would promise."""

    start_s: float
    end_s: float
    """Upper end, by which it is held against the deadline."""
    data: Travel = HERE
    """Of which its data are on their way there."""
    node: str = ""
    """Where that is; empty: of several nodes it is not decided which."""
