"""Log files of a job: searched line by line on the server, so that a search sees every line.

A node with a cache sends them as they are: they are made safe to show here too."""

from __future__ import annotations

import math
import re
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from django.conf import settings

from harness.errors import Invalid
from harness.jobs.models import Job
from worker.telemetry.logs import text_clean

LEVELS = ("info", "warning", "error")
Place = tuple[int, int]
"""(rank, line): where lines stand among all of an attempt, those of rank 0 first."""
LIMIT_MAX = 5000
LINE_SHOWN_MAX = 4000
"""Letters of a line that are sent; the download has all."""
_SEARCH_LIMIT_S = 5.0
_RANK_FILE = re.compile(r"rank-(\d+)\.log")
_ERROR = re.compile(r"(error|exception)\b|\b(traceback|fatal|critical|killed)\b", re.IGNORECASE)
_WARNING = re.compile(r"warn(ing)?\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """One line; `line` counts from 1 in its rank's file."""

    token: int
    rank: int
    line: int
    text: str
    level: str


@dataclass(frozen=True, kw_only=True)
class LogPart:
    """Which lines are wanted of those that match."""

    limit: int = 500
    tail: bool = False
    """The last `limit` instead of the first."""
    after_line: int = 0
    """Only lines after this one of each rank."""
    after: Place | None = None
    before: Place | None = None
    """Only lines between these places, both left out."""

    def of_rank(self, rank: int) -> tuple[float, float]:
        """Between which two lines of a rank's file (0 and infinity: all) the part lies."""
        low, high = float(self.after_line), math.inf
        if self.after and rank <= self.after[0]:
            low = max(low, self.after[1]) if rank == self.after[0] else math.inf
        if self.before and rank >= self.before[0]:
            high = self.before[1] if rank == self.before[0] else 0
        return low, high


WHOLE = LogPart()


def level_of(text: str) -> str:
    """`error`, `warning` or `info`, by the words in the line."""
    if _ERROR.search(text):
        return "error"
    return "warning" if _WARNING.search(text) else "info"


def job_logs(
    *,
    job: Job,
    rank: int | None = None,
    query: str = "",
    level: str = "",
    token: int | None = None,
    part: LogPart = WHOLE,
) -> dict[str, Any]:
    """`{lines, tokens, ranks, token, more, stopped_rank, stopped_line}`: a part of the lines of attempt `token` (the
    newest).

    `query` is literal text, letter case ignored; `level` lets that level and worse through. `more` says that there is
    more than `part.limit`, or that the search ran out of time; then the last two say at which line. Raises `Invalid`.
    """
    if not 1 <= part.limit <= LIMIT_MAX:
        raise Invalid(f"limit is 1 to {LIMIT_MAX}.", field="limit")
    if level and level not in LEVELS:
        raise Invalid(f"There is no level {level!r}.", field="level", hint=f"Use one of: {', '.join(LEVELS)}.")
    tokens = _tokens(job)
    chosen = token if token is not None else (tokens[-1] if tokens else 0)
    files = _rank_files(job, chosen)
    wanted = [number for number in sorted(files) if rank in (None, number)]
    last = part.limit + 1 if part.tail and not (query or level) else None
    streams = [_lines(files[number], chosen, number, *part.of_rank(number), last=last) for number in wanted]
    lines, stopped = _search(streams, query, level, part.limit, tail=part.tail)
    shown = lines[-part.limit :] if part.tail else lines[: part.limit]
    return {
        "lines": [asdict(line) for line in shown],
        "tokens": tokens,
        "ranks": sorted(files),
        "token": chosen,
        "more": stopped is not None or len(lines) > part.limit,
        "stopped_rank": stopped and stopped[0],
        "stopped_line": stopped and stopped[1],
    }


def _search(
    streams: Sequence[Iterator[LogLine]], query: str, level: str, limit: int, *, tail: bool
) -> tuple[list[LogLine], Place | None]:
    """(what is found, at least one more than `limit` where there is more; where the time was up before the end).

    With `tail` the last of the streams comes first: what stands before its lines is often not needed.
    """
    levels = set(LEVELS[LEVELS.index(level) :]) if level else set(LEVELS)
    end_s = time.monotonic() + _SEARCH_LIMIT_S
    found: list[LogLine] = []
    stopped: Place | None = None
    for lines in reversed(streams) if tail else streams:
        kept: deque[LogLine] = deque(maxlen=limit + 1 - len(found))
        for looked_at, line in enumerate(lines, start=1):
            if line.level in levels and query.lower() in line.text.lower():
                kept.append(line)
            if not tail and len(kept) == kept.maxlen:
                break  # whatever time it is: who goes on does so after the last line shown, and this one is not
            if looked_at % 1000 == 0 and time.monotonic() > end_s:
                stopped = line.rank, line.line
                break
        found = [*kept, *found] if tail else [*found, *kept]
        if stopped or len(found) > limit:
            break
    return found, stopped


def _tokens(job: Job) -> list[int]:
    folder: Path = settings.STORE.job(job.pk).logs
    if not folder.is_dir():
        return []
    names = (path.name.removeprefix("attempt-") for path in folder.iterdir())
    return sorted(int(name) for name in names if name.isdigit())


def _rank_files(job: Job, token: int) -> dict[int, Path]:
    folder: Path = settings.STORE.job(job.pk).logs / f"attempt-{token}"
    if not folder.is_dir():
        return {}
    matches = ((path, _RANK_FILE.fullmatch(path.name)) for path in folder.iterdir())
    return {int(match.group(1)): path for path, match in matches if match and not path.is_symlink()}


def _lines(
    path: Path, token: int, rank: int, after: float, before: float, *, last: int | None = None
) -> Iterator[LogLine]:
    """Lines between these two; `last`: so many of them, and the others are not looked at, which would take long."""
    if after + 1 >= before:
        return
    # Only \n ends a line: \r belongs to progress bars that overwrite themselves.
    with path.open(encoding="utf-8", errors="replace", newline="\n") as stream:
        between = islice(enumerate(stream, start=1), int(after), None if math.isinf(before) else int(before) - 1)
        for number, raw in between if last is None else deque(between, maxlen=last):
            text = text_clean(raw)[:LINE_SHOWN_MAX]
            yield LogLine(token=token, rank=rank, line=number, text=text, level=level_of(text))


def job_logs_text(*, job: Job, rank: int | None = None, token: int | None = None) -> Iterator[bytes]:
    """All logs of an attempt (the newest) or of all (`token=0`) as plain text, ranks marked, escapes removed."""
    tokens = _tokens(job)
    chosen = tokens if token == 0 else [token if token is not None else (tokens[-1] if tokens else 0)]
    for attempt in chosen:
        for number, path in sorted(_rank_files(job, attempt).items()):
            if rank is None or rank == number:
                yield f"=== attempt {attempt}, rank {number} ===\n".encode()
                with path.open(encoding="utf-8", errors="replace", newline="\n") as stream:
                    for raw in stream:
                        yield (text_clean(raw) + "\n").encode()
