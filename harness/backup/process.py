"""Runs `harness.backup.loading` in a process of its own: Django is configured for one home, and the one meant here does
not exist yet. Knows no Django."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.backup.ending import Terminated
from harness.env import REPOSITORY

NO_BROKER = "redis://127.0.0.1:1/0"
"""Nobody listens there: what the rows' loading would tell others is for nobody."""
EMPTIED_S = 20.0
"""So long the database may take to be emptied again."""


class LoadingError(Exception):
    """The process failed; the text is its last line."""


def loading_run(
    arguments: Sequence[str], *, home: Path, store: Path, hear: Callable[[str], None], locks: Sequence[int] = ()
) -> None:
    """By these arguments, with this home and store; `hear` is told each line, and `locks` live as long as the process.

    Raises `LoadingError`.
    """
    environment = {
        **os.environ,
        "DLH_HOME": str(home),
        "DLH_STORE": str(store),
        "DLH_REDIS_URL": NO_BROKER,
        "DJANGO_SETTINGS_MODULE": "harness.settings",
    }
    for name in ("DLH_HOME_FILE", "DLH_STORE_FILE", "DLH_REDIS_URL_FILE"):
        environment.pop(name, None)
    command = [sys.executable, "-m", "harness.backup.loading", *arguments]
    with tempfile.TemporaryFile("w+") as trouble:
        with subprocess.Popen(
            command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, stderr=trouble, text=True,
            pass_fds=tuple(locks),
        ) as loading:  # fmt: skip
            try:
                for line in loading.stdout or ():
                    hear(line)
            except Terminated:
                loading.send_signal(signal.SIGINT)
                loading.wait(EMPTIED_S)
                raise
        if loading.returncode != 0:
            trouble.seek(0)
            tail = trouble.read().strip().splitlines()[-1:] or ["(it says nothing)"]
            raise LoadingError(tail[0])
