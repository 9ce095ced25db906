"""`python -m harness.backup.loading ROWS MANIFEST`: fills the empty database of this process's home with a backup.

Started by `harness.backup.restoring`; lines of JSON say how many rows are done, the last one is the answer.
Where it fails, its last line of errors says why. PostgreSQL stays marked until `--finish`; `--empty` empties a database
that is marked, and `--look` says whether one is.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

NUMBERS_BEGIN_S = 1_767_225_600
"""2026-01-01, from which the minutes count that attempts are numbered by after a restore."""
ATTEMPTS_SINCE = 1000
"""More than a job began after its backup was made; for where the clock is wrong."""


def load(rows: Path, manifest: dict[str, Any]) -> dict[str, int]:
    """All or nothing. Raises `BackupError`."""
    from django.core.management import call_command
    from django.db import DatabaseError, transaction

    from harness.backup.archive import BackupError
    from harness.backup.earlier import tables_make
    from harness.backup.marking import mark, tables_drop
    from harness.backup.rows import RowsError, rows_load

    empty()
    try:
        mark()
        registry = tables_make(manifest["migrations"])
        with transaction.atomic(), rows.open("rb") as lines:
            counts = rows_load(lines, _tell, registry=registry)
            if counts != manifest.get("rows"):
                raise RowsError("the backup holds other rows than its manifest says")
        call_command("migrate", interactive=False, verbosity=0)
        with transaction.atomic():
            lost = attempts_lose()
            nodes_go()
            fences_raise(time.time())
    except BaseException as error:
        tables_drop()
        if isinstance(error, RowsError | DatabaseError):
            raise BackupError(str(error).strip()) from error
        raise
    return {"rows": sum(counts.values()), "lost": lost}


def _tell(rows: int) -> None:
    sys.stdout.write(json.dumps({"done": rows}) + "\n")
    sys.stdout.flush()


def empty() -> None:
    """Empty a database that a killed restore left, and keep other restores from it.

    Raises `BackupError` where it holds anything else.
    """
    from django.db import connection

    from harness.backup.archive import BackupError
    from harness.backup.marking import lock, marked, tables_drop

    if not lock():
        raise BackupError("another restore is filling this database; wait until it has ended")
    if marked():
        tables_drop()
    if connection.introspection.table_names():
        raise BackupError("the database is not empty; nothing is overwritten: name an empty one by DLH_DATABASE_URL")


def attempts_lose() -> int:
    """Runs that were under way are on another machine: their jobs wait again, and go on from a checkpoint here."""
    from harness.jobs.control.attempts import attempt_end
    from harness.jobs.models import JobAttempt
    from worker.events import FailureCode, Outcome

    told = {"code": str(FailureCode.NODE_LOST), "message": "The installation was restored from a backup."}
    attempts = JobAttempt.objects.filter(ended_at=None)
    return sum(attempt_end(attempt, Outcome.LOST, told, forgiven=True) for attempt in attempts)


def nodes_go() -> None:
    """Nothing starts on a node that only the backup knows as up; whoever lives is up with its next heartbeat."""
    from harness.pool.models import Node
    from harness.pool.services import node_leave

    for name in Node.objects.values_list("name", flat=True):
        node_leave(name)


def fences_raise(now_s: float) -> None:
    """Attempts from now on have higher numbers than any that was begun after the backup was made.

    Nodes that ran on find us by themselves: were a number given twice, two copies of a job could write, or a node that
    has seen a higher one would refuse ours. Minutes count on where one backup is restored a second time, too.
    """
    from django.db.models import F
    from django.db.models.functions import Greatest

    from harness.jobs.models import Job
    from worker.states import JobState

    minutes = max(0, int(now_s - NUMBERS_BEGIN_S) // 60)
    Job.objects.exclude(state=JobState.SUCCEEDED).update(token=Greatest(F("token") + ATTEMPTS_SINCE, minutes))


def main() -> int:
    """Command line; see the module."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "harness.settings")
    import django

    django.setup()
    from harness.backup.archive import BackupError
    from harness.backup.marking import UNFINISHED, marked, unmark

    told: dict[str, Any] = {}
    try:
        if sys.argv[1] == "--empty":
            empty()
        elif sys.argv[1] == "--finish":
            unmark()
        elif sys.argv[1] == "--look":
            told = {"unfinished": UNFINISHED if marked() else ""}
        else:
            told = load(Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()))
    except BackupError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(json.dumps(told) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
