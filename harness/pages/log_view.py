"""Log lines as the page shows them: which part, and the addresses of what stands before and behind it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import QueryDict

from harness.jobs.logs import LogPart, Place
from harness.jobs.models import Job
from harness.jobs.selectors import job_logs
from harness.pages.web import number_read

LINES = 300
"""Shown at once."""
_LINES_ABOVE = 50
"""Shown above a line that a link names."""
_KEPT = ("q", "rank", "level")


def logs_context(job: Job, given: QueryDict, *, is_part: bool = False) -> dict[str, Any]:
    """The newest lines for the filter in the address; with `line`, `before` or `after` those around or beyond it.

    `earlier` and `later` are queries for what stands before and behind the lines, empty where nothing does. With
    `is_part` they are for lines that continue a page, which has the other side already.
    """
    rank, line = number_read(given.get("rank", "")), number_read(given.get("line", ""), digits_max=12)
    before, after = _place(given.get("before", "")), _place(given.get("after", ""))
    is_start = not before and (after is not None or line is not None)
    above = max(0, line - 1 - _LINES_ABOVE) if line and not before and not after else 0
    logs = job_logs(
        job=job, rank=rank, query=given.get("q", ""), token=number_read(given.get("attempt", "")),
        level=given.get("level", "") if given.get("level") in {"warning", "error"} else "",
        part=LogPart(limit=LINES, after_line=above, tail=not is_start, after=after, before=before),
    )  # fmt: skip
    lines, more = logs["lines"], logs["more"]
    has_earlier = bool(lines) and ((above > 0 or (after is not None and not is_part)) if is_start else more)
    has_later = bool(lines) and (more if is_start else before is not None and not is_part)
    return {
        "logs": logs, "given": given, "query": given.get("q", ""), "target_line": line, "target_rank": rank,
        "is_part": is_part,
        "earlier": _query(given, logs["token"], "before", lines[0]) if has_earlier else "",
        "later": _query(given, logs["token"], "after", lines[-1]) if has_later and logs["stopped_line"] is None else "",
        "search_on": _search_on(given, logs, is_start=is_start),
    }  # fmt: skip


def _search_on(given: QueryDict, logs: dict[str, Any], *, is_start: bool) -> str:
    """Where a search goes on that ran out of time; of one for the last lines, which lie beyond, from the beginning."""
    if logs["stopped_line"] is None:
        return ""
    came_to = {"rank": logs["stopped_rank"], "line": logs["stopped_line"]} if is_start else {"rank": 0, "line": 0}
    return _query(given, logs["token"], "after", came_to)


def _place(text: str) -> Place | None:
    """The place that an address names as `rank:line`."""
    rank, _, line = text.partition(":")
    numbers = number_read(rank), number_read(line, digits_max=12)
    return (numbers[0], numbers[1]) if numbers[0] is not None and numbers[1] is not None else None


def _query(given: QueryDict, token: int, side: str, line: dict[str, Any]) -> str:
    kept = {name: given[name] for name in _KEPT if given.get(name)}
    return urlencode({**kept, "attempt": token, side: f"{line['rank']}:{line['line']}"})
