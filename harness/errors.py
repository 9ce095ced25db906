"""The one tree of errors that services raise and that API and pages show: what, why, what to do."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from harness.ids import new_id


class HarnessError(Exception):
    """The request cannot be done, and it is not our fault. `status` is the HTTP status it becomes."""

    status = 400
    default_code = "error"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        field: str | None = None,
        code: str = "",
        details: Any = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        """What to do next, in one sentence."""
        self.field = field
        """Dotted name of the field at fault."""
        self.code = code or self.default_code
        self.details = details

    def to_dict(self) -> dict[str, Any]:
        """Body of the API's `error` member."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "field": self.field,
            "details": self.details,
        }


class Invalid(HarnessError):
    """A value is wrong."""

    status = 422
    default_code = "invalid"


class Unauthenticated(HarnessError):
    """Nobody is signed in, or not any more."""

    status = 401
    default_code = "unauthenticated"


class Forbidden(HarnessError):
    """The person may see this, but not do that."""

    status = 403
    default_code = "forbidden"


class NotFound(HarnessError):
    """There is no such thing, or the person must not know that there is."""

    status = 404
    default_code = "not_found"


class Conflict(HarnessError):
    """The thing is in a state in which this cannot be done."""

    status = 409
    default_code = "conflict"


class TooLarge(HarnessError):
    """More bytes than are allowed."""

    status = 413
    default_code = "too_large"


class TooMany(HarnessError):
    """More at once than one person may have."""

    status = 429
    default_code = "too_many"


class TooSlow(HarnessError):
    """What is sent does not come."""

    status = 408
    default_code = "too_slow"


class NoSpace(HarnessError):
    """The disk of this installation is full."""

    status = 507
    default_code = "disk_full"


class Unavailable(HarnessError):
    """A part of the installation that this needs is not running."""

    status = 503
    default_code = "unavailable"


def fault_told(log: logging.Logger, error: Exception, doing: str, *, where: str = "the log of control") -> str:
    """Log a fault of ours with all of it; return a few words for whoever waits for what it broke.

    These have the exception's class, and an id that finds the line in the log (`where`): its text may name paths of
    this machine, and values of rows that are not for everybody.
    """
    mark = new_id()
    log.error("%s [id %s]", doing, mark, exc_info=error)
    return f"{type(error).__name__} (see {where}, id {mark})"


EXIT_INTERRUPTED = 130
"""Of a command that Ctrl-C has ended, as shells have it."""


def refusal_write(text: str, *, lead: str, code: str, as_json: bool) -> None:
    """Tell why a command cannot go on: in words on standard error, or as the API does on standard output.

    `text` says what is wrong and, after a semicolon, what to do.
    """
    if not as_json:
        sys.stderr.write(f"{lead}: {text}.\n")
        return
    message, _, hint = text.partition("; ")
    error = HarnessError(message, hint=hint, code=code)
    sys.stdout.write(json.dumps({"error": error.to_dict()}) + "\n")
