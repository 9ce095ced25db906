"""Portal and control wait for the tables of their release, and say what for."""

import os

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.db.utils import OperationalError

from harness.stack import part, tables
from tests.harness.stack.test_part import WEB


def awaited(answers):
    waits = []
    tables.tables_await({}, "control", lack=iter(answers).__next__, sleep=waits.append)
    return sum(waits)


def test_what_is_waited_for_is_said_once_and_then_now_and_then(capsys):
    away, old = "the database does not answer", "the database is older"
    assert awaited([away, away, old, ""]) == 3 * tables.WAIT_S
    assert capsys.readouterr().err.splitlines() == [f"control waits: {why}." for why in (away, old)]
    long = int(tables.SAY_EVERY_S / tables.WAIT_S) + 1
    awaited([old] * long + [""])
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_a_part_whose_tables_are_there_starts_at_once_and_says_nothing(capsys):
    assert awaited([""]) == 0
    assert not capsys.readouterr().err


@pytest.mark.django_db
def test_the_database_is_asked_for_every_migration_of_this_release(monkeypatch):
    ask = tables._asker(dict(os.environ))
    assert ask() == ""
    recorder = MigrationRecorder(connection)
    recorder.record_unapplied("pool", max(name for app, name in recorder.applied_migrations() if app == "pool"))
    assert "run `prepare`" in ask()

    def refuse(_executor):
        raise OperationalError("connection refused\n\tIs the server running?")

    monkeypatch.setattr("harness.backup.rows.MigrationExecutor", refuse)
    monkeypatch.setattr(connection, "close", lambda: None)  # the test's own
    assert ask() == "the database does not answer: connection refused Is the server running?"


@pytest.mark.parametrize(("name", "waits"), [("portal", True), ("control", True), ("prepare", False), ("store", False)])
def test_only_portal_and_control_wait(name, waits, monkeypatch):
    for variable, value in {**WEB, "DLH_S3_URL": "s3://pool", "DLH_S3_KEY": "k", "DLH_S3_SECRET": "s"}.items():
        monkeypatch.setenv(variable, value)
    done = []
    monkeypatch.setattr(part, "tables_await", lambda settled, named: done.append((named, settled["DLH_STORE"])))
    monkeypatch.setattr(os, "execve", lambda *_: done.append("becomes it"))
    part.main([name])
    assert done == [*([(name, "/store")] if waits else []), "becomes it"]
