"""UTF-8 blocks of whole records from a delimited file, cut where a newline lies outside quotes."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from codegen.profile.dialect import MAX_RECORD_BYTES, Dialect, fail_nul
from codegen.profile.encodings import without_mark
from codegen.profile.problems import fail
from codegen.profile.streams import ByteStream

"""A longer record means a quote that is never closed."""
_QUOTE, _LF, _CR = 0x22, 0x0A, 0x0D


class WrongEncoding(Exception):
    """The encoding guessed from the beginning does not hold. `line` is where, `sample` the bytes around it."""

    def __init__(self, line: int, sample: bytes) -> None:
        super().__init__(f"line {line}")
        self.line = line
        self.sample = sample


@dataclass(frozen=True)
class Block:
    """Whole records."""

    body: bytes
    """UTF-8, lines end with a newline."""
    first_line: int
    """1-based line of the file."""
    plain: bool
    """Every quote encloses a field or is doubled inside one, as RFC 4180 wants. From the first block that is not, each
    block is a bare run of lines and a record may reach into the next."""


def utf8_chunks(stream: ByteStream, dialect: Dialect, file: str) -> Iterator[bytes]:
    """The file as UTF-8 with `\\n` line ends. Raises `WrongEncoding`, or `DataError` where the encoding was given."""
    if dialect.encoding in ("utf-8", "utf-8-sig") and dialect.newline == "\n":
        yield from _checked_utf8(stream, dialect, file)
        return
    decoder = io.IncrementalNewlineDecoder(
        codecs.getincrementaldecoder(dialect.encoding)("strict"),
        translate=dialect.newline == "\r",  # maybe beside others
    )
    line = 1
    ended, begun = False, False
    while not ended:
        chunk = stream.read()
        ended = not chunk
        try:
            text = decoder.decode(chunk, ended)
        except UnicodeDecodeError as error:
            _wrong_encoding(dialect, line + text_lines(chunk[: error.start]), chunk, file)
        if text and not begun:
            text, begun = without_mark(text), True
        if text:
            yield _encoded(text, dialect, line, file)
        line += text.count("\n")


def _encoded(text: str, dialect: Dialect, line: int, file: str) -> bytes:
    """As UTF-8; `line` is that of its beginning. Some encodings, such as UTF-7, can spell halves of letters."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        at = line + text.count("\n", 0, error.start)
        _wrong_encoding(dialect, at, text[error.start :].encode(errors="replace"), file)


def text_lines(body: bytes) -> int:
    """Line ends in `body`."""
    return body.count(b"\n")


def _checked_utf8(stream: ByteStream, dialect: Dialect, file: str) -> Iterator[bytes]:
    line, held = 1, b""
    first = True
    while chunk := stream.read():
        if first:
            chunk, first = chunk.removeprefix(codecs.BOM_UTF8), False
        body = held + chunk
        held = b""
        if not body.isascii():
            try:
                body.decode("utf-8")
            except UnicodeDecodeError as error:
                if error.end < len(body) or error.reason != "unexpected end of data":
                    _wrong_encoding(dialect, line + text_lines(body[: error.start]), body[error.start :], file)
                body, held = body[: error.start], body[error.start :]
        line += text_lines(body)
        yield body
    if held:
        _wrong_encoding(dialect, line, held, file)


def _wrong_encoding(dialect: Dialect, line: int, sample: bytes, file: str) -> NoReturn:
    if dialect.encoding_given:
        fail(
            "wrong_encoding",
            f"Line {line:,} is not valid {dialect.encoding}.",
            "Leave the encoding open, or try latin-1, cp1252 or utf-16.",
            row=line,
            file=file,
        )
    raise WrongEncoding(line, sample)


def record_blocks(chunks: Iterator[bytes], delimiter: str, file: str) -> Iterator[Block]:
    """Cut the chunks into blocks. Raises `DataError` for NUL bytes and for a quote that is never closed."""
    held, line, plain = b"", 1, True
    for chunk in chunks:
        if (at := chunk.find(0)) >= 0:
            fail_nul(line + text_lines(held) + text_lines(chunk[:at]), file)
        body = held + chunk
        if plain:
            cut, plain = _record_end(body, ord(delimiter))
        if not plain:
            cut = body.rfind(b"\n") + 1
        held = body[cut:]
        if len(held) > MAX_RECORD_BYTES:
            fail_quote(line + text_lines(body[:cut]), file)
        if cut:
            yield Block(body[:cut], line, plain)
            line += text_lines(body[:cut])
    if held:
        held += b"" if held.endswith(b"\n") else b"\n"
        if plain:
            cut, plain = _record_end(held, ord(delimiter))
            if plain and cut < len(held):
                fail_quote(line + text_lines(held[: _open_quote(held)]), file)
        yield Block(held, line, plain)


def fail_quote(line: int, file: str) -> None:
    """Raise the error for a quote that opens in `line` and is never closed."""
    fail(
        "unterminated_quote",
        f'The quote (") that opens in line {line:,} is never closed.',
        'Close it, or remove it; a quote inside a quoted field is written twice ("").',
        row=line,
        file=file,
    )


def _open_quote(body: bytes) -> int:
    return int(np.flatnonzero(np.frombuffer(body, np.uint8) == _QUOTE)[-1])


def _record_end(body: bytes, delimiter: int) -> tuple[int, bool]:
    """(end of the last whole record, whether all quotes are plain)."""
    if b'"' not in body:
        return body.rfind(b"\n") + 1, True
    data = np.frombuffer(body, np.uint8)
    quotes = np.flatnonzero(data == _QUOTE)
    newlines = np.flatnonzero(data == _LF)
    outside = newlines[np.searchsorted(quotes, newlines) % 2 == 0]
    cut = int(outside[-1]) + 1 if len(outside) else 0
    openers, closers = quotes[0::2], quotes[1::2]
    before = data[openers - 1]
    before[openers == 0] = _LF
    after = data[np.minimum(closers + 1, len(data) - 1)]
    return cut, bool(
        np.isin(before, (delimiter, _LF, _CR, _QUOTE)).all() and np.isin(after, (delimiter, _LF, _CR, _QUOTE)).all()
    )
