"""Pictures to predict for: one, or a zip of them."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from worker.runtime.pictures import OTHER_SUFFIXES, PICTURES, SUFFIXES, PictureError, picture_read
from worker.runtime.tables import InputError
from worker.sheet_reach import NOT_UNPACKED
from worker.words import size_words

MEMBER_BYTES = 256 << 20
_PICTURE_OR_ZIP = "Give a picture or a zip of pictures."
Unread = list[tuple[str, str]]
"""(name, why in a sentence) of pictures that cannot be read."""


def read_pictures(path: Path, unread: Unread | None = None) -> tuple[list[str], Iterator[Image.Image]]:
    """(names, pictures in that order) of one picture or a zip of them.

    A broken picture of a zip goes from the names to `unread` when it is its turn. Raises `InputError` naming a broken
    one where nobody asks for `unread`, and where no picture can be read.
    """
    if path.suffix.lower() != ".zip":
        return [path.name], iter([_picture(path.name, _bytes_of(path))])
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile:
        raise InputError(f"{path.name} is not a zip archive.", _PICTURE_OR_ZIP) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.", _PICTURE_OR_ZIP) from None
    for info in archive.infolist():
        _check_member(info)
    suffixes = SUFFIXES if unread is None else SUFFIXES + OTHER_SUFFIXES
    names = [name for name in archive.namelist() if _is_picture(name, suffixes)]
    if not names:
        raise InputError(f"{path.name} holds no pictures.", _PICTURE_OR_ZIP)
    return names, _readable(archive, names, unread)


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except IsADirectoryError:
        raise InputError(
            f"{path} is a folder.", f"Zip it, and name the zip: --input {path.resolve().name}.zip"
        ) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.", _PICTURE_OR_ZIP) from None


def _is_picture(name: str, suffixes: tuple[str, ...]) -> bool:
    return name.lower().endswith(suffixes) and "__MACOSX" not in name and not Path(name).name.startswith("._")


def _readable(archive: zipfile.ZipFile, names: list[str], unread: Unread | None) -> Iterator[Image.Image]:
    count = len(names)
    for name in tuple(names):
        try:
            picture = _picture(name, _member(archive, name))
        except InputError as error:
            if unread is None:
                raise
            unread.append((name, error.message))
            names.remove(name)
            if not names:  # those to come are still among them
                all_of = "" if count == 1 else f"None of the {count:,} pictures can be read; the first: "
                raise InputError(f"{all_of}{unread[0][1]}", PICTURES) from None
        else:
            yield picture


def _check_member(info: zipfile.ZipInfo) -> None:
    """Nothing is ever unpacked to disk; refused all the same, as it is in datasets."""
    name, again = info.orig_filename, "Make the zip again from plain files."
    parts = name.replace("\\", "/").split("/")
    if ".." in parts or name.startswith(("/", "\\")) or name[1:2] == ":":
        raise InputError(f"The zip was rejected: a name that points outside it: {name!a}.", again)
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise InputError(f"The zip was rejected: {name!a} is a link or device.", again)
    if info.file_size > MEMBER_BYTES:
        raise InputError(f"The zip was rejected: {name!a} has more than {size_words(MEMBER_BYTES)}.", again)


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        with archive.open(name) as stream:
            body = stream.read(MEMBER_BYTES + 1)
    except (*NOT_UNPACKED, ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the disk; of damaged bz2 there is no number
        raise InputError(f"{name} cannot be read from the zip: {error}.", "Make the zip again.") from None
    if len(body) > MEMBER_BYTES:
        raise InputError(f"{name} has more than {size_words(MEMBER_BYTES)}.", PICTURES)
    return body


def _picture(name: str, body: bytes) -> Image.Image:
    try:
        return picture_read(name, body)
    except PictureError as error:
        raise InputError(str(error), error.hint) from None
