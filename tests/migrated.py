"""A database that has every table and no row but those of the migrations: made once for a run of tests, then copied.

The migrations take some seconds of the processor, more than most stacks need for all else at their start. Each of
several test processes would spend them, and each installation that a test makes. One process alone (no xdist) makes no
such database: what starts there brings its own up to date, as at people's.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import REPOSITORY, TEMPLATE, database_copied, database_fresh

FILE = "db.sqlite3"


class Migrated:
    """The database of a run, for all its processes."""

    def __init__(self, folder: Path) -> None:
        """Make it in this folder, unless another process did."""
        self._home, done = folder / "migrated", folder / "migrated.done"
        with (folder / "migrated.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                _migrate(self._home)
                done.touch()

    def settle(self, vendor: str, options: dict[str, Any]) -> None:
        """Have Django's database of the tests begin as a copy; `options`: its settings in `TEST`."""
        if vendor == "postgresql":
            options["TEMPLATE"] = TEMPLATE
        else:
            shutil.copyfile(self._home / FILE, options["NAME"])

    def give(self, home: Path) -> Path:
        """Have the installation that will start in this home find its tables, unless it started before."""
        if home.exists():
            return home
        if os.environ.get("DLH_TEST_DATABASE_URL"):
            database_copied(home)
        else:
            home.mkdir(parents=True)
            shutil.copyfile(self._home / FILE, home / FILE)
        return home


def migrated_for(tmp_path_factory: pytest.TempPathFactory) -> Migrated | None:
    """The database of this run; None where one process runs all tests."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return None
    return Migrated(tmp_path_factory.getbasetemp().parent)


def _migrate(home: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DLH_")}
    own = {"DLH_HOME": str(home), "DJANGO_SETTINGS_MODULE": "harness.settings", **database_fresh(TEMPLATE)}
    command = [sys.executable, "manage.py", "migrate", "--verbosity", "0", "--skip-checks"]
    subprocess.run(command, cwd=REPOSITORY, env={**kept, **own}, check=True)
