"""`Row`: like things of one place (devices of a node, its memory, the quota of a project) over time.

Each thing is busy or free now, may be promised to a waiting job later (`first_s`), and is free for good from `ready_s`.
Things of equal fate form one `Span`, so that ten thousand devices are a handful of spans. A job may start now on things
that nobody needs before its end; a job that has to wait is put behind everything that is planned already. So a later
job never delays an earlier one (conservative backfill).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from scheduler.kinds import Parts
from scheduler.types import Reserved

UNKNOWN = "?"
"""Holder that the scheduler was not told of."""
NOBODY: frozenset[str] = frozenset()


@dataclass(slots=True)
class Span:
    """Things of one place with one fate. Nothing changes one; to freeze the thousands of a decision takes time."""

    count: int
    ready_s: float
    """Free for good from then: after what runs and what is promised."""
    first_s: float = math.inf
    """Start of the first promise on it."""
    holder: str = ""
    """Job that holds it now; empty: free."""
    model: str = ""
    kept: tuple[Reserved, ...] = ()
    """Times over which an admin keeps it."""

    def is_for(self, project: str, now_s: float) -> bool:
        """Whether an admin keeps it for jobs of this project now."""
        return any(keep.project == project and keep.holds(now_s) for keep in self.kept) if project else False

    def seen_by(self, project: str, now_s: float) -> Span:
        """The same as jobs of a project find it: reservations of others are promises like any."""
        others = [keep for keep in self.kept if keep.end_s > now_s and (not keep.project or keep.project != project)]
        if not others:
            return self
        start_s = min(keep.start_s for keep in others)
        return replace(
            self,
            ready_s=max(self.ready_s, *(keep.end_s for keep in others)),
            first_s=min(self.first_s, start_s),
            holder=self.holder or (UNKNOWN if start_s <= now_s else ""),
        )


@dataclass(frozen=True, slots=True)
class Want:
    """Which things of a row a job may use."""

    model: str = ""
    """Empty: any."""
    project: str = ""
    parts: Parts = ()
    """Of a mixture: (model, how many)."""
    own: bool = False
    """Only what is kept for the project now."""

    def alone(self) -> list[tuple[Want, int]]:
        """What the parts of a mixture want, each by itself."""
        return [(Want(name, self.project, own=self.own), count) for name, count in self.parts]

    def met_by(self, models: Collection[str]) -> bool:
        """Whether things of these models can be all that is wanted."""
        if self.parts:
            return all(name in models for name, _ in self.parts)
        return not self.model or self.model in models


class Row:
    """Spans sorted by `ready_s`."""

    def __init__(self, now_s: float, *, plain: bool = True) -> None:
        """An empty row; `plain` where all things are of one model and no admin keeps any."""
        self.now_s = now_s
        self.plain = plain
        self.spans: list[Span] = []
        self._ready_s: list[float] = []
        """Of each of `spans`."""
        self.free: list[Span] = []
        """Those that nobody holds now."""

    def add(self, span: Span) -> None:
        """Put things in."""
        position = bisect_right(self._ready_s, span.ready_s)
        self.spans.insert(position, span)
        self._ready_s.insert(position, span.ready_s)
        if not span.holder:
            self.free.append(span)

    def total(self, want: Want) -> int:
        """All things, busy or not; of a mixture as many as it has, or none."""
        if want.parts:
            whole = all(self.total(one) >= count for one, count in want.alone())
            return sum(count for _, count in want.parts) if whole else 0
        if want.own:
            return sum(seen.count for _, seen in self._seen(self.spans, want))
        return sum(span.count for span in self.spans if not want.model or self.plain or span.model == want.model)

    def usable(self, end_s: float, want: Want, victims: Collection[str] = NOBODY) -> int:
        """Things that are free now (or once `victims` have gone) and that nobody needs before `end_s`."""
        if want.parts:
            return sum(min(count, self.usable(end_s, one, victims)) for one, count in want.alone())
        spans = self.spans if victims else self.free
        return sum(
            seen.count
            for _, seen in self._seen(spans, want)
            if seen.first_s >= end_s and (not seen.holder or seen.holder in victims)
        )

    def ready(self, width: int, want: Want) -> float:
        """When so many are free for good; infinite where nobody can tell or there are not so many."""
        if want.parts:
            return max(self.ready(count, one) for one, count in want.alone())
        if self.plain:
            found = 0
            for span in self.spans:
                found += span.count
                if found >= width:
                    return span.ready_s
            return math.inf
        found = 0
        for _, seen in sorted(self._seen(self.spans, want), key=lambda pair: pair[1].ready_s):
            found += seen.count
            if found >= width:
                return seen.ready_s
        return math.inf

    def ready_by(self, start_s: float) -> int:
        """Things of a plain row that are free for good by then."""
        return sum(span.count for span in self.spans[: bisect_right(self._ready_s, start_s)])

    def steps(self, want: Want) -> tuple[list[float], list[float]]:
        """(when 1, 2, 3 ... things are free for good; until when 1, 2, 3 ... are free from now).

        A mixture is free as a whole or not at all.
        """
        if want.parts:
            return self._steps_together(want)
        ready: list[float] = []
        gaps: list[float] = []
        if self.plain and want.own:
            return ready, gaps
        for seen in self.spans if self.plain else [seen for _, seen in self._seen(self.spans, want)]:
            ready += [seen.ready_s] * seen.count
            if not seen.holder:
                gaps += [seen.first_s] * seen.count
        if not self.plain:
            ready.sort()
        gaps.sort(reverse=True)
        return ready, gaps

    def start(self, width: int, end_s: float, want: Want, holder: str) -> None:
        """Give `width` usable things to a job until `end_s`: first those that are kept for its project, of these and
        others the ones with the shortest gap that will do. Raises `ValueError` where fewer are free."""
        for one, count in want.alone():
            self.start(count, end_s, one, holder)
        if want.parts:
            return
        for span in self._best_first(end_s, want):
            taken = self._take(span, width)
            ready_s = end_s if math.isinf(span.first_s) else max(span.ready_s, end_s)
            self.add(Span(taken, ready_s, span.first_s, holder, span.model, span.kept))
            width -= taken
            if not width:
                return
        raise ValueError(f"{width} too few are free")

    def _best_first(self, end_s: float, want: Want) -> list[Span]:
        """What can be given away until then, in the order of `start`."""
        if self.plain:
            alike = [] if want.own else [span for span in self.free if span.first_s >= end_s]
            return alike if len(alike) < 2 else sorted(alike, key=lambda span: (span.first_s, -span.ready_s))
        fitting = [
            (not span.is_for(want.project, self.now_s), seen.first_s, -seen.ready_s, number, span)
            for number, (span, seen) in enumerate(self._seen(self.free, want))
            if seen.first_s >= end_s and not seen.holder
        ]
        return [span for *_, span in sorted(fitting, key=lambda item: item[:4])]

    def reserve(self, width: int, start_s: float, end_s: float, want: Want) -> None:
        """Promise `width` things from `start_s` to `end_s`: the ones that are ready last, to leave the others free.
        Raises `ValueError` where fewer are ready."""
        for one, count in want.alone():
            self.reserve(count, start_s, end_s, one)
        if want.parts:
            return
        for span in self._ready_by(start_s, want):
            taken = self._take(span, width)
            self.add(Span(taken, end_s, min(span.first_s, start_s), span.holder, span.model, span.kept))
            width -= taken
            if not width:
                return
        raise ValueError(f"{width} too few are ready at {start_s}")

    def release(self, holder: str) -> None:
        """A job leaves now."""
        for span in [span for span in self.spans if span.holder == holder]:
            self._take(span, span.count)
            ready_s = self.now_s if math.isinf(span.first_s) else span.ready_s
            self.add(Span(span.count, ready_s, span.first_s, "", span.model, span.kept))

    def occupy(self, width: int, end_s: float, holder: str) -> int:
        """Somebody holds up to `width` free things whatever is promised on them; return how many."""
        taken = 0
        while self.free and taken < width:
            span = self.free[0]
            count = self._take(span, width - taken)
            ready_s = end_s if math.isinf(span.first_s) else max(span.ready_s, end_s)
            self.add(Span(count, ready_s, span.first_s, holder, span.model, span.kept))
            taken += count
        return taken

    def _steps_together(self, want: Want) -> tuple[list[float], list[float]]:
        width = self.total(want)
        if not width:
            return [], []
        ready_s, gap_s = self.ready(width, want), math.inf
        for one, count in want.alone():
            gaps = self.steps(one)[1]
            gap_s = min(gap_s, gaps[count - 1] if len(gaps) >= count else -math.inf)
        return [ready_s] * width, [] if math.isinf(gap_s) and gap_s < 0 else [gap_s] * width

    def _ready_by(self, start_s: float, want: Want) -> list[Span]:
        if self.plain:
            return self.spans[: bisect_right(self._ready_s, start_s)][::-1]
        pairs = [(seen.ready_s, span) for span, seen in self._seen(self.spans, want) if seen.ready_s <= start_s]
        return [span for _, span in sorted(pairs, key=lambda pair: -pair[0])]

    def _seen(self, spans: list[Span], want: Want) -> Iterator[tuple[Span, Span]]:
        """Spans that the job may use, each with how the job sees it."""
        if self.plain:
            return iter(()) if want.own else ((span, span) for span in spans)
        return (
            (span, span.seen_by(want.project, self.now_s))
            for span in spans
            if (not want.model or span.model == want.model) and (not want.own or span.is_for(want.project, self.now_s))
        )

    def _take(self, span: Span, width: int) -> int:
        """Take up to `width` out of a span; return how many."""
        taken = min(span.count, width)
        position = bisect_right(self._ready_s, span.ready_s) - 1
        while self.spans[position] is not span:
            position -= 1
        del self.spans[position], self._ready_s[position]
        if not span.holder:
            self.free = [other for other in self.free if other is not span]
        left = span.count - taken
        if left:
            self.add(Span(left, span.ready_s, span.first_s, span.holder, span.model, span.kept))
        return taken
