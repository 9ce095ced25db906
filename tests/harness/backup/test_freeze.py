"""The store as it was at one moment, while others write in it."""

import os

from harness.backup.freeze import LOCK, frozen


def store_make(root):
    (root / "jobs/a/kept").mkdir(parents=True)
    (root / "jobs/a/kept/checkpoint").write_text("first")
    (root / "datasets").mkdir()
    (root / "datasets/b").write_text("rows")


def test_what_is_removed_or_replaced_meanwhile_is_still_there(tmp_path):
    store_make(tmp_path)
    with frozen(tmp_path) as tree:
        (tmp_path / "datasets/b").unlink()
        (tmp_path / "draft").write_text("second")
        (tmp_path / "draft").replace(tmp_path / "jobs/a/kept/checkpoint")
        assert (tree / "datasets/b").read_text() == "rows"
        assert (tree / "jobs/a/kept/checkpoint").read_text() == "first"
    assert (tmp_path / "jobs/a/kept/checkpoint").read_text() == "second"
    assert not list(tmp_path.glob(".backup-*"))


def test_links_and_pipes_that_peoples_code_left_are_not_followed_and_not_kept(tmp_path):
    store_make(tmp_path)
    secret = tmp_path.parent / f"{tmp_path.name}-secret"
    secret.mkdir()
    (secret / "key").write_text("secret")
    (tmp_path / "jobs/a/kept/file").symlink_to(secret / "key")
    (tmp_path / "jobs/a/kept/folder").symlink_to(secret)
    os.mkfifo(tmp_path / "jobs/a/kept/pipe")
    with frozen(tmp_path) as tree:
        kept = {str(path.relative_to(tree)) for path in tree.rglob("*")}
    assert kept == {"jobs", "jobs/a", "jobs/a/kept", "jobs/a/kept/checkpoint", "datasets", "datasets/b"}


def test_what_a_killed_backup_left_is_removed_and_not_backed_up(tmp_path):
    store_make(tmp_path)
    (tmp_path / ".backup-1/jobs").mkdir(parents=True)
    (tmp_path / LOCK).touch()
    with frozen(tmp_path) as tree:
        assert not (tmp_path / ".backup-1").exists()
        assert {path.name for path in tree.iterdir()} == {"jobs", "datasets"}


def test_where_no_links_can_be_made_files_are_copied(tmp_path, monkeypatch):
    store_make(tmp_path)

    def refuse(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with frozen(tmp_path) as tree:
        assert (tree / "jobs/a/kept/checkpoint").read_text() == "first"


def test_a_store_whose_folder_is_a_link_is_frozen_as_any_other(tmp_path):
    store_make(tmp_path / "elsewhere")
    (tmp_path / "store").symlink_to(tmp_path / "elsewhere")
    with frozen(tmp_path / "store") as tree:
        assert (tree / "datasets/b").read_text() == "rows"


def test_what_goes_while_it_is_listed_is_left_out_as_if_a_moment_before(tmp_path, monkeypatch):
    store_make(tmp_path)
    listed = os.listdir

    def swapped(folder):
        names = listed(folder)
        if "datasets" in names and (tmp_path / "datasets").is_dir():
            (tmp_path / "datasets").rename(tmp_path / "moved")
            (tmp_path / "datasets").symlink_to(tmp_path / "moved")
        if "checkpoint" in names:
            (tmp_path / "jobs/a/kept/checkpoint").unlink()
        return names

    monkeypatch.setattr(os, "listdir", swapped)
    with frozen(tmp_path) as tree:
        assert {str(path.relative_to(tree)) for path in tree.rglob("*")} == {"jobs", "jobs/a", "jobs/a/kept"}
