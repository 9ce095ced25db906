"""First steps inside Django: what they refuse to begin on."""

from __future__ import annotations

import pytest
from django.db import connection
from django.db.migrations import Migration
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from harness.backup.rows import migrations_applied, migrations_unknown
from harness.errors import Conflict
from harness.stack.bootstrap import bootstrap

pytestmark = pytest.mark.django_db


def test_older_sources_do_not_start_on_a_database_that_newer_ones_have_changed():
    """They would fail at the first row of a table that has a column more, or leave out what it holds."""
    from harness.accounts.models import User

    MigrationRecorder(connection).record_applied("jobs", "9999_from_the_future")
    with pytest.raises(Conflict, match=r"by other, likely newer, sources, .*: jobs\.9999_from_the_future\.") as refused:
        bootstrap()
    assert "restore a backup from before the update" in refused.value.hint
    assert not User.objects.exists()


def test_migrations_that_others_stand_for_and_those_of_a_part_that_is_gone_are_not_newer(
    monkeypatch: pytest.MonkeyPatch,
):
    load = MigrationLoader.load_disk

    def load_disk(loader: MigrationLoader) -> None:
        load(loader)
        stand_in = Migration("0001_squashed_0000_gone", "accounts")
        stand_in.replaces = [("accounts", "0000_gone")]
        loader.disk_migrations["accounts", "0001_squashed_0000_gone"] = stand_in

    recorder = MigrationRecorder(connection)
    recorder.record_applied("accounts", "0000_gone")
    recorder.record_applied("a_part_of_once", "0001_initial")
    assert migrations_unknown() == ["accounts.0000_gone"]
    monkeypatch.setattr(MigrationLoader, "load_disk", load_disk)
    assert migrations_unknown() == []


def test_migrations_of_other_packages_and_one_that_was_taken_back_are_not_newer():
    recorder = MigrationRecorder(connection)
    recorder.record_applied("otp_totp", "0009_of_another_release")
    recorder.record_applied("auth", "0099_of_another_release")
    recorder.record_applied("estimates", "0006_offer_shown")
    assert migrations_unknown() == []
    assert "estimates.0006_offer_shown" not in migrations_applied(), "no sources could restore such a backup"
