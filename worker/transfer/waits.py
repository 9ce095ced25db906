"""What people are told of a return that takes long, and that it goes on again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

WAITS = "waits"
"""Key in the data of a NOTE event: whether what a run made waits on its node (true), or comes again (false). Of notes
of anything else it is missing."""
RELEASE_S, RELEASE_AGAIN_S = 1.0, 60.0
"""What takes longer to return is done without the devices; said again now and then, should nobody have heard it."""
TELL_S, TELL_AGAIN_S, TELL_BACK_S = 30.0, 3600.0, 300.0
"""So long what a run made may wait before people are told why, then before they are told of another reason, and before
they are told once more after it had come again."""
_COMES = "What the run made is being returned to the store again."


class Waits:
    """Says what is to be said while what a run made is being returned."""

    def __init__(
        self, begin: str, tell: Callable[[dict[str, Any]], object], still: Callable[[], object], *, goes_on: bool
    ) -> None:
        """`begin`: of a sentence that a reason ends; `tell`: data of a NOTE event; `still`: called while it takes long.

        `goes_on`: another process has begun to return it, and may have said that it waits.
        """
        self._begin, self._tell, self._still, self._told = begin, tell, still, ""
        self._said_to_wait = goes_on
        self._tell_s, self._still_s = time.monotonic() + TELL_S, time.monotonic() + RELEASE_S

    def look(self, why: str, *, is_told: bool, arrives: bool) -> None:
        """`why` the portal takes nothing, empty while it does; `is_told`: somebody else has said that; `arrives`: it
        has just taken something."""
        now_s = time.monotonic()
        if now_s >= self._still_s:
            self._still()
            self._still_s = now_s + RELEASE_AGAIN_S
        self._said_to_wait = self._said_to_wait or is_told
        if why not in {"", self._told} and now_s >= self._tell_s:
            self._tell({"message": self._begin + why, WAITS: True})
            self._tell_s, self._told, self._said_to_wait = now_s + TELL_AGAIN_S, why, True
        elif not why and arrives and self._said_to_wait:
            self._tell({"message": _COMES, WAITS: False})
            self._tell_s, self._told, self._said_to_wait = now_s + TELL_BACK_S, "", False
