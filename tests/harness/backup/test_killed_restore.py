"""A restore that is killed at any point: the next one takes back what is left, and comes to its end."""

import json
import signal

import pytest

from harness.backup import staging
from harness.backup.restoring import BackupError, backup_restore
from harness.backup.staging import FOLDER, settle
from harness.stack.home import StackError, StackHome
from tests.harness.backup.conftest import call, users
from tests.postgres import server

DOOMED = """
import os, pathlib, signal, sys
from harness.backup import restoring, staging
from harness.backup.restoring import backup_restore

file, home, store, owner, name, calls = sys.argv[1:]
owner = {"path": pathlib.Path, "restoring": restoring, "staging": staging.Staging}.get(owner)
left = int(calls)

def deadly(was):
    def call(*given, **named):
        global left
        left -= 1
        if left == 0:
            os.killpg(0, signal.SIGKILL)
        return was(*given, **named)
    return call

def tell(what, done, of):
    if what == name:
        os.killpg(0, signal.SIGKILL)

if owner:
    setattr(owner, name, deadly(getattr(owner, name)))
backup_restore(pathlib.Path(file), home=pathlib.Path(home), store=pathlib.Path(store), tell=tell)
"""
"""Kills itself, and the process that fills the database, where the named function is called for the n-th time."""
UNPACKED = ("restoring", "_database_load", 1)
FILLING = ("", "Filling the database", 0)
MOVING = ("path", "rename", 3)  # the store's folder is where it belongs, and the first of the home
STORE_MOVED = ("staging", "move_up", 2)  # the home's turn comes
ALL_MOVED = ("restoring", "_database", 1)  # what marks the database is to go
MOVED = ("staging", "keep", 3)  # after one for each folder at the beginning


def killed(backup, home, store, point, **settings):
    """Start a restore that is killed there."""
    done = call(DOOMED, backup, home, store, *point, DLH_HOME=home, DLH_STORE=store, **settings)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert (home / FOLDER).is_dir() and (store / FOLDER).is_dir()


def test_the_next_try_comes_to_its_end_wherever_the_last_ones_were_killed(home, backup, tmp_path):
    new, store = tmp_path / "new", tmp_path / "disk"
    for point in (UNPACKED, FILLING, MOVED, MOVING):
        killed(backup, new, store, point)
    with pytest.raises(StackError, match="was not finished: run it again"):
        StackHome(new).make_folders()
    done = call("harness.backup", "restore", backup, DLH_HOME=new, DLH_STORE=store)
    assert done.returncode == 0, done.stderr
    assert users(new) == users(home)
    assert (store / "jobs/abc/model").read_bytes() == b"weights" * 1000
    assert not (new / FOLDER).exists()
    assert {path.name for path in store.iterdir()} == {"jobs"}


def test_a_database_that_was_half_filled_is_emptied_and_filled_and_nothing_starts_on_it(home, backup, tmp_path):
    import psycopg

    new, store = tmp_path / "new", tmp_path / "disk"
    with server() as url:
        for point in (FILLING, MOVING):
            killed(backup, new, store, point, DLH_DATABASE_URL=url)
        settings = {"DLH_HOME": new, "DLH_STORE": store, "DLH_DATABASE_URL": url}
        # As in a container: with a home of its own.
        starting = {**settings, "DLH_HOME": tmp_path / "other", "DLH_REDIS_URL": "redis://127.0.0.1:1/0"}
        early = call("harness.stack.bootstrap", **starting)
        assert early.returncode == 3 and "restore into this database was not finished" in early.stderr
        # What ends after the database is finished has all in place: nothing of it is taken back.
        killed(backup, new, store, MOVED, DLH_DATABASE_URL=url)
        again = call("harness.backup", "restore", backup, **settings)
        assert again.returncode == 2 and "the database is not empty" in again.stderr
        assert (store / "jobs/abc/model").read_bytes() == b"weights" * 1000
        begun = call("harness.stack.bootstrap", **starting)
        assert begun.returncode == 0 and json.loads(begun.stdout)["password"] == "", begun.stderr
        assert not (store / FOLDER).exists()
        with psycopg.connect(host=url.partition("host=")[2], user="dlh", dbname="postgres") as database:
            kept = database.execute("SELECT username, password FROM accounts_user").fetchall()
        assert kept == [row[:2] for row in users(home)]


def test_who_starts_before_the_database_is_finished_is_refused_and_the_restore_comes_to_its_end(
    home, backup, tmp_path, monkeypatch
):
    import psycopg

    new, store = tmp_path / "new", tmp_path / "disk"
    with server() as url:
        settings = {"DLH_HOME": new, "DLH_STORE": store, "DLH_DATABASE_URL": url}
        for name, value in settings.items():
            monkeypatch.setenv(name, str(value))
        for point in (FILLING, ALL_MOVED):
            killed(backup, new, store, point, DLH_DATABASE_URL=url)
            there = {path.name for path in new.iterdir()}
            with pytest.raises(StackError, match="restore into this database was not finished: run it again"):
                StackHome(new).make_folders()
            assert {path.name for path in new.iterdir()} == there, "else the next restore refused it"
        done = call("harness.backup", "restore", backup, **settings)
        assert done.returncode == 0, done.stderr
        StackHome(new).make_folders()
        with psycopg.connect(host=url.partition("host=")[2], user="dlh", dbname="postgres") as database:
            kept = database.execute("SELECT username, password FROM accounts_user").fetchall()
        assert kept == [row[:2] for row in users(home)]


def test_a_database_that_cannot_be_asked_keeps_a_start_from_what_a_restore_left(backup, tmp_path, monkeypatch):
    new = tmp_path / "new"
    killed(backup, new, tmp_path / "disk", UNPACKED)
    monkeypatch.setenv("DLH_DATABASE_URL", f"postgresql:///postgres?host={tmp_path}")
    with pytest.raises(StackError, match="the database does not tell whether a restore was finished"):
        StackHome(new).make_folders()
    assert [path.name for path in new.iterdir()] == [FOLDER]


def test_what_cannot_be_moved_to_its_place_leaves_folders_and_database_empty(backup, tmp_path, monkeypatch):
    import psycopg

    def full(*_):
        raise OSError(28, "No space left on device")

    new, store = tmp_path / "new", tmp_path / "disk"
    store.mkdir()
    rename = staging.Path.rename
    monkeypatch.setattr(staging.Path, "rename", lambda path, to: full() if path.name == "secrets" else rename(path, to))
    with server() as url:
        monkeypatch.setenv("DLH_DATABASE_URL", url)
        with pytest.raises(BackupError, match="No space left"):
            backup_restore(backup, home=new, store=store)
        with psycopg.connect(host=url.partition("host=")[2], user="dlh", dbname="postgres") as database:
            assert database.execute("SELECT * FROM pg_tables WHERE schemaname = 'public'").fetchall() == []
    assert not new.exists() and list(store.iterdir()) == []


def test_what_others_put_beside_a_killed_restore_is_not_touched(backup, tmp_path):
    new = tmp_path / "new"
    killed(backup, new, tmp_path / "disk", MOVING)
    (new / "mine").touch()
    done = call("harness.backup", "restore", backup, DLH_HOME=new, DLH_STORE=tmp_path / "disk")
    assert done.returncode == 2 and "it holds mine" in done.stderr
    assert (new / "db.sqlite3").is_file() and (tmp_path / "disk/jobs").is_dir()


def test_two_restores_do_not_fill_one_folder(backup, tmp_path, monkeypatch):
    monkeypatch.setattr(staging, "LOCK_S", 0.0)
    new = tmp_path / "new"
    with staging.staging(new), pytest.raises(BackupError, match="goes on; wait until it has ended"):
        backup_restore(backup, home=new, store=new / "store")
    assert not new.exists()


def test_a_folder_in_which_a_restore_moved_all_is_taken_as_it_is(tmp_path):
    with staging.staging(tmp_path / "new") as (part, _):
        part.begin()
        (part.tree / "store").mkdir()
        part.move_up()
    assert (tmp_path / "new" / FOLDER).exists()  # as after a kill: the note is there
    settle(tmp_path / "new")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["store"]


def test_what_a_restore_unpacked_and_never_moved_is_gone_when_the_installation_starts_without_it(
    backup, tmp_path, monkeypatch
):
    new, store = tmp_path / "new", tmp_path / "disk"
    monkeypatch.setenv("DLH_STORE", str(store))
    killed(backup, new, store, UNPACKED)
    assert any((store / FOLDER).rglob("model"))
    StackHome(new).make_folders()
    settle(store)
    assert not (new / FOLDER).exists() and list(store.iterdir()) == []


def test_the_store_of_a_backup_alone_is_not_started_on(backup, tmp_path, monkeypatch):
    new, store = tmp_path / "new", tmp_path / "disk"
    monkeypatch.setenv("DLH_STORE", str(store))
    killed(backup, new, store, STORE_MOVED)
    assert (store / "jobs").is_dir()
    with pytest.raises(StackError, match="was not finished: run it again"):
        StackHome(new).make_folders()
    done = call("harness.backup", "restore", backup, DLH_HOME=new, DLH_STORE=store)
    assert done.returncode == 0, done.stderr


def test_nothing_starts_where_a_restore_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(staging, "LOCK_S", 0.0)
    new = tmp_path / "new"
    with staging.staging(new) as (part, _):
        part.begin()
        with pytest.raises(StackError, match="goes on; wait until it has ended"):
            StackHome(new).make_folders()
        assert part.tree.is_dir() and [path.name for path in new.iterdir()] == [FOLDER]
