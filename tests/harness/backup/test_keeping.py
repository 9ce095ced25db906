"""Backups by the clock, and one that is ended from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.backup import restoring
from harness.backup.__main__ import _older_removed
from harness.backup.archive import BackupError
from harness.backup.ending import Terminated, term_interrupts
from harness.backup.keeping import backup_name, older_remove
from harness.backup.staging import staging
from harness.env import REPOSITORY

WAITING = """
import subprocess, sys, time
from harness.backup import process, restoring
from harness.backup.ending import term_interrupts
from pathlib import Path
term_interrupts()
loader = "import time\\ntry:\\n print('{}', flush=True); time.sleep(600)\\nfinally: open(r'DONE', 'w').write('emptied')"
process.sys.executable, real = sys.executable, subprocess.Popen
def popen(command, **more):
    return real([sys.executable, "-c", loader.replace("DONE", sys.argv[1])], **more)
process.subprocess.Popen = popen
home = Path(sys.argv[2])
places = restoring._Places(home, home / "store", [restoring.Staging(home)], [])
restoring._database_load(places, 1, lambda *_: print("filling", flush=True))
"""


def test_the_newest_stay_and_nothing_that_has_another_name_goes(tmp_path: Path) -> None:
    names = [backup_name(datetime(2027, 1, day, 2, 30, tzinfo=UTC)) for day in (9, 1, 5, 3)]
    other = ["monday.dlh", "dlh-20270101-023000.dlh.part", "dlh-2027.dlh"]
    for name in (*names, *other):
        (tmp_path / name).touch()
    assert older_remove(tmp_path, 2, made=names[0]) == ["dlh-20270101-023000.dlh", "dlh-20270103-023000.dlh"]
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"dlh-20270105-023000.dlh", "dlh-20270109-023000.dlh", *other}
    assert older_remove(tmp_path, 2, made=names[0]) == []


def test_backups_of_a_clock_that_was_ahead_do_not_outlive_those_that_are_made_since(tmp_path: Path) -> None:
    ahead = [backup_name(datetime(2030, 1, day, 2, 30, tzinfo=UTC)) for day in (1, 2, 3)]
    made = [backup_name(datetime(2027, 1, day, 2, 30, tzinfo=UTC)) for day in (1, 2, 3, 4)]
    for name in ahead:
        (tmp_path / name).touch()
    removed = []
    for name in made:
        (tmp_path / name).touch()
        removed += older_remove(tmp_path, 3, made=name)
        assert (tmp_path / name).exists()
    assert removed == [*ahead, made[0]]


def test_a_backup_that_cannot_be_removed_is_told_of_beside_the_one_that_is_made(tmp_path: Path) -> None:
    made = tmp_path / "dlh-20270102-023000.dlh"
    made.touch()
    (tmp_path / "dlh-20270101-023000.dlh").mkdir()
    with pytest.raises(BackupError, match=rf"{made} is made, but older ones cannot be removed: .*0101-023000"):
        _older_removed(tmp_path, 1, made)
    assert made.exists()


def test_what_a_restore_unpacked_is_on_the_disk_before_it_is_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DLH_DATABASE_URL", raising=False)
    seen: list[tuple[str, bool]] = []
    run = subprocess.run

    def flush(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        seen.append((command[-1], (tmp_path / "store").exists()))
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", flush)
    with staging(tmp_path) as (part, lock):
        part.begin()
        (part.tree / "store").mkdir()
        restoring._finish(restoring._Places(tmp_path, tmp_path / "store", [part], [lock]))
    assert seen == [(str(tmp_path), False), (str(tmp_path), True)] and (tmp_path / "store").is_dir()


def test_drafts_of_killed_backups_go_and_one_that_is_being_written_stays(tmp_path: Path) -> None:
    killed, written = (tmp_path / f".dlh-2027010{day}-023000.dlh.0123abcd" for day in (1, 2))
    for draft in (killed, written):
        draft.touch()
    moment = time.time() - 25 * 3600
    os.utime(killed, (moment, moment))
    older_remove(tmp_path, 1, made="dlh-20270102-023000.dlh")
    assert not killed.exists() and written.exists()


def test_a_container_that_stops_ends_it_as_ctrl_c_does() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        term_interrupts()
        with pytest.raises(KeyboardInterrupt) as ended:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        assert isinstance(ended.value, Terminated)
        os.kill(os.getpid(), signal.SIGTERM)  # what takes drafts away is not interrupted
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_restore_that_is_ended_waits_until_the_database_is_empty_again(tmp_path: Path) -> None:
    done = tmp_path / "done"
    restore = subprocess.Popen(
        [sys.executable, "-c", WAITING, str(done), str(tmp_path)], cwd=REPOSITORY, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert restore.stdout and restore.stdout.readline() == "filling\n"
    restore.terminate()
    assert restore.wait(60) != 0
    assert done.read_text() == "emptied"
