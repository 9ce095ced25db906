"""Lines of the log: what a program or a client wrote into a message ends no line, begins none and moves no cursor."""

from __future__ import annotations

import logging
from typing import Any

_INDENT = "    "
_NO_BREAK = "\u00a0"
"""Within our own sizes and times."""

ANSWERS = "/login/provider/back?"


class PlainLines(logging.Formatter):
    """One line a record; a traceback follows it, each of its lines indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line, control characters escaped."""
        return escaped(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        """The traceback, of which the exception's own text is part."""
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:
        """Where the record was made."""
        return _indented(super().formatStack(stack_info))


class WithoutCodes(logging.Filter):
    """Of the server's line for an answer of the identity provider: not its query, which has a code to sign in by."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Lets every line pass. uvicorn's has client, method, path with query, version, status."""
        if isinstance(record.args, tuple):
            record.args = tuple(
                one.partition("?")[0] if isinstance(one, str) and one.startswith(ANSWERS) else one
                for one in record.args
            )
        return True


def escaped(text: str) -> str:
    """Text without control characters, separators of lines, or marks that turn its direction: `\\n`, `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == _NO_BREAK else repr(one)[1:-1] for one in text)


def _indented(text: str) -> str:
    # by "\n" alone: whatever else ends a line for some reader is escaped
    return "\n".join(_INDENT + escaped(line) for line in text.split("\n"))
