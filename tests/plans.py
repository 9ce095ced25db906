"""How the database would answer what a piece of code asks it: which tables it would read from end to end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection

_EXPLAIN = {"sqlite": "EXPLAIN QUERY PLAN", "postgresql": "EXPLAIN"}
_WHOLE = {"sqlite": re.compile(r"SCAN (\w+)$"), "postgresql": re.compile(r"Seq Scan on (\w+)")}


@contextmanager
def tables_read_whole() -> Iterator[set[str]]:
    """Fills with the names of tables that a statement within reads row by row because no index fits it.

    Within a transaction: PostgreSQL reads tables of few rows so, unless it is told for the transaction not to.
    """
    found: set[str] = set()

    def look(execute: Any, sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if sql.startswith(("SELECT", "UPDATE", "DELETE")):
            found.update(_read_whole(sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(look):
        yield found


def _read_whole(sql: str, params: Any) -> Iterator[str]:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"{_EXPLAIN[connection.vendor]} {sql}", params)
        lines = [str(row[-1]) for row in cursor.fetchall()]
    for line in lines:
        if match := _WHOLE[connection.vendor].search(line):
            alias = re.search(rf'"(\w+)" {match.group(1)}\b', sql)
            yield alias.group(1) if alias else match.group(1)
