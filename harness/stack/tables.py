"""Portal and control of one host or cluster start by themselves: they wait here until `prepare` has made the tables.

A portal of a new release on tables of the old one would answer people with errors, and a control would stumble over
every row, while the old ones could still have served.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping

WAIT_S = 2.0
SAY_EVERY_S = 30.0


def tables_await(
    environment: Mapping[str, str],
    part: str,
    *,
    lack: Callable[[], str] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return once the database has every migration of this release; say on standard error what is waited for.

    `lack`: what keeps the part from starting, empty for nothing; by default the database is asked.
    """
    ask = lack or _asker(environment)
    said, waited_s = "", 0.0
    while why := ask():
        if why != said or waited_s >= SAY_EVERY_S:
            sys.stderr.write(f"{part} waits: {why}.\n")
            sys.stderr.flush()
            said, waited_s = why, 0.0
        sleep(WAIT_S)
        waited_s += WAIT_S


def _asker(environment: Mapping[str, str]) -> Callable[[], str]:
    """Asks the database of these settings; this process takes them on."""
    for name in set(os.environ) - set(environment):  # a URL_FILE would win over the URL with its password
        del os.environ[name]
    os.environ.update(environment)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "harness.settings")
    import django

    django.setup()
    from django.db import Error, connection

    from harness.backup.marking import UNFINISHED, marked
    from harness.backup.rows import migrations_missing

    def ask() -> str:
        try:
            if marked():
                return UNFINISHED
            return "the database is older than this release; run `prepare` once" if migrations_missing() else ""
        except Error as error:
            connection.close()
            return f"the database does not answer: {' '.join(str(error).split())}"

    return ask
