"""The database that tests on PostgreSQL are copied from is of this run, however long its server has been there."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.migrated import Migrated
from tests.postgres import database_made, database_of, server


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server of which the tests were told."""
    with server() as url:
        monkeypatch.setenv("DLH_TEST_DATABASE_URL", url)
        yield url


def tables(url: str) -> set[str]:
    with psycopg.connect(url) as database:
        found = database.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        return {name for (name,) in found}


def test_what_an_earlier_run_left_on_a_server_is_neither_copied_nor_taken_for_a_copy(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def migrate(command: list[str], *, env: dict[str, str], **_: Any) -> None:
        """The migrations of this run, in place of those of the sources."""
        made.append(env["DLH_DATABASE_URL"])
        with psycopg.connect(made[-1], autocommit=True) as database:
            database.execute(f"CREATE TABLE run_{len(made)} (id integer)")

    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        with monkeypatch.context() as patch:
            patch.setattr(subprocess, "run", migrate)
            run = Migrated(folder)
        run.give(tmp_path / "home")
        assert tables(made[-1]) == tables(database_of(tmp_path / "home")["DLH_DATABASE_URL"]) == {f"run_{number}"}


def test_an_installation_that_starts_again_finds_its_own_database(url: str) -> None:
    own = database_made("own")["DLH_DATABASE_URL"]
    with psycopg.connect(own, autocommit=True) as database:
        database.execute("CREATE TABLE kept (id integer)")
    assert tables(database_made("own")["DLH_DATABASE_URL"]) == {"kept"}
