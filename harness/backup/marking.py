"""A table of its own marks a PostgreSQL database that a restore has begun to fill: made first, removed last.

A database with it may be emptied by the next restore, and nothing starts on it. SQLite needs none: there the database
is a file, which is moved to its place when it is whole.
"""

from __future__ import annotations

from django.db import connection, transaction

TABLE = "dlh_restoring"
UNFINISHED = "a restore into this database was not finished: run it again, or empty the database"
_LOCK = 0x646C6872
"""Number of the lock that a restore holds as long as it is connected."""


def marked() -> bool:
    """Whether a restore into this database was not finished."""
    return connection.vendor == "postgresql" and TABLE in connection.introspection.table_names()


def mark() -> None:
    """Say so from now on."""
    _run(f"CREATE TABLE {TABLE} (begun_at timestamptz NOT NULL DEFAULT now())")


def unmark() -> None:
    """The restore is finished."""
    _run(f"DROP TABLE IF EXISTS {TABLE}")


def lock() -> bool:
    """Keep other restores from this database until this process ends; whether none was at it."""
    if connection.vendor != "postgresql":
        return True
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [_LOCK])
        return bool(cursor.fetchone()[0])


def tables_drop() -> None:
    """Empty a database that was empty when a restore came: all of it or nothing. SQLite's goes with its folder."""
    if connection.vendor != "postgresql":
        return
    with transaction.atomic():
        for name in connection.introspection.table_names():
            _run(f"DROP TABLE IF EXISTS {connection.ops.quote_name(name)} CASCADE")


def _run(statement: str) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(statement)
