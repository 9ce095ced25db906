"""What tests that commit have written is deleted after each, by the rows that there are.

Django empties every table, on PostgreSQL by TRUNCATE, which makes the files of each table and index anew; then it
fills in content types and permissions again, a query or two for each model. Both take longer than most tests.
"""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

KEPT = (ContentType, Permission)
"""Made by the migrations of all apps, and changed by no test."""


def rows_delete(connection: BaseDatabaseWrapper) -> None:
    """Empty every table of a model but `KEPT`; foreign keys are looked at when all is gone."""
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(f"SELECT '{name}' WHERE EXISTS (SELECT 1 FROM {name})" for name in _tables()))
        for (name,) in cursor.fetchall():
            cursor.execute(f"DELETE FROM {name}")


def _tables() -> list[str]:
    kept = {model._meta.db_table for model in KEPT}
    models = apps.get_models(include_auto_created=True)
    return sorted({model._meta.db_table for model in models if model._meta.managed} - kept)


def fixture_teardown(case: Any) -> None:
    """In place of `TransactionTestCase._fixture_teardown`."""
    for name in case._databases_names(include_mirrors=False):
        rows_delete(connections[name])


APART = 10_000
"""More rows than the tests of one process ever put into a table."""


def numbers_apart(connection: BaseDatabaseWrapper) -> None:
    """Have each table number its rows from another start, of which none is 1.

    In fresh tables the first project, job and attempt are all number 1: a number of one taken for that of another would
    pass, as would a test that counts on an order of the tests.
    """
    numbered = [model for model in apps.get_models(include_auto_created=True) if _is_numbered(model)]
    with connection.cursor() as cursor:
        for place, model in enumerate(numbered, 1):
            _number_from(connection, cursor, model, place * APART + 1)


def _is_numbered(model: type[models.Model]) -> bool:
    return isinstance(model._meta.pk, models.AutoField) and bool(model._meta.managed) and model not in KEPT


def _number_from(connection: BaseDatabaseWrapper, cursor: Any, model: type[models.Model], start: int) -> None:
    table = model._meta.db_table
    if connection.vendor == "postgresql":
        cursor.execute(f"SELECT setval(pg_get_serial_sequence('{table}', '{model._meta.pk.column}'), {start}, false)")
    else:
        cursor.execute(f"DELETE FROM sqlite_sequence WHERE name = '{table}'")
        cursor.execute(f"INSERT INTO sqlite_sequence (name, seq) VALUES ('{table}', {start - 1})")
