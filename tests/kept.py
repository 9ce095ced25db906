"""A world that is made once for the tests of a module: what a test changes of it is undone before the next.

Rows: the module's world lies in a transaction of its own, and each test, as ever, in one inside it. Files: folders that
a test changed are put back as they were. Values: each test is given a copy, so that a model it changed is as in the
database again.
"""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

import pytest
from django.db import transaction

T = TypeVar("T")
COMMITTING = {"transactional_db", "live_server"}
State = dict[str, tuple[int, ...]]


class Kept(Generic[T]):
    """A world and the folders that belong to it."""

    def __init__(self, world: T, folders: list[Path], spare: Path) -> None:
        """Keep a second copy of the folders below `spare`."""
        self._world = pickle.dumps(world, pickle.HIGHEST_PROTOCOL)  # read back in a tenth of the time of a deep copy
        self._spare = {folder: spare / str(number) for number, folder in enumerate(folders)}
        for folder, kept in self._spare.items():
            _copy(folder, kept)
        self._states = {folder: _state(folder) for folder in folders}

    @contextmanager
    def lent(self) -> Iterator[T]:
        """The world for one test."""
        try:
            yield pickle.loads(self._world)
        finally:
            for folder, kept in self._spare.items():
                if _state(folder) != self._states[folder]:
                    shutil.rmtree(folder, ignore_errors=True)
                    _copy(kept, folder)
                    self._states[folder] = _state(folder)


@contextmanager
def kept(
    request: pytest.FixtureRequest, make: Callable[[], T], folders: Callable[[T], list[Path]]
) -> Iterator[Kept[T]]:
    """For a fixture of a module's scope: what `make` puts into the database and into `folders` of the store."""
    committing = [
        item.nodeid
        for item in request.session.items
        if item.path == request.path and COMMITTING.intersection(getattr(item, "fixturenames", ()))
    ]
    if committing:
        raise pytest.UsageError(f"a kept world lies in a transaction, in which nothing can be committed: {committing}")
    request.getfixturevalue("django_db_setup")
    blocker = request.getfixturevalue("django_db_blocker")
    spare = request.getfixturevalue("tmp_path_factory").mktemp("kept")
    outer = transaction.atomic()
    with blocker.unblock():
        outer.__enter__()
    try:
        with blocker.unblock():
            world = make()
            found = Kept(world, folders(world), spare)
        yield found
    finally:
        with blocker.unblock():
            transaction.set_rollback(True)
            outer.__exit__(None, None, None)


def _copy(source: Path, target: Path) -> None:
    if source.exists():
        shutil.copytree(source, target, symlinks=True)


def _state(folder: Path) -> State:
    """What tells whether anything in the folder was changed: of each entry its kind, place on the disk, size, time."""
    found: State = {}
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            entry = os.lstat(os.path.join(parent, name))  # noqa: PTH118 - a hundred of them after each test
            found[f"{parent}/{name}"] = (entry.st_mode, entry.st_ino, entry.st_size, entry.st_mtime_ns)
    return found
