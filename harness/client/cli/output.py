"""What commands print: for people with rich, for programs as JSON; and how a command ends."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable
from datetime import datetime
from enum import IntEnum
from typing import Annotated, Any

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import TextColumn
from rich.segment import Segment, Segments
from rich.table import Column, Table
from rich.text import Text

from harness.client.errors import ApiError, BadInput, ClientError, NotSignedIn, Unreachable
from harness.moments import clock_words, moments_split
from worker.words import duration_words, number_words, size_words

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
PIPE_WIDTH = 240
_DRAW_NOTHING = ("dumb", "unknown")
"""`TERM` of a terminal that cannot move back to what it wrote, such as the shell of an editor."""
WORD_WIDTH, COLUMN_GAP = 20, 2
_STYLES = {
    "succeeded": "green", "ready": "green", "up": "green", "running": "cyan", "queued": "yellow", "paused": "yellow",
    "drain": "yellow", "ok": "green", "warn": "yellow", "bad": "red", "failed": "red", "down": "red",
    "cancelled": "magenta",
}  # fmt: skip

_NONE_SUCH = re.compile(r"There is no (?:such )?([a-z]+(?: test)?)\b|.* has no (quota|device)\b")
_LISTED_BY = {
    "job": "dlh jobs", "dataset": "dlh data list", "upload": "dlh data uploads", "project": "dlh whoami",
    "fetch": "dlh data fetches", "token": "dlh tokens", "user": "dlh people", "node": "dlh pool",
    "device": "dlh pool", "quota": "dlh pool quotas",
    "reservation": "dlh pool reservations", "calibration": "dlh pool calibration", "checkpoint": "dlh show JOB",
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
    AT_REST = 5
    """The job has not ended, and goes on only once somebody does something: it is paused, or is still a draft."""
    INTERRUPTED = 130


class _Console(Console):
    """Prints no control character of a name or text: a terminal would obey it. A reader that has left is no failure."""

    @property
    def is_terminal(self) -> bool:
        """Whether bars can be drawn: where they cannot, lines tell the same, as in a pipe."""
        return super().is_terminal and self._environ.get("TERM", "").lower() not in _DRAW_NOTHING

    def on_broken_pipe(self) -> None:
        """Leave it to who runs the command; rich would end it with 1, which means a failed job here."""
        raise BrokenPipeError

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(segment.text.translate(_CONTROLS), segment.style)


_TURNING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Turn the direction of what follows: `\u202egnp.exe` reads exe.png."""
_CONTROLS = {code: "\ufffd" for code in (*range(0x20), *range(0x7F, 0xA0), *_TURNING) if chr(code) not in "\n\t"}
_JSON_CONTROLS = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}
"""Those that JSON leaves as they are: only strings hold them."""


def console() -> Console:
    """Standard output for people; wide where it goes into a file or a pipe, so that no cell is cut there."""
    return _Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def line_print(out: Console, text: str) -> None:
    """A line of a log as it is, however long: tabs stay, and nothing in it is a mark."""
    out.print(Segments([Segment(text), Segment.line()]), end="", soft_wrap=True)


def notes() -> Console:
    """Standard error: progress and remarks, so that standard output stays clean."""
    return _Console(file=sys.stderr, highlight=False, width=None if sys.stderr.isatty() else PIPE_WIDTH)


def draws_bars(out: Console) -> bool:
    """Whether it is looked at: FORCE_COLOR, as CI often sets it, makes rich take a log for a terminal, too."""
    return out.is_terminal and out.file.isatty()


class CutColumn(TextColumn):
    """A column of a bar for a name or a sentence: too long, it is cut, and not the figures beside it, which need
    `others` letters of the line, however wide the terminal is by now."""

    def __init__(self, text: str, out: Console, *, others: int) -> None:
        super().__init__(text, markup=False)
        self._out = out
        self._others = others

    def get_table_column(self) -> Column:
        """As wide as the line leaves it now."""
        return Column(no_wrap=True, max_width=max(WORD_WIDTH // 2, self._out.width - self._others))


def json_print(value: Any) -> None:
    """One JSON value on standard output."""
    sys.stdout.write(_json_text(value, indent=1) + "\n")


def json_line(value: Any) -> None:
    """One JSON value on one line, at once: for streams."""
    sys.stdout.write(_json_text(value, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def _json_text(value: Any, **form: Any) -> str:
    """Letters as they are where the output can have all, else as escapes: a program is to get what was meant."""
    has_all = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    return json.dumps(value, ensure_ascii=not has_all, **form).translate(_JSON_CONTROLS)


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
    """The error: as JSON on standard output, in one line as of streams, else in words on standard error."""
    if as_json:
        json_line({"error": error.to_dict()})
        return
    out = notes()
    # Lines are left to the terminal: a path or a command that is cut in two can be neither copied nor found in a log.
    out.print(Text.assemble(("Error: ", "bold red"), local_words(error.message)), soft_wrap=True)
    if isinstance(error.details, list) and len(error.details) > 1:
        for problem in error.details[1:20]:  # the first is the error itself
            if isinstance(problem, dict):
                text = local_words(f"{problem.get('field')}: {problem.get('message')}")
                out.print(Text.assemble(("Also: ", "bold red"), text), soft_wrap=True)
    if hint := " ".join(filter(None, ("" if _is_unknown(error) else error.hint, _next_step(error)))):
        out.print(Text.assemble(("Hint: ", "bold"), local_words(hint)), soft_wrap=True)


def _is_unknown(error: ClientError) -> bool:
    """Whether the portal does not know the token."""
    return isinstance(error, ApiError) and error.status == 401


def _next_step(error: ClientError) -> str:
    """What a person at a terminal can ask next; the portal's own words know no commands."""
    if _is_unknown(error):
        named = next((name for name in ("DLH_TOKEN_FILE", "DLH_TOKEN") if os.environ.get(name)), "")
        first = f" {named} is set and comes before what is stored." if named else ""
        return f"Make one on the page Account, then `dlh login URL --token TOKEN`.{first}"
    if isinstance(error, ApiError) and error.status == 404 and "dlh " not in error.hint:
        told = _NONE_SUCH.match(error.message)
        command = _LISTED_BY.get((told[1] or told[2]) if told else "")
        return f"`{command}` lists what exists." if command else ""
    if error.code != "spec_invalid":
        return ""
    part = "" if "unknown field" in error.message else (error.field or "").partition(".")[0]
    return f"`dlh spec schema{f' {part}' if part else ''}` shows what it accepts."


def table_print(columns: Iterable[str], rows: Iterable[Iterable[Any]], *, title: str = "") -> None:
    """A table; cells are text, never markup. No word of usual length is cut: a narrow terminal folds whole lines."""
    names, cells = list(columns), [[_cell(value) for value in row] for row in rows]
    table = Table(
        title=Text(title) if title else None, header_style="bold", box=None, pad_edge=False, title_justify="left"
    )
    out = console()
    widths = _widths([[name, *(row[at].plain for row in cells)] for at, name in enumerate(names)], out.width)
    for name, width in zip(names, widths, strict=True):
        table.add_column(name, overflow="fold", width=width)
    for row in cells:
        table.add_row(*row)
    out.width = max(out.width, sum(widths) + COLUMN_GAP * len(widths))
    out.print(table if cells else Text("Nothing here yet.", style="dim"))


def section_print(title: str, columns: tuple[str, ...], rows: Iterable[tuple[object, ...]], empty: str) -> None:
    """A table under its title, or what to say instead of an empty one."""
    found = list(rows)
    if found:
        table_print(columns, found, title=title)
    else:
        console().print(empty, markup=False)


def _widths(columns: list[list[str]], width: int) -> list[int]:
    """Letters for each column: as many as its longest word has, more as far as `width` has room for all."""

    def longest(texts: Iterable[str]) -> int:
        return max(map(cell_len, texts), default=0)

    found = [min(WORD_WIDTH, longest(word for text in column for word in text.split())) for column in columns]
    needs = [longest(line for text in column for line in text.splitlines()) for column in columns]
    spare = max(0, width - sum(found) - COLUMN_GAP * len(columns))
    # The least need first: what it leaves goes to the others.
    order = sorted(range(len(columns)), key=lambda at: needs[at] - found[at])
    for left, at in zip(range(len(order), 0, -1), order, strict=True):
        more = min(max(0, needs[at] - found[at]), spare // left)
        found[at] += more
        spare -= more
    return found


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
    """A figure with a few significant digits; nothing where there is none."""
    return "" if value is None else number_words(value, digits)


def size(value: float | None) -> str:
    """Bytes for people; none where there is nothing to tell."""
    return size_words(value or 0)


def duration(seconds: float | None) -> str:
    """Seconds for people; empty where there is nothing to tell."""
    return "" if seconds is None else duration_words(seconds)


def local_words(text: str) -> str:
    """A sentence of the portal, with the moments in it as local times like all others that are printed."""
    parts = moments_split(text)
    return "".join(part if isinstance(part, str) else clock_words(part.astimezone()) for part in parts)


def standing(job: dict[str, Any]) -> str:
    """Its state; of one that waits with a deadline also whether its finish is promised, of a draft whether a test comes
    first."""
    if job.get("rate_test_first"):
        return "draft, queued by itself once a range test has found its learning rate"
    if job["state"] != "queued" or not job["deadline_at"]:
        return str(job["state"])
    if job["promised_at"]:
        return f"queued, promised by {when(job['promised_at'])}"
    return f"queued, without a promise: {local_words((job.get('promise') or {}).get('text') or '')}".rstrip(": ")


def device_names(kind: str) -> tuple[str, str]:
    """One device of the kind, and several."""
    return {"cpu": ("CPU core", "CPU cores"), "cuda": ("GPU", "GPUs")}.get(kind, (kind, kind))


def idle_words(job: dict[str, Any]) -> str:
    """That a run makes no progress, and for how long; empty where it gets on."""
    idle_s = job.get("idle_s")
    return "" if idle_s is None else f"no progress for {duration(idle_s)}"


def when(text: str | None) -> str:
    """An ISO time as local time; in UTC where calendars end before it comes here (a deadline at the end of 9999)."""
    if not text:
        return ""
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    try:
        return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"
    except OverflowError:
        return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
