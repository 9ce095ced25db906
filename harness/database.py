"""What tells a database that is away from a fault of what was being done; many rows changed or deleted; words found in
any alphabet."""

from __future__ import annotations

import re
import sqlite3
import time
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model, QuerySet
from django.db.utils import InterfaceError, OperationalError

DATABASE_AWAY = (OperationalError, InterfaceError)
"""Raised while the database restarts, is locked for longer than we wait, or has cut the connection: what was being done
is done again later, and nothing is to be dropped for it."""
BATCH_ROWS = 2000
BREATH_S = 0.02
"""Between two batches others write."""
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


def passes_by_itself(error: BaseException) -> bool:
    """Whether what was being done may succeed later just as it is: the database is away, a disk full or not there, the
    memory short.

    Not all such causes pass: whoever tries again does so for a limited time.
    """
    return isinstance(error, (*DATABASE_AWAY, OSError, MemoryError))


def sqlite_like(connection: BaseDatabaseWrapper, **signal: object) -> None:
    """Have SQLite find words in both cases of every alphabet, as PostgreSQL does; its own `LIKE` knows those of A to Z.

    Receives `connection_created`.
    """
    if connection.vendor == "sqlite":
        connection.connection.create_function("like", 3, _is_like, deterministic=True)


def _is_like(pattern: str, value: object, escape: str) -> bool | None:
    return None if value is None else _expression(pattern, escape).fullmatch(str(value)) is not None


@lru_cache(maxsize=64)
def _expression(pattern: str, escape: str) -> re.Pattern[str]:
    """Of what is no search for words, as of an e-mail address at sign-in, no further letter passes for another."""
    parts, letters = [], iter(pattern)
    for letter in letters:
        if letter == escape:
            parts.append(re.escape(next(letters, "")))
        else:
            parts.append({"%": ".*", "_": "."}.get(letter) or re.escape(letter))
    alphabet = re.UNICODE if pattern.startswith("%") else re.ASCII
    return re.compile("".join(parts), re.IGNORECASE | re.DOTALL | alphabet)


def rows_delete(rows: QuerySet[Any]) -> int:
    """Delete a few thousand at a time, there may be millions: while SQLite deletes, nobody else can write. How many."""
    count = 0
    while gone := rows.filter(pk__in=rows.order_by().values("pk")[:BATCH_ROWS]).delete()[0]:
        count += gone
        time.sleep(BREATH_S)
    return count


def rows_update(model: type[Model], changes: Mapping[Any, Mapping[str, Any]]) -> None:
    """Set fields of rows by primary key, each row to values of its own.

    As `filter(pk=...).update(...)` for each, for less processor time: a statement is made once for all rows that change
    in the same fields. (`bulk_update` takes twice as much as single updates.)
    """
    alike: dict[tuple[str, ...], list[list[Any]]] = defaultdict(list)
    fields, key_field = {field.name: field for field in model._meta.concrete_fields}, model._meta.pk
    for key, values in changes.items():
        if values:
            prepared = [fields[name].get_db_prep_save(value, connection) for name, value in values.items()]
            alike[tuple(values)].append([*prepared, key_field.get_db_prep_save(key, connection)])
    with connection.cursor() as cursor:
        for names, rows in alike.items():
            columns = ", ".join(f"{_quoted(fields[name].column)} = %s" for name in names)
            # Names of tables and columns are our own; every value is a parameter.
            text = f"UPDATE {_quoted(model._meta.db_table)} SET {columns} WHERE {_quoted(key_field.column)} = %s"  # noqa: S608
            cursor.executemany(text, rows)


def _quoted(name: object) -> str:
    return connection.ops.quote_name(str(name))
