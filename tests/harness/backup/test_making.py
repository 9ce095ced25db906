"""A backup of a store in which programs go on writing."""

from __future__ import annotations

import errno
import io
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.backup import making
from harness.backup.__main__ import main
from harness.backup.archive import ArchiveWriter, BackupError, archive_extract, archive_verify
from harness.backup.freeze import unread_raise
from harness.backup.making import _tree_add, backup_make
from harness.store import StorePaths

WORK = "jobs/a/work"
LOGS = Path("jobs", "b", "work", "logs")
"""Where the program of a run writes."""


class Cut(ArchiveWriter):
    """Somebody cuts the file just as it is read."""

    file = Path("none yet")

    def add_file(self, name: str, stream: Any, **more: Any) -> None:
        """As usual, of a file that is shorter now."""
        if name.endswith(self.file.name):
            os.truncate(self.file, 4)
        super().add_file(name, stream, **more)


class Removing(ArchiveWriter):
    """Somebody removes the folder when the first file of another is read."""

    folder = Path("none yet")

    def add_file(self, name: str, stream: Any, **more: Any) -> None:
        """As usual."""
        if name.endswith("a/rows.csv"):
            shutil.rmtree(self.folder)
        super().add_file(name, stream, **more)


def cut_writer(tree: Path, name: str, out: io.BytesIO) -> Cut:
    writer = Cut(out, {})
    writer.file = tree / name
    writer.file.parent.mkdir(parents=True)
    writer.file.write_bytes(b"0123456789")
    return writer


def test_a_program_that_cuts_its_files_costs_nobody_the_backup(tmp_path: Path) -> None:
    tree, out = tmp_path / "store", io.BytesIO()
    writer = cut_writer(tree, "jobs/a/program/notes.txt", out)
    (tree / "jobs" / "a" / "program" / "other").write_bytes(b"whole")
    _tree_add(writer, tree, unread_raise)
    writer.close()
    assert archive_verify(out)
    archive_extract(out, {"": tmp_path / "home", "store/": tmp_path / "back"})
    back = tmp_path / "back" / "jobs" / "a" / "program"
    assert (back / "notes.txt").read_bytes() == b"0123" + bytes(6)
    assert (back / "other").read_bytes() == b"whole"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty store of the installation that is backed up."""
    store = tmp_path / "store"
    store.mkdir()
    monkeypatch.setattr(making.settings, "STORE", StorePaths(store))
    return store


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may open what is called `closed`: to root nothing else is."""
    opened = os.open

    def refused(path: Any, *arguments: Any, **named: Any) -> int:
        if path == "closed":
            raise PermissionError(13, "Permission denied", path)
        return opened(path, *arguments, **named)

    monkeypatch.setattr(os, "open", refused)


@pytest.fixture(params=[True, False], ids=["linked", "copied"])
def links(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files can be linked, or cannot: another owner's, or a file system without links."""

    def refused(*_: Any, **__: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    if not request.param:
        monkeypatch.setattr(os, "link", refused)


def closed_make(place: Path, *, is_folder: bool) -> None:
    """A file that is open to all, and beside it a file or folder that is closed to all."""
    place.mkdir(parents=True)
    (place / "open").write_bytes(b"open")
    shut = place / "closed"
    if is_folder:
        shut.mkdir()
    (shut / "inner" if is_folder else shut).write_bytes(b"closed")


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("closed", "links")
@pytest.mark.parametrize("is_folder", [False, True])
def test_what_a_program_lets_nobody_read_is_named_and_costs_nobody_the_backup(
    is_folder: bool, store: Path, tmp_path: Path
) -> None:
    closed_make(store / WORK / "results", is_folder=is_folder)
    made = making.backup_make(tmp_path / "one.dlh", with_secrets=False)
    assert made.left_out == (f"{WORK}/results/closed",)
    with made.path.open("rb") as archive:
        archive_extract(archive, {"": tmp_path / "home", "store/": tmp_path / "back"})
    assert [path.name for path in (tmp_path / "back" / WORK / "results").iterdir()] == ["open"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("closed", "links")
@pytest.mark.parametrize("is_folder", [False, True])
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("place", ["jobs/a/program", f"datasets/{'a' * 64}/source"])
def test_what_cannot_be_read_where_no_program_writes_is_an_error_that_names_it(
    is_folder: bool, place: str, store: Path, tmp_path: Path
) -> None:
    closed_make(store / place, is_folder=is_folder)
    with pytest.raises(BackupError, match=f"'{place}/closed' in the store cannot be read: Permission denied"):
        making.backup_make(tmp_path / "one.dlh", with_secrets=False)
    assert not [*tmp_path.glob("*.dlh*"), *tmp_path.glob(".*.dlh*"), *store.glob(".backup-*")]


@pytest.mark.parametrize(
    ("count", "said"), [(0, "(mode 0600).\n"), (1, "1 file or folder of runs"), (12, "and 2 more.\n")]
)
def test_a_person_is_told_what_the_backup_is_without(
    count: int,
    said: str,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = tuple(f"{WORK}/\x1b{number}" for number in range(count))
    (tmp_path / "db.sqlite3").touch()
    monkeypatch.setenv("DLH_HOME", str(tmp_path))
    monkeypatch.setattr(making, "migrations_missing", lambda: False)
    monkeypatch.setattr(making, "migrations_unknown", list)
    monkeypatch.setattr(making.settings, "STORE", StorePaths(tmp_path / "store"))
    monkeypatch.setattr(making, "_write", lambda *_, **__: {"files": 1, "rows": 1, "left_out": names})
    monkeypatch.setattr("sys.argv", ["backup", "make", str(tmp_path / "one.dlh")])
    assert main() == 0
    told = capsys.readouterr().out
    assert told.endswith(said) or said in told
    assert "\x1b" not in told and told.count(f"{WORK}/") == min(count, 10)


class BadBlock(io.BufferedIOBase):
    """A file that a disk does not give."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def read(self, size: int | None = -1) -> bytes:
        """As such a disk answers."""
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def close(self) -> None:
        """With what it reads from."""
        self.stream.close()
        super().close()


@pytest.fixture
def bad_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files called `bad` have one."""
    opened = os.fdopen

    def fdopen(descriptor: int, *more: Any) -> Any:
        stream = opened(descriptor, *more)
        return BadBlock(stream) if Path(f"/proc/self/fd/{descriptor}").readlink().name == "bad" else stream

    monkeypatch.setattr(making.os, "fdopen", fdopen)


def tree_with(root: Path, name: str) -> Path:
    tree = root / "tree"
    for file in (tree / name, tree / LOGS):
        file.parent.mkdir(parents=True)
        file.write_bytes(b"0123456789")
    return tree


@pytest.mark.usefixtures("bad_block")
def test_a_bad_block_in_a_file_of_a_run_is_named_and_costs_nobody_the_backup(tmp_path: Path) -> None:
    out, left_out = io.BytesIO(), making._LeftOut()
    writer = ArchiveWriter(out, {})
    _tree_add(writer, tree_with(tmp_path, f"{WORK}/checkpoints/bad"), left_out)
    writer.close()
    assert left_out.names == [f"{WORK}/checkpoints/bad"]
    archive_verify(out)
    archive_extract(out, {"": tmp_path / "home", "store/": tmp_path / "back"})
    assert (tmp_path / "back" / WORK / "checkpoints/bad").read_bytes() == bytes(10)
    assert (tmp_path / "back" / LOGS).read_bytes() == b"0123456789"


@pytest.mark.usefixtures("bad_block")
@pytest.mark.parametrize("place", ["jobs/a/program", f"datasets/{'a' * 64}/source"])
def test_a_bad_block_elsewhere_is_an_error_that_names_the_file(place: str, tmp_path: Path) -> None:
    writer = ArchiveWriter(io.BytesIO(), {})
    with pytest.raises(BackupError, match=f"'{place}/bad' in the store cannot be read: Input/output error"):
        _tree_add(writer, tree_with(tmp_path, f"{place}/bad"), making._LeftOut())
    writer.abandon()


def test_a_dataset_that_is_cut_is_an_error(tmp_path: Path) -> None:
    out = io.BytesIO()
    writer = cut_writer(tmp_path, f"datasets/{'a' * 64}/source/rows.csv", out)
    with pytest.raises(BackupError, match="shorter"):
        _tree_add(writer, tmp_path, unread_raise)


def test_of_one_store_one_backup_is_made_at_a_time_from_whatever_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    monkeypatch.setattr(making, "migrations_missing", lambda: False)
    monkeypatch.setattr(making, "migrations_unknown", list)
    monkeypatch.setattr(making.settings, "STORE", StorePaths(store))
    told = []

    def another(*_: Any, **__: Any) -> dict[str, int]:
        """The first is being written when a second one begins, in a container with a home of its own."""
        monkeypatch.setattr(making.settings, "HOME", tmp_path / "another")
        with pytest.raises(BackupError) as refused:
            making.backup_make(tmp_path / "second.dlh", with_secrets=False)
        told.append(str(refused.value))
        return {"files": 0, "rows": 0}

    monkeypatch.setattr(making, "_write", another)
    making.backup_make(tmp_path / "first.dlh", with_secrets=False)
    assert told == ["another backup of this installation is being made"]
    assert {path.name for path in tmp_path.glob("*.dlh")} == {"first.dlh"}


def test_a_folder_that_vanishes_while_it_is_read_is_an_error_not_a_hole(tmp_path: Path) -> None:
    tree, out = tmp_path / "store", io.BytesIO()
    for name in ("a", "b"):
        (tree / "datasets" / name).mkdir(parents=True)
        (tree / "datasets" / name / "rows.csv").write_text("rows")

    writer = Removing(out, {})
    writer.folder = tree / "datasets" / "b"
    with pytest.raises(OSError, match="No such file"):
        _tree_add(writer, tree, unread_raise)
    writer.close()


def test_ctrl_c_is_told_in_words_and_leaves_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    (tmp_path / "db.sqlite3").touch()
    monkeypatch.setenv("DLH_HOME", str(tmp_path))
    monkeypatch.setattr(making, "migrations_missing", lambda: False)
    monkeypatch.setattr(making, "migrations_unknown", list)
    monkeypatch.setattr(making, "_write", interrupted)
    monkeypatch.setattr("sys.argv", ["backup", "make", str(tmp_path / "one.dlh")])
    assert main() == 130
    assert capsys.readouterr().err == "Interrupted: nothing was left behind.\n"
    assert not [*tmp_path.glob("*.dlh*"), *tmp_path.glob(".*.dlh*")]


def test_older_sources_make_no_backup_of_a_newer_database_which_nobody_could_restore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "migrations_missing", lambda: False)
    monkeypatch.setattr(making, "migrations_unknown", lambda: ["jobs.9999_from_the_future"])
    monkeypatch.setattr(making.settings, "STORE", StorePaths(tmp_path / "store"))
    with pytest.raises(BackupError, match=r"likely newer, sources changed the database \(jobs\.9999_from"):
        backup_make(tmp_path / "one.dlh", with_secrets=False)
    assert not list(tmp_path.glob("*.dlh*"))
