"""An installation with something in it, its backup, and commands beside it."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from harness.env import REPOSITORY

DLH = "from harness.client.cli import main; main()"


def call(module, *arguments, **settings):
    """Run a module, or the lines of a program, in a session of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DLH_") and name != "REDIS_URL"}
    kept.pop("DJANGO_SETTINGS_MODULE", None)
    environment = {**kept, **{name: str(value) for name, value in settings.items()}}
    command = [sys.executable, "-c" if " " in module else "-m", module, *map(str, arguments)]
    return subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, start_new_session=True
    )


@pytest.fixture(autouse=True)
def own_database(monkeypatch):
    """What is restored goes into the home's own database, or one that the test names, never into that of all tests."""
    monkeypatch.delenv("DLH_DATABASE_URL", raising=False)


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """An installation that has been set up, with a file in its store."""
    home = tmp_path_factory.mktemp("first") / "home"
    done = call("harness.stack.bootstrap", DLH_HOME=home, DLH_REDIS_URL="redis://127.0.0.1:1/0")
    assert done.returncode == 0, done.stderr
    (home / "store/jobs/abc").mkdir(parents=True)
    (home / "store/jobs/abc/model").write_bytes(b"weights" * 1000)
    (home / "store/bucket").mkdir()
    (home / "store/bucket/state.json").write_text("{}")
    return home


@pytest.fixture(scope="session")
def backup(home, tmp_path_factory):
    file = tmp_path_factory.mktemp("backups") / "one.dlh"
    done = call("harness.backup", "make", file, "--json", DLH_HOME=home)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["secrets"] is False and told["rows"] > 3
    assert Path(told["path"]) == file and file.stat().st_mode & 0o077 == 0
    assert not list((home / "store").glob(".backup-*"))
    assert [path.name for path in file.parent.iterdir()] == ["one.dlh"]
    return file


def users(home):
    with sqlite3.connect(home / "db.sqlite3") as database:
        return database.execute("SELECT username, password, date_joined FROM accounts_user").fetchall()
