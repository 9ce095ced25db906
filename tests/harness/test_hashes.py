"""Hashes that are kept while files are what they were."""

from __future__ import annotations

import hashlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from harness import hashes
from harness.hashes import Hashes
from harness.transfer import trees


@pytest.fixture
def read(monkeypatch) -> list[str]:
    """Files whose bytes were read to be hashed."""
    names: list[str] = []
    digest = hashlib.file_digest

    def counted(stream, kind):
        names.append(Path(f"/proc/self/fd/{stream.fileno()}").readlink().name)
        return digest(stream, kind)

    monkeypatch.setattr(hashlib, "file_digest", counted)
    monkeypatch.setattr(trees, "_hashes", Hashes())
    return names


@pytest.fixture
def folder(tmp_path) -> Path:
    """A tree of one file."""
    place = tmp_path / "step-00000010"
    place.mkdir()
    (place / "state.pt").write_bytes(b"weights")
    return place


def listed(folder: Path) -> str:
    (file,) = trees.tree_read(folder.parent, folder.name).files
    assert file.sha256 == hashlib.sha256((folder / "state.pt").read_bytes()).hexdigest()
    return file.sha256


def test_a_file_at_rest_is_read_once_for_all_who_ask(folder, read, monkeypatch):
    monkeypatch.setattr(hashes, "SETTLED_NS", 0)
    first = listed(folder)
    assert (listed(folder), read) == (first, ["state.pt"])
    folder.rename(folder.with_name("step-00000020"))
    assert (listed(folder.with_name("step-00000020")), read) == (first, ["state.pt"])


def test_several_who_ask_at_once_wait_for_the_one_that_reads(folder, monkeypatch):
    monkeypatch.setattr(hashes, "SETTLED_NS", 0)
    monkeypatch.setattr(trees, "_hashes", Hashes())
    digest, reads, others = hashlib.file_digest, [], Barrier(3)

    def slow(stream, kind):
        reads.append(stream)
        time.sleep(0.5)
        return digest(stream, kind)

    def asked(_):
        others.wait(30.0)
        return listed(folder)

    monkeypatch.setattr(hashlib, "file_digest", slow)
    with ThreadPoolExecutor(3) as pool:
        assert len(set(pool.map(asked, range(3)))) == 1
    assert len(reads) == 1


def test_one_that_changed_a_moment_ago_is_read_again(folder, read):
    listed(folder)
    listed(folder)
    assert read == ["state.pt"] * 2


def test_other_bytes_of_the_same_size_and_time_are_found(folder, read, monkeypatch):
    monkeypatch.setattr(hashes, "SETTLED_NS", 0)
    file = folder / "state.pt"
    told = file.stat()
    first = listed(folder)
    with file.open("r+b") as stream:
        stream.write(b"WEIGHTS")
    os.utime(file, ns=(told.st_atime_ns, told.st_mtime_ns))
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (told.st_ino, told.st_mtime_ns)
    assert listed(folder) != first
    other = folder / "other"
    other.write_bytes(b"Weights")
    os.utime(other, ns=(told.st_atime_ns, told.st_mtime_ns))
    other.replace(file)
    assert listed(folder) == hashlib.sha256(b"Weights").hexdigest()


def test_only_so_many_are_remembered(tmp_path, read, monkeypatch):
    monkeypatch.setattr(hashes, "SETTLED_NS", 0)
    monkeypatch.setattr(hashes, "MOST", 2)
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(name)
    kept = Hashes()
    for name in ("a", "b", "a", "c", "a", "b"):
        with (tmp_path / name).open("rb") as stream:
            assert kept.sha256(stream) == hashlib.sha256(name.encode()).hexdigest()
    assert read == ["a", "b", "c", "b"]
