"""Why nothing arrives from an address, in words for the person who gave it."""

from __future__ import annotations

from typing import Any


class FetchTrouble(Exception):
    """It broke off, and may go on when it is tried again."""

    def __init__(self, code: str, message: str, hint: str = "", *, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.wait_s = code, message, hint, wait_s
        """`wait_s`: the server asks to be left alone for so long."""

    def to_dict(self) -> dict[str, Any]:
        """As it is stored and shown."""
        return {"code": self.code, "message": self.message, "hint": self.hint}


class FetchRefused(FetchTrouble):
    """Trying again by itself would not help."""


class FetchChanged(FetchTrouble):
    """The file at the address is another one now, or what can be had of it does not fit what has arrived."""
