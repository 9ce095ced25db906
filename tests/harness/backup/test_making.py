"""A backup of a store in which programs go on writing."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from harness.backup import making
from harness.backup.__main__ import main
from harness.backup.archive import ArchiveWriter, BackupError, archive_extract, archive_verify
from harness.backup.making import _tree_add


class Cut(ArchiveWriter):
    """Somebody cuts the file just as it is read."""

    file = Path("none yet")

    def add_file(self, name: str, stream: Any, **more: Any) -> None:
        """As usual, of a file that is shorter now."""
        if name.endswith(self.file.name):
            os.truncate(self.file, 4)
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
    _tree_add(writer, tree)
    writer.close()
    assert archive_verify(out)
    archive_extract(out, {"": tmp_path / "home", "store/": tmp_path / "back"})
    back = tmp_path / "back" / "jobs" / "a" / "program"
    assert (back / "notes.txt").read_bytes() == b"0123" + bytes(6)
    assert (back / "other").read_bytes() == b"whole"


def test_a_dataset_that_is_cut_is_an_error(tmp_path: Path) -> None:
    out = io.BytesIO()
    writer = cut_writer(tmp_path, f"datasets/{'a' * 64}/source/rows.csv", out)
    with pytest.raises(BackupError, match="shorter"):
        _tree_add(writer, tmp_path)


def test_ctrl_c_is_told_in_words_and_leaves_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    (tmp_path / "db.sqlite3").touch()
    monkeypatch.setenv("DLH_HOME", str(tmp_path))
    monkeypatch.delenv("DLH_DATABASE_URL", raising=False)
    monkeypatch.setattr(making, "migrations_missing", lambda: False)
    monkeypatch.setattr(making, "_write", interrupted)
    monkeypatch.setattr("sys.argv", ["backup", "make", str(tmp_path / "one.dlh")])
    assert main() == 130
    assert capsys.readouterr().err == "Interrupted: nothing was left behind.\n"
    assert not [*tmp_path.glob("*.dlh*"), *tmp_path.glob(".*.dlh*")]
