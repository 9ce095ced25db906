"""The tables of the sources that made a backup: rows go into those, which are brought up to date as a home's are."""

from __future__ import annotations

from collections.abc import Collection

from django.apps import apps
from django.apps.registry import Apps
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

from harness.backup.rows import RowsError

Node = tuple[str, str]
"""App and name of a migration."""


def tables_make(migrations: Collection[str]) -> Apps:
    """Make the tables of these migrations (`app.name`) in an empty database; return the models that they belong to.

    Raises `RowsError` where these sources do not know some of them.
    """
    known = MigrationLoader(None)
    ours = set(known.disk_migrations).difference(known.replacements)
    wanted: set[Node] = {(app, name) for app, _, name in (one.partition(".") for one in migrations)}
    if unknown := sorted(wanted - ours):
        shown = ", ".join(".".join(node) for node in unknown[:3])
        raise RowsError(
            f"these sources do not know tables of the backup ({shown}): update, or restore it with those that made it"
        )
    if wanted == ours:
        call_command("migrate", interactive=False, verbosity=0)
        return apps
    return _as_of(wanted)


def _as_of(wanted: set[Node]) -> Apps:
    executor = MigrationExecutor(connection)
    executor.loader = loader = MigrationLoader(connection, replace_migrations=False)
    for stand_in, migration in loader.replacements.items():
        replaced = set(migration.replaces)
        if replaced <= wanted:
            loader.graph.remove_replaced_nodes(stand_in, migration.replaces)
            wanted = wanted - replaced | {stand_in}
        else:  # it would make tables that are newer than the backup
            loader.graph.remove_replacement_node(stand_in, migration.replaces)
    later = loader.graph.nodes.keys() - wanted
    newest = [node for node in wanted if later >= {child.key for child in loader.graph.node_map[node].children}]
    executor.migrate(newest)
    return loader.project_state(newest).apps
