"""What tells a database that is away from a fault of what was being done."""

from __future__ import annotations

import sqlite3

from django.db.utils import InterfaceError, OperationalError

DATABASE_AWAY = (OperationalError, InterfaceError)
"""Raised while the database restarts, is locked for longer than we wait, or has cut the connection: what was being done
is done again later, and nothing is to be dropped for it."""
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_PRIMARY = 0xFF
"""Of an extended SQLite code the primary one: the low byte."""


def is_away(error: BaseException) -> bool:
    """Whether a database refuses for a reason that passes by itself; a missing table does not."""
    if isinstance(error, InterfaceError):
        return True
    cause = error.__cause__
    if not isinstance(error, OperationalError) or cause is None:
        return False
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", 0) & _PRIMARY in _BUSY
    return type(cause).__module__.partition(".")[0] == "psycopg"
