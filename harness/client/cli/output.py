"""What commands print: for people with rich, for programs as JSON; and how a command ends."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from datetime import datetime
from enum import IntEnum
from typing import Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from harness.client.errors import ApiError, BadInput, ClientError, NotSignedIn, Unreachable

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
PIPE_WIDTH = 240
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
_STYLES = {
    "succeeded": "green", "ready": "green", "up": "green", "running": "cyan", "queued": "yellow", "paused": "yellow",
    "drain": "yellow", "ok": "green", "warn": "yellow", "bad": "red", "failed": "red", "down": "red",
    "cancelled": "magenta",
}  # fmt: skip


class ExitCode(IntEnum):
    """How `dlh` ends. Stable: scripts rely on it."""

    OK = 0
    JOB_FAILED = 1
    """The job failed or was cancelled, the dataset or the prediction failed."""
    BAD_INPUT = 2
    NOT_ALLOWED = 3
    """Not found, forbidden, or not signed in."""
    UNREACHABLE = 4
    INTERRUPTED = 130


class _Console(Console):
    """Prints no control character of a name or text: a terminal would obey it."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(segment.text.translate(_CONTROLS), segment.style)


_CONTROLS = {code: "\ufffd" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


def console() -> Console:
    """Standard output for people; wide where it goes into a file or a pipe, so that no cell is cut there."""
    return _Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def notes() -> Console:
    """Standard error: progress and remarks, so that standard output stays clean."""
    return _Console(file=sys.stderr, highlight=False)


def json_print(value: Any) -> None:
    """One JSON value on standard output."""
    sys.stdout.write(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def json_line(value: Any) -> None:
    """One JSON value on one line, at once: for streams."""
    sys.stdout.write(json.dumps(value, separators=(",", ":"), ensure_ascii=False) + "\n")
    sys.stdout.flush()


def code_of(error: ClientError) -> ExitCode:
    """The exit code that tells an error."""
    if isinstance(error, Unreachable):
        return ExitCode.UNREACHABLE
    if isinstance(error, ApiError):
        if error.status in {401, 403, 404}:
            return ExitCode.NOT_ALLOWED
        return ExitCode.UNREACHABLE if error.status >= 500 and error.status != 507 else ExitCode.BAD_INPUT
    if isinstance(error, NotSignedIn):
        return ExitCode.NOT_ALLOWED
    return ExitCode.BAD_INPUT if isinstance(error, BadInput) else ExitCode.JOB_FAILED


def error_print(error: ClientError, *, as_json: bool) -> None:
    """The error: as JSON on standard output, else in words on standard error."""
    if as_json:
        json_print({"error": error.to_dict()})
        return
    out = notes()
    # Lines are left to the terminal: a path or a command that is cut in two can be neither copied nor found in a log.
    out.print(Text.assemble(("Error: ", "bold red"), error.message), soft_wrap=True)
    if isinstance(error.details, list) and len(error.details) > 1:
        for problem in error.details[1:20]:  # the first is the error itself
            if isinstance(problem, dict):
                text = f"{problem.get('field')}: {problem.get('message')}"
                out.print(Text.assemble(("Also: ", "bold red"), text), soft_wrap=True)
    if hint := " ".join(filter(None, (error.hint, _next_step(error)))):
        out.print(Text.assemble(("Hint: ", "bold"), hint), soft_wrap=True)


def _next_step(error: ClientError) -> str:
    """What a person at a terminal can ask next; the portal's own words know no commands."""
    if error.code != "spec_invalid":
        return ""
    part = (error.field or "").partition(".")[0]
    return f"`dlh spec schema{f' {part}' if part else ''}` tells what it takes."


def table_print(columns: Iterable[str], rows: Iterable[Iterable[Any]], *, title: str = "") -> None:
    """A table; cells are text, never markup."""
    table = Table(title=title or None, header_style="bold", box=None, pad_edge=False, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column == "Id")
    count = 0
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
        count += 1
    console().print(table if count else Text("Nothing here yet.", style="dim"))


def pairs_print(pairs: Iterable[tuple[str, Any]]) -> None:
    """Names and values, one a line; empty ones are left out."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in pairs:
        if value not in (None, "", [], {}):
            table.add_row(name, _cell(value))
    console().print(table)


def _cell(value: Any) -> Text:
    if isinstance(value, Text):
        return value
    if isinstance(value, float):
        return Text(number(value))
    return Text("" if value is None else str(value), style=_STYLES.get(str(value), ""))


def number(value: float | None, digits: int = 4) -> str:
    """A figure with a few significant digits; large ones whole, with separators."""
    if value is None:
        return ""
    is_whole = float(value).is_integer() or abs(value) >= 10**digits
    return f"{value:,.0f}" if is_whole and math.isfinite(value) and abs(value) < 1e15 else f"{value:.{digits}g}"


def size(value: float | None) -> str:
    """Bytes for people."""
    left = float(value or 0)
    for unit in _SIZES:
        if left < 1024 or unit == _SIZES[-1]:
            return f"{left:.0f} {unit}" if unit == "B" else f"{left:.1f} {unit}"
        left /= 1024
    raise AssertionError("the last unit takes all")


def duration(seconds: float | None) -> str:
    """Seconds for people."""
    if seconds is None:
        return ""
    whole = int(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def when(text: str | None) -> str:
    """An ISO time as local time."""
    if not text:
        return ""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone().strftime("%Y-%m-%d %H:%M:%S")
