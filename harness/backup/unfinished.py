"""Before an installation starts in a home, or makes anything there: what a restore left is seen to, unless it is half.

Whoever is refused here may run the restore again, and that finds the home as it left it. Knows no Django.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.backup.archive import BackupError
from harness.backup.process import LoadingError, loading_run
from harness.backup.staging import Staging, settle, unfinished
from harness.env import env_text


def home_settle(home: Path, store: Path) -> None:
    """Keep what a whole restore has moved into the home, and clear away what one left that had moved nothing yet.

    Raises `BackupError` where a restore goes on, or was not finished; all is as it was then.
    """

    def check(one: Staging) -> None:
        # The store's files are moved before the home's, and settled after them.
        if not one.names and Staging(store).names:
            raise BackupError(unfinished(home))
        if env_text("DLH_DATABASE_URL") and (why := _database_unfinished(one, store)):
            raise BackupError(why)

    settle(home, check)


def _database_unfinished(one: Staging, store: Path) -> str:
    """Why nothing may start on a database that is no file of the home; else empty. Raises `BackupError`."""
    told: dict[str, Any] = {}
    try:
        # with a home of its own: the settings make folders
        loading_run(["--look"], home=one.own / "home", store=store, hear=lambda line: told.update(json.loads(line)))
    except LoadingError as error:
        raise BackupError(f"the database does not tell whether a restore was finished: {error}") from error
    return str(told["unfinished"])
