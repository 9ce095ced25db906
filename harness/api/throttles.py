"""How often one person may ask for what costs a node's time."""

from __future__ import annotations

from ninja.throttling import UserRateThrottle


class PerMinute(UserRateThrottle):
    """At most so many requests a minute of one person; each `scope` is counted alone."""

    def __init__(self, scope: str, requests_max: int) -> None:
        self.scope = scope
        super().__init__(f"{requests_max}/m")
