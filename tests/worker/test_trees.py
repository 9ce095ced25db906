"""Folders that a hostile program filled."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from worker.trees import give_tree, make_readable, tree_remove

NOBODY = 65534


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    root = tmp_path / "deep"
    root.mkdir()
    here = os.open(root, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    return root


def test_folders_too_deep_for_python_break_neither_hand_over_nor_removal(deep: Path) -> None:
    give_tree(deep, os.getuid())
    make_readable(deep)
    tree_remove(deep)
    assert not deep.exists()


def without_root(work: Callable[[], bool]) -> bool:
    """Whether it says so as a user who is not root."""
    if os.geteuid() != 0:
        return work()
    child = os.fork()
    if child == 0:
        code = 2
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_folders_that_a_program_closed_are_removed_without_root_too() -> None:
    def work() -> bool:
        root = Path(tempfile.mkdtemp())
        for name, mode in (("unreadable", 0o000), ("unwritable", 0o500)):
            folder = root / name / "inner"
            folder.mkdir(parents=True)
            (folder / "file").write_text("x")
            folder.chmod(mode)
            folder.parent.chmod(mode)
        outside = Path(tempfile.mkdtemp())
        outside.chmod(0o555)
        (root / "link").symlink_to(outside)
        tree_remove(root)
        kept = outside.stat().st_mode & 0o777 == 0o555
        outside.rmdir()
        return kept and not root.exists()

    assert without_root(work)


def test_a_link_is_never_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("secret")
    outside.chmod(0o600)
    root = tmp_path / "work"
    root.mkdir()
    (root / "link").symlink_to(outside)
    (root / "own").write_text("x")
    (root / "own").chmod(0o600)
    make_readable(root)
    give_tree(root, os.getuid())
    assert outside.stat().st_mode & 0o777 == 0o600
    assert (root / "own").stat().st_mode & 0o777 == 0o644
    tree_remove(root)
    assert outside.read_text() == "secret"
