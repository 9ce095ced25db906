"""Something between this node and the portal that cuts off large requests without a word.

It looks like a portal that is away, and never ends.
"""

from __future__ import annotations

from worker.transfer.portal import Portal, PortalAway, PortalCut, PortalRefused
from worker.words import size_words

BREAKS_MIN = 3
"""One may be a connection that the portal had closed meanwhile, or a portal that is started anew."""
SMALL_BYTES = 1 << 10
"""A request that nothing cuts off for its size."""
PROXY_STEP = "Let the proxy before the portal take requests of 16 MiB (nginx: client_max_body_size)."


class Breaks:
    """Counts requests of one size that broke off on end."""

    def __init__(self, portal: Portal) -> None:
        self._portal = portal
        self._count = self._bytes = 0

    def none(self) -> None:
        """A request got through."""
        self._count = 0

    def words(self, away: PortalAway, size_bytes: int) -> str:
        """What to say of a request with so large a body that got no answer; empty where nothing speaks for its size."""
        if not isinstance(away, PortalCut) or size_bytes <= SMALL_BYTES:
            self._count = 0
            return ""
        self._count = self._count + 1 if size_bytes == self._bytes else 1
        self._bytes = size_bytes
        if self._count < BREAKS_MIN or not self._small_pass():
            return ""
        size = size_words(size_bytes)
        return (
            f"something between the node and the portal cuts off requests of {size}, while small ones are answered. "
            f"{PROXY_STEP} It is tried again until then."
        )

    def _small_pass(self) -> bool:
        try:
            self._portal.send("POST", "/probe", bytes(SMALL_BYTES))
        except PortalRefused:
            return True  # an answer, too
        except PortalAway:
            return False
        return True
