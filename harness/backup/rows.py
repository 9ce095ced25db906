"""The database as JSON lines that either database takes: one line names a table's fields, one line is a row.

Times keep their microseconds, JSON stays JSON. Sessions are left out: people sign in again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, BinaryIO

from django.apps import apps
from django.apps.registry import Apps
from django.core.management.color import no_style
from django.db import connection, models, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

SKIPPED = {"sessions.session", "accounts.browsersession"}
_BATCH_ROWS = 1000
_OURS = "harness."
GONE = frozenset({("estimates", "0006_offer_shown")})
"""Migrations that these sources no longer hold, and that a database may have: one that was taken back, or was deleted
once another stood for it. Whoever deletes one names it here, or nothing starts on databases that have it."""

Rows = Callable[[int], None]
"""Called with the rows that are done so far."""


def _unheard(done: int) -> None:
    """Nobody wants to know."""


class RowsError(Exception):
    """The rows do not fit this database."""


def tables(registry: Apps = apps) -> list[type[models.Model]]:
    """Every table that is kept, those of many-to-many fields too."""
    found = registry.get_models(include_auto_created=True)
    return [model for model in found if model._meta.managed and not model._meta.proxy and _label(model) not in SKIPPED]


def _label(model: type[models.Model]) -> str:
    return model._meta.label_lower


def migrations_applied() -> list[str]:
    """`app.name` of each, in order of names, without those of `GONE`; one that stands for others is left out, too: it
    makes no other tables."""
    applied, stand_ins = MigrationRecorder(connection).applied_migrations(), MigrationLoader(None).replacements
    return sorted(".".join(key) for key in applied if key not in stand_ins and key not in GONE)


def migrations_missing() -> bool:
    """Whether this version has some that the database has not."""
    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def migrations_unknown() -> list[str]:
    """`app.name` of those of our own apps that the database has and these sources, which likely are older, have not.

    Other packages may replace theirs between releases of their own, which a newer start need not know.
    """
    loader = MigrationLoader(None)
    known = GONE.union(loader.disk_migrations, *(one.replaces for one in loader.disk_migrations.values()))
    ours = {label for label in loader.migrated_apps if apps.get_app_config(label).name.startswith(_OURS)}
    applied = MigrationRecorder(connection).applied_migrations()
    return sorted(".".join(key) for key in set(applied) - known if key[0] in ours)


@contextmanager
def snapshot() -> Iterator[None]:
    """All reads in the block see one moment; nobody is kept from writing."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("BEGIN DEFERRED")
            cursor.execute("SELECT COUNT(*) FROM django_migrations")
        try:
            yield
        finally:
            with connection.cursor() as cursor:
                cursor.execute("ROLLBACK")
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            cursor.execute("SELECT COUNT(*) FROM django_migrations")
        yield


def rows_count() -> int:
    """Of all tables that are kept."""
    return sum(model._base_manager.count() for model in tables())


def rows_dump(out: BinaryIO, told: Rows = _unheard) -> dict[str, int]:
    """Write every row; return how many each table has."""
    counts: dict[str, int] = {}
    for model in tables():
        label, count = _label(model), 0
        names = [field.attname for field in model._meta.concrete_fields]
        out.write(json.dumps({"table": label, "fields": names}).encode() + b"\n")
        for row in model._base_manager.order_by("pk").values_list(*names).iterator(2000):
            out.write(json.dumps(row, default=_plain, separators=(",", ":")).encode() + b"\n")
            count += 1
            if count % _BATCH_ROWS == 0:
                told(sum(counts.values()) + count)
        counts[label] = count
    return counts


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"no JSON for {type(value).__name__}")


def rows_load(lines: Iterable[bytes], told: Rows = _unheard, *, registry: Apps = apps) -> dict[str, int]:
    """Replace every row of an empty, migrated database, in one transaction. Raises `RowsError`.

    `registry`: the models of the sources that wrote the rows, where these are others.
    """
    known = {_label(model): model for model in tables(registry)}
    counts: dict[str, int] = {}
    with transaction.atomic():
        _clear(known.values())
        for label, names, rows in _batches(lines):
            model = known.get(label)
            if model is None or sorted(names) != sorted(field.attname for field in model._meta.concrete_fields):
                raise RowsError(f"this version has no such table: {label} with {', '.join(names)}")
            _insert(model, names, rows)
            counts[label] = counts.get(label, 0) + len(rows)
            told(sum(counts.values()))
        connection.check_constraints()
        with connection.cursor() as cursor:
            for statement in connection.ops.sequence_reset_sql(no_style(), list(known.values())):
                cursor.execute(statement)
    return counts


def _clear(found: Iterable[type[models.Model]]) -> None:
    """What the migrations themselves put in; order does not matter, references are checked at the end."""
    with connection.cursor() as cursor:
        for model in found:
            cursor.execute(f"DELETE FROM {connection.ops.quote_name(model._meta.db_table)}")  # noqa: S608


def _batches(lines: Iterable[bytes]) -> Iterator[tuple[str, list[str], list[list[Any]]]]:
    label = ""
    names: list[str] = []
    rows: list[list[Any]] = []
    for line in lines:
        body = json.loads(line)
        if isinstance(body, dict) or len(rows) >= _BATCH_ROWS:
            if label:
                yield label, names, rows
            rows = []
        if isinstance(body, dict):
            label, names = str(body["table"]), list(body["fields"])
        else:
            rows.append(body)
    if label:
        yield label, names, rows


def _insert(model: type[models.Model], names: list[str], rows: list[list[Any]]) -> None:
    if not rows:
        return
    by_name = {field.attname: field for field in model._meta.concrete_fields}
    fields = [by_name[name] for name in names]
    quote = connection.ops.quote_name
    columns = ", ".join(quote(str(field.column)) for field in fields)
    marks = ", ".join(["%s"] * len(fields))
    values = [
        [field.get_db_prep_save(_python(field, value), connection) for field, value in zip(fields, row, strict=True)]
        for row in rows
    ]
    with connection.cursor() as cursor:
        table = quote(model._meta.db_table)
        cursor.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", values)  # noqa: S608


def _python(field: models.Field[Any, Any], value: Any) -> Any:
    return value if isinstance(field, models.JSONField) else field.to_python(value)
