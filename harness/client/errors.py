"""What can go wrong between a program and the portal."""

from __future__ import annotations

from typing import Any


class ClientError(Exception):
    """Base: `to_dict()` has the shape of the API's own errors."""

    code = "client"

    def __init__(self, message: str, *, hint: str = "", code: str = "", field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.field = field
        self.details: Any = None
        self.code = code or self.code

    def to_dict(self) -> dict[str, Any]:
        """code, message, hint, field, details."""
        names = ("code", "message", "hint", "field", "details")
        return {name: getattr(self, name) for name in names}


class ApiError(ClientError):
    """The portal refused: `status` is the HTTP status."""

    code = "error"

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(
            str(body.get("message") or f"The portal answered {status}."),
            hint=str(body.get("hint") or ""),
            code=str(body.get("code") or "error"),
            field=body.get("field"),
        )
        self.status = status
        self.details = body.get("details")


class Unreachable(ClientError):
    """The portal does not answer, or what answers is no portal."""

    code = "unreachable"


class BadInput(ClientError):
    """What the person gave cannot be used: a file that is missing, an option out of place."""

    code = "bad_input"


class NotSignedIn(ClientError):
    """There is no token to send."""

    code = "not_signed_in"


class WaitTimeout(ClientError):
    """What was waited for did not happen in time."""

    code = "timeout"
