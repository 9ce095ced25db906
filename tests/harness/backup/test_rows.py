"""Rows as lines: what is loaded is what was there, in either database."""

import io
import json

import pytest
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from harness.accounts.models import AuditEvent, Project, User
from harness.accounts.services import user_create
from harness.backup.rows import RowsError, migrations_applied, rows_dump, rows_load, snapshot, tables
from harness.jobs.models import Job, JobEvent

pytestmark = pytest.mark.django_db(transaction=True)


def dumped():
    out = io.BytesIO()
    with snapshot():
        counts = rows_dump(out)
    return out.getvalue().splitlines(keepends=True), counts


def everything():
    return {model: list(model._base_manager.order_by("pk").values_list()) for model in tables()}


@pytest.fixture
def restored_types():
    """The rows of content types, which migrations make, are this database's own again."""
    before = list(ContentType.objects.order_by("pk").values())
    yield
    assert list(ContentType.objects.order_by("pk").values()) == before


def test_everything_comes_back_as_it_was_and_what_came_later_is_gone(job, people, restored_types):
    job.tags = ["a", {"b": [1.5, None, "ü\u2028"]}]
    job.save()
    lines, counts = dumped()
    before = everything()
    assert counts["jobs.job"] == 1 and counts["accounts.user"] == 5
    JobEvent.objects.all().delete()
    Job.objects.update(name="changed", queued_at=None)
    Project.objects.create(name="Later", slug="later")
    assert rows_load(lines) == counts
    assert everything() == before


def test_new_rows_get_new_numbers_after_a_load(people, restored_types):
    lines, _ = dumped()
    rows_load(lines)
    highest = max(User.objects.values_list("pk", flat=True))
    made, _ = user_create(actor=None, username="newcomer")
    assert made.pk > highest


def test_a_dump_with_a_hole_changes_nothing(people, restored_types):
    lines, _ = dumped()
    users = next(number for number, line in enumerate(lines) if b'"accounts.user"' in line)
    before = everything()
    with pytest.raises(Exception, match=r"(?i)foreign key|constraint"):
        rows_load(lines[: users + 1] + lines[users + 2 :])
    assert everything() == before


def test_tables_of_another_version_are_refused(people):
    before = everything()
    strange = json.dumps({"table": "jobs.job", "fields": ["id", "colour"]}).encode() + b"\n"
    with pytest.raises(RowsError, match="colour"):
        rows_load([strange])
    assert everything() == before


def test_a_snapshot_sees_one_moment_and_keeps_nobody_from_writing(people):
    from threading import Thread

    def write():
        try:
            AuditEvent.objects.create(action="user_create", target="x")
        finally:
            connection.close()

    with snapshot():
        before = AuditEvent.objects.count()
        other = Thread(target=write)
        other.start()
        other.join(180)
        assert not other.is_alive()
        assert AuditEvent.objects.count() == before
    assert AuditEvent.objects.count() == before + 1


def test_a_migration_that_stands_for_others_keeps_no_backup_from_before_it_away():
    applied = MigrationRecorder(connection).applied_migrations()
    squashed = ("pool", "0001_squashed_0013_planned_until")
    assert squashed in applied
    told = migrations_applied()
    assert "pool.0013_planned_until" in told and ".".join(squashed) not in told
    assert len(told) == sum("_squashed_" not in name for _, name in applied)
