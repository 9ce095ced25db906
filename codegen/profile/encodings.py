"""In which encoding a text is written: guessed from its beginning, or given."""

from __future__ import annotations

import codecs

from codegen.profile.problems import fail

_NO_FILES = "punycode"
"""Python has it for names of hosts; no file is written so, and it takes a time that grows as the square of the size."""


def encoding_named(name: str | None, head: bytes) -> str | None:
    """The encoding that a person gave; None where they left it open. Raises `DataError` for an unknown one."""
    return _with_byte_order(_codec(name), head)


def guess_encoding(sample: bytes) -> str:
    """By byte order mark or every second byte, else UTF-8 where it decodes, else Windows-1252 or Latin-1."""
    if sample.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"  # looked for first: in little-endian order it begins like UTF-16
    if sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if sample.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if wide := wide_encoding(sample):
        return wide
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
        return "utf-8"
    except UnicodeDecodeError:
        return western_encoding(sample)


def wide_encoding(sample: bytes) -> str:
    """UTF-16 without byte order mark: nearly every second byte is 0, by turns; else nothing."""
    even, odd = sample[0::2], sample[1::2]
    if odd and odd.count(0) > 0.9 * len(odd) and even.count(0) < 0.1 * len(even):
        return "utf-16-le"
    if odd and even.count(0) > 0.9 * len(even) and odd.count(0) < 0.1 * len(odd):
        return "utf-16-be"
    return ""


def western_encoding(sample: bytes) -> str:
    """`cp1252` where the bytes that only it defines occur and it decodes, else `latin-1`, which always does."""
    if any(byte in sample for byte in range(0x80, 0xA0)):
        try:
            sample.decode("cp1252")
            return "cp1252"
        except UnicodeDecodeError:
            pass
    return "latin-1"


def decoded(head: bytes, encoding: str, whole: bool, name: str) -> str:
    """The text of the beginning of file `name`; `whole`: there is no more of it. Raises `DataError`."""
    try:
        return without_mark(codecs.getincrementaldecoder(encoding)("replace").decode(head, whole))
    except UnicodeError:  # no byte order mark where the encoding wants one, and codecs that know no "replace"
        hint = "Leave the encoding open, or try utf-8, latin-1 or cp1252."
        fail("wrong_encoding", f"{name} is not valid {encoding}.", hint, file=name)


def without_mark(text: str) -> str:
    """The beginning of a text without its byte order mark, which encodings that a person gives (`utf-8`) keep."""
    return text.removeprefix("\ufeff")


def _codec(name: str | None) -> str | None:
    if not name:
        return None
    try:
        codec = codecs.lookup(name)
        if not codec._is_text_encoding or codec.name == _NO_FILES:
            raise LookupError(name)
        return codec.name
    except LookupError:
        fail("unknown_encoding", f"There is no text encoding {name!r}.", "Try utf-8, latin-1, cp1252 or utf-16.")


def _with_byte_order(codec: str | None, head: bytes) -> str | None:
    """UTF-16 without byte order mark by the side on which most letters have their zero byte; others as they are."""
    if codec != "utf-16" or head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return codec
    first, second = head[0::2].count(0), head[1::2].count(0)
    return codec if first == second else "utf-16-be" if first > second else "utf-16-le"
