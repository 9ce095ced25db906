"""Which format an upload has, told by its content; the name only helps to word errors."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from codegen.profile.encodings import wide_encoding
from codegen.profile.problems import fail
from codegen.profile.streams import ByteSource

_HEAD_BYTES = 4096
_BLANK = b" \t\r\n\xef\xbb\xbf"
_ACCEPTED = (
    "Upload a CSV, TSV, JSON lines or Parquet table (plain or .gz), a spreadsheet (.xlsx, .ods), or class folders "
    "of pictures (.zip, .tar(.gz))."
)


class Format(StrEnum):
    """What can be read."""

    DELIMITED = "csv"
    JSON_LINES = "json lines"
    PARQUET = "parquet"
    SHEET = "spreadsheet"
    ZIP = "zip"
    TAR = "tar"


@dataclass(frozen=True)
class Sniffed:
    """A format, and whether it lies inside gzip."""

    format: Format
    gzipped: bool


_FOREIGN: tuple[tuple[bytes, str, str], ...] = (
    (b"\x89PNG", "one picture", "Put the pictures in one folder per class and upload the whole as .zip."),
    (b"\xff\xd8\xff", "one picture", "Put the pictures in one folder per class and upload the whole as .zip."),
    (b"GIF87a", "one picture", "Put the pictures in one folder per class and upload the whole as .zip."),
    (b"GIF89a", "one picture", "Put the pictures in one folder per class and upload the whole as .zip."),
    (b"%PDF-", "a PDF document", _ACCEPTED),
    (b"\x89HDF", "an HDF5 file", "Export the table to Parquet or CSV, or the pictures to class folders in a .zip."),
    (b"\x93NUMPY", "a NumPy array", "Save it as a table: CSV or Parquet with one named column per feature."),
    (b"SQLite format 3", "an SQLite database", "Export one table or query as CSV or Parquet."),
    (
        b"\xd0\xcf\x11\xe0",
        "an old Excel or Office file",
        "Save it as .xlsx, or the sheet as CSV (UTF-8), and upload that.",
    ),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "Pack it as .zip or .tar.gz instead."),
    (b"Rar!\x1a\x07", "a RAR archive", "Pack it as .zip or .tar.gz instead."),
    *((b"BZh%d1AY&SY" % level, "compressed with bzip2", "Use gzip (.gz) or no compression.") for level in range(1, 10)),
    (b"\xfd7zXZ", "compressed with xz", "Use gzip (.gz) or no compression."),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "Use gzip (.gz) or no compression."),
    (b"ARROW1\0\0", "an Arrow/Feather file", "Save it as Parquet."),
    (b"\x80\x04\x95", "a Python pickle", "Pickles can run code and are never read. Save the table as Parquet or CSV."),
    (
        b"<!DOCTYPE",
        "a web page",
        "The download probably gave an error page instead of the data: open the file and look.",
    ),
    (b"<html", "a web page", "The download probably gave an error page instead of the data: open the file and look."),
    (b"\x7fELF", "a program", _ACCEPTED),
)


_OBJECTS = re.compile(rb"\[\s*\{\s*\"")
"""How an array of JSON objects begins, whatever its file is called."""


def sniff(path: Path, *, is_text: bool = False) -> Sniffed:
    """The format of `path`; `is_text`: a person has named its encoding.

    Raises `DataError` for an empty file or an unknown format, with the next step.
    """
    if path.is_dir():
        fail("not_a_file", f"{path.name} is a folder.", "Pack it as .zip or .tar.gz and upload that.", file=path.name)
    gzipped = _head(path, gzipped=False).startswith(b"\x1f\x8b")
    head = _head(path, gzipped)
    if not head.strip(_BLANK):
        _refuse_empty(path, gzipped)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zip(path, gzipped)
    if head.startswith(b"PAR1"):
        return Sniffed(Format.PARQUET, gzipped)
    if head[257:262] == b"ustar":
        return Sniffed(Format.TAR, gzipped)
    for magic, what, hint in _FOREIGN:
        of_page = magic.startswith(b"<")  # the others are no words: a column may be called bzh, or arrow1
        if (head.lower() if of_page else head).startswith(magic.lower() if of_page else magic):
            fail("unknown_format", f"{path.name} is {what}, which is not supported.", hint, file=path.name)
    return _text(path, head, gzipped, is_text)


def _head(path: Path, gzipped: bool) -> bytes:
    with ByteSource(path, gzipped).open() as stream:
        return stream.read(_HEAD_BYTES)


def _refuse_empty(path: Path, gzipped: bool) -> None:
    with ByteSource(path, gzipped).open() as stream:
        blank = all(not chunk.strip(_BLANK) for chunk in stream.chunks())
    if blank:
        fail(
            "empty_file",
            f"{path.name} is empty.",
            "Look at the file before uploading it: it needs a header line and at least a few rows.",
            file=path.name,
        )


def _zip(path: Path, gzipped: bool) -> Sniffed:
    if gzipped:
        fail("unknown_format", "A zip archive inside gzip.", "Upload the .zip itself.", file=path.name)
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()[:1000]
    except (zipfile.BadZipFile, NotImplementedError, OSError) as error:
        fail(
            "broken_archive",
            f"The zip archive cannot be opened ({error}); it was probably cut off while being copied.",
            "See whether it opens where it was made; pack it there again, and upload that.",
            file=path.name,
        )
    if "[Content_Types].xml" in names or {"mimetype", "content.xml"} <= set(names):
        return _office(path, names)
    if names and all(name.endswith(".npy") for name in names):
        fail(
            "unknown_format", f"{path.name} holds NumPy arrays.", "Save them as a CSV or Parquet table.", file=path.name
        )
    return Sniffed(Format.ZIP, gzipped)


def _office(path: Path, names: list[str]) -> Sniffed:
    """A workbook; texts and slides, which are packed alike, are refused."""
    if "[Content_Types].xml" in names:
        is_sheet = any(name.startswith("xl/") for name in names)
    else:
        with zipfile.ZipFile(path) as archive, archive.open("mimetype") as kind:
            is_sheet = b"spreadsheet" in kind.read(200)
    if not is_sheet:
        fail("unknown_format", f"{path.name} is an Office file, but no spreadsheet.", _ACCEPTED, file=path.name)
    return Sniffed(Format.SHEET, gzipped=False)


def _text(path: Path, head: bytes, gzipped: bool, is_text: bool) -> Sniffed:
    name = path.name.lower().removesuffix(".gz")
    expected = {".parquet": "Parquet file", ".zip": "zip archive", ".tar": "tar archive", ".tgz": "tar archive"}
    for suffix, what in expected.items():
        if name.endswith(suffix):
            fail(
                "broken_file",
                f"{path.name} is named like a {what} but does not begin like one.",
                "Check the file where it was made, and upload it again.",
                file=path.name,
            )
    text = is_text or head.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")) or bool(wide_encoding(head))
    control = sum(byte < 9 or 13 < byte < 32 for byte in head)
    if not text and control > len(head) // 10:
        fail("unknown_format", f"{path.name} is a binary file of an unknown format.", _ACCEPTED, file=path.name)
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"{"):
        return Sniffed(Format.JSON_LINES, gzipped)
    if start.startswith(b"[") and (name.endswith((".json", ".jsonl", ".ndjson")) or _OBJECTS.match(start)):
        fail(
            "json_array",
            f"{path.name} is one JSON array.",
            "Write one object per line instead (JSON lines), e.g. `jq -c '.[]' data.json > data.jsonl`.",
            file=path.name,
        )
    return Sniffed(Format.DELIMITED, gzipped)
