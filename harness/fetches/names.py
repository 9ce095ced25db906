"""What a fetched file is called: as its server says, else as the end of its address."""

from __future__ import annotations

from contextlib import suppress
from email.message import Message
from urllib.parse import unquote, urlsplit

_SUFFIXES = {
    "text/csv": ".csv",
    "application/csv": ".csv",
    "text/tab-separated-values": ".tsv",
    "application/x-ndjson": ".jsonl",
    "application/jsonl": ".jsonl",
    "application/vnd.apache.parquet": ".parquet",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
    "application/vnd.oasis.opendocument.spreadsheet": ".ods",
    "application/zip": ".zip",
    "application/x-zip-compressed": ".zip",
    "application/gzip": ".gz",
    "application/x-tar": ".tar",
}
_LETTERS_MAX = 200
FALLBACK = "data"


def name_of_url(url: str) -> str:
    """The last part of its path, or a word for nothing."""
    path = urlsplit(url).path.rstrip("/")
    return _plain(unquote(path.rsplit("/", 1)[-1])) or FALLBACK


def name_of_answer(disposition: str, content_type: str, asked: str, final: str) -> str:
    """By `Content-Disposition`, else by the address that was asked or the one it led to; with an ending, if there is
    one to be told."""
    said = _said(disposition)
    names = [name for name in (said, name_of_url(asked), name_of_url(final)) if name]
    name = said or next((name for name in names if "." in name), names[0])
    kind = content_type.partition(";")[0].strip().lower()
    return name if "." in name else name + _SUFFIXES.get(kind, "")


def _said(disposition: str) -> str:
    """The name in a `Content-Disposition`, in either of its two ways to write one."""
    with suppress(UnicodeError):  # headers are read as Latin-1, and many a server writes UTF-8
        disposition = disposition.encode("latin-1").decode()
    message = Message()
    message["Content-Disposition"] = "".join(letter for letter in disposition if letter.isprintable())
    try:
        return _plain(message.get_filename() or "")
    except (LookupError, ValueError):  # an encoding that there is not
        return ""


def _plain(name: str) -> str:
    """A bare name without anything that leads elsewhere or cannot be printed; may be empty."""
    name = name.replace("\\", "/").rsplit("/", 1)[-1]
    name = "".join(letter for letter in name if letter.isprintable()).strip().lstrip(".")
    return name[:_LETTERS_MAX]
