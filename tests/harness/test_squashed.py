"""Each squashed migration stands for all that were there before it, and leads to the same tables.

The earlier ones stay for databases that have some of them and not all.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState

APPS = ("accounts", "calibration", "estimates", "jobs", "pool", "rates")
PARTS = ("indexes", "constraints")


def models_of(state: ProjectState, app: str) -> dict[str, Any]:
    """Fields and options of each model of the app, in no order."""
    found = {}
    for (label, name), model in state.models.items():
        if label == app:
            fields = {field: made.deconstruct()[1:] for field, made in model.fields.items()}
            parts = {key: {part.name: part.deconstruct() for part in model.options[key]} for key in PARTS}
            rest = {key: value for key, value in model.options.items() if key not in PARTS}
            found[name] = (fields, parts, rest)
    return found


@pytest.mark.parametrize("app", APPS)
def test_it_makes_the_same_tables_as_those_it_stands_for(app: str) -> None:
    new, old = MigrationLoader(None), MigrationLoader(None, replace_migrations=False)
    (squashed,) = (found for (label, _), found in new.replacements.items() if label == app)
    last = squashed.replaces[-1]
    before = sorted(key for key in old.disk_migrations if key[0] == app and key <= last and key[1] != squashed.name)
    assert squashed.replaces == before
    made = models_of(new.project_state((app, squashed.name)), app)
    assert made and made == models_of(old.project_state(last), app)
