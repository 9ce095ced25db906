"""What tests that commit have written is deleted after each, by the rows that there are.

Django empties every table, on PostgreSQL by TRUNCATE, which makes the files of each table and index anew; then it
fills in content types and permissions again, a query or two for each model. Both take longer than most tests.
"""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connections, transaction
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
