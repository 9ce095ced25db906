"""First steps inside Django: what they refuse to begin on."""

from __future__ import annotations

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from harness.backup.rows import migrations_unknown
from harness.errors import Conflict
from harness.stack.bootstrap import bootstrap

pytestmark = pytest.mark.django_db


def test_older_sources_do_not_start_on_a_database_that_newer_ones_have_changed():
    """They would fail at the first row of a table that has a column more, or leave out what it holds."""
    from harness.accounts.models import User

    MigrationRecorder(connection).record_applied("jobs", "9999_from_the_future")
    with pytest.raises(Conflict, match=r"by newer sources, .* changed: jobs\.9999_from_the_future\.") as refused:
        bootstrap()
    assert "restore a backup from before the update" in refused.value.hint
    assert not User.objects.exists()


def test_migrations_that_others_stand_for_and_those_of_a_part_that_is_gone_are_not_newer():
    recorder = MigrationRecorder(connection)
    recorder.record_applied("accounts", "0001_initial")
    recorder.record_applied("a_part_of_once", "0001_initial")
    assert migrations_unknown() == []
