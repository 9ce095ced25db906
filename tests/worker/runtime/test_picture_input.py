"""Pictures to predict for, as a file or a zip: what cannot be read, and what must not be."""

from __future__ import annotations

import errno
import random
import zipfile
from pathlib import Path
from unittest.mock import Mock

import pytest

from worker.runtime import picture_input
from worker.runtime.picture_input import read_pictures
from worker.runtime.tables import InputError


def test_a_picture_that_is_not_there_is_named(tmp_path: Path) -> None:
    for name in ("missing.png", "missing.zip"):
        with pytest.raises(InputError, match=rf"{name} cannot be read: No such file") as caught:
            read_pictures(tmp_path / name)
        assert caught.value.hint == "Give a picture or a zip of pictures."


def test_a_folder_of_pictures_is_to_be_zipped(tmp_path: Path) -> None:
    (tmp_path / "birds").mkdir()
    with pytest.raises(InputError, match="birds is a folder") as caught:
        read_pictures(tmp_path / "birds")
    assert "--input birds.zip" in caught.value.hint


def test_a_zip_of_broken_pictures_alone_is_refused_as_such(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "input.zip", "w") as archive:
        archive.writestr("a.png", b"x")
        archive.writestr("b.png", b"x")
    with pytest.raises(InputError, match=r"^None of the 2 pictures can be read; the first: a\.png is not a PNG"):
        list(read_pictures(tmp_path / "input.zip", [])[1])


@pytest.mark.parametrize("packed", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_picture_whose_bytes_in_the_zip_are_damaged_is_named(tmp_path: Path, packed: int) -> None:
    with zipfile.ZipFile(tmp_path / "input.zip", "w", packed) as archive:
        archive.writestr("a.png", random.Random(3).randbytes(5000))
    body = bytearray((tmp_path / "input.zip").read_bytes())
    body[60:200] = bytes(140)
    (tmp_path / "input.zip").write_bytes(body)
    with pytest.raises(InputError, match=r"^a\.png cannot be read from the zip"):
        list(read_pictures(tmp_path / "input.zip")[1])


def test_a_fault_of_the_disk_is_not_taken_for_a_damaged_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "input.zip", "w") as archive:
        archive.writestr("a.png", b"x")
    monkeypatch.setattr(zipfile.ZipExtFile, "read", Mock(side_effect=OSError(errno.EIO, "Input/output error")))
    unread: list[tuple[str, str]] = []
    with pytest.raises(OSError, match="Input/output error"):
        list(read_pictures(tmp_path / "input.zip", unread)[1])
    assert not unread


def member(name: str, mode: int = 0) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


@pytest.mark.parametrize(
    ("entry", "word"),
    [
        (member("../../evil.png"), "points outside"),
        (member("/etc/evil.png"), "points outside"),
        (member("link.png", 0o120777), "link"),
        (member("notes.txt"), "no pictures"),
    ],
)
def test_a_hostile_zip_is_refused_by_name(tmp_path: Path, entry: zipfile.ZipInfo, word: str) -> None:
    with zipfile.ZipFile(tmp_path / "input.zip", "w") as archive:
        archive.writestr(entry, b"x")
    with pytest.raises(InputError, match=word):
        read_pictures(tmp_path / "input.zip")


def test_a_zip_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture_input, "MEMBER_BYTES", 1000)
    with zipfile.ZipFile(tmp_path / "input.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", bytes(1001))
    with pytest.raises(InputError, match=r"'a\.png' has more than"):
        read_pictures(tmp_path / "input.zip")
