"""How the rows of a step are shared out over ranks of unlike speed: all end at the same time, in whole rows.

Rank i takes t_i(B) seconds for B rows. Wanted are whole B_i with sum B_i = B whose latest finish, max_i t_i(B_i), is
least. Since t_i never falls, a finish T can be kept if and only if the most rows that each rank does by T add up to B.
The least such T is when some rank ends some number of rows: bisection over these numbers, once for ranks that are the
same, finds it exactly, and rows above B are taken from those that would end last.

Pure and of the standard library alone: the planner (`scheduler.estimation.split`) and a run use the same rule.
"""

from __future__ import annotations

import heapq
import json
import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from worker.words import counted

SecondsOf = Callable[[int], float]
"""Seconds that a rank takes for so many rows, from 1 on; never falls."""


@dataclass(frozen=True)
class Line:
    """t(B) = a + b B: the law of most programs from a few rows on."""

    fixed_s: float
    """a: whatever the rows."""
    row_s: float
    """b: per row."""

    def __post_init__(self) -> None:
        """Refuse what no device does."""
        if not (math.isfinite(self.fixed_s) and math.isfinite(self.row_s) and self.fixed_s >= 0 and self.row_s >= 0):
            raise ValueError(f"not a step time: {self.fixed_s} s + {self.row_s} s a row")

    def __call__(self, rows: int) -> float:
        """Seconds for so many rows."""
        return self.fixed_s + self.row_s * rows

    def scaled(self, factor: float) -> Line:
        """The same device, so many times as slow."""
        return Line(self.fixed_s * factor, self.row_s * factor)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What the platform planned for a gang; a rank gets it as the variable `DLH_SPLIT`."""

    rows: tuple[int, ...]
    """Per rank, of a whole batch. All 0: the devices are alike and share evenly while none is lastingly slower."""
    most: tuple[int, ...] = ()
    """Rows that fit in the memory of each rank's device; 0 or missing: any number."""
    lines: tuple[Line, ...] = ()
    """What each rank is expected to take."""
    correct: bool = True
    """Whether the run may change it by what it measures."""

    @property
    def alike(self) -> bool:
        """Whether all devices are."""
        return not any(self.rows)

    def fits(self, *, least: int = 1) -> bool:
        """Whether all rows fit in the memory of all ranks together, and `least` in that of each."""
        caps = _caps(self.most, sum(self.rows), len(self.rows))
        return sum(caps) >= sum(self.rows) and min(caps) >= least

    def among(self, ranks: Sequence[int], *, least: int = 1) -> Planned:
        """The same for these of its ranks, in this order. Fewer than all share out all rows anew, to end together.

        Without lines that is in proportion to the rows that each was to take. Where the rows do not fit in their
        memory it is in proportion to those that do, so that no device is overrun more than another, and stays so.
        Raises `ValueError` for fewer than `least` rows each.
        """
        total, rows = sum(self.rows), tuple(self.rows[rank] for rank in ranks)
        most = tuple(self.most[rank] for rank in ranks) if self.most else ()
        lines = tuple(self.lines[rank] for rank in ranks) if self.lines else ()
        if len(ranks) == len(self.rows):
            return replace(self, rows=rows, most=most, lines=lines)
        caps = _caps(most, total, len(ranks))
        if sum(caps) < total or min(caps) < least:
            return Planned(rows=in_proportion(caps, total, least=least), lines=lines, correct=False)
        if lines:
            rows = equal_finish(lines, total, least=least, most=most)
        else:
            rows = in_proportion(rows, total, least=least, most=most)
        return replace(self, rows=rows, most=most, lines=lines)

    def to_json(self) -> str:
        """JSON text."""
        return json.dumps(asdict(self))

    @staticmethod
    def read(text: str | None) -> Planned | None:
        """Inverse of `to_json`; None where nothing was planned. Raises `ValueError` for what is no plan."""
        if not text:
            return None
        try:
            body: dict[str, Any] = json.loads(text)
            return Planned(
                rows=tuple(map(int, body["rows"])),
                most=tuple(map(int, body.get("most", ()))),
                lines=tuple(Line(float(line["fixed_s"]), float(line["row_s"])) for line in body.get("lines", ())),
                correct=bool(body.get("correct", True)),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a split: {error}") from error


def _caps(most: Sequence[int], rows: int, ranks: int) -> list[int]:
    """Rows that fit in each rank's memory, all of them where any number does."""
    return [cap if cap > 0 else rows for cap in most or [0] * ranks]


@lru_cache(maxsize=4096)
def even(rows: int, ranks: int) -> tuple[int, ...]:
    """As even as whole rows allow: so a run shares them out where all ranks are alike, and so offers count them."""
    return tuple(rows * (rank + 1) // ranks - rows * rank // ranks for rank in range(ranks))


def epoch_steps(rows: int, batch_size: int, ranks: int = 1) -> int:
    """Steps of one epoch. A last batch smaller than half of the others, or with fewer than two rows a rank, is folded
    into the one before it: no step sees a single row (batch normalisation cannot), and no row is left out."""
    full, rest = divmod(rows, batch_size)
    keeps_rest = rest > 0 and 2 * rest >= batch_size and rest >= 2 * ranks
    return max(1, full + int(keeps_rest))


def equal_finish(
    seconds_of: Sequence[SecondsOf], rows: int, *, least: int = 1, most: Sequence[int] = ()
) -> tuple[int, ...]:
    """Rows per rank with the earliest common finish. Exact for any t_i that never fall.

    `least` rows per rank at least; with 0 a rank may be left out, where already its first row would end later than
    all the others. `most`: what fits in each rank's memory; 0 or missing: any number. Raises `ValueError` where `rows`
    are fewer than that or do not fit.
    """
    caps = [min(rows, cap) for cap in _caps(most, rows, len(seconds_of))]
    if rows < least * len(seconds_of) or any(cap < least for cap in caps):
        raise ValueError(
            f"{counted(rows, 'row')} cannot give {least} to each of {len(caps)} ranks, or the memory is too small"
        )
    if sum(caps) < rows:
        raise ValueError(f"{rows} rows do not fit in the memory of these devices: {sum(caps)} do")
    ranks = list(zip(map(id, seconds_of), caps, strict=True))
    laws = dict(zip(ranks, seconds_of, strict=True))
    alike = {key: _Alike(laws[key], key[1], count) for key, count in Counter(ranks).items()}
    finish = _earliest(list(alike.values()), rows, least)
    kept = {key: some.kept_by(finish, least) for key, some in alike.items()}
    shares = [kept[key] for key in ranks]
    return tuple(_without_surplus(shares, seconds_of, sum(shares) - rows, least))


@dataclass(frozen=True)
class _Alike:
    """Ranks that are the same."""

    seconds_of: SecondsOf
    cap: int
    count: int

    def kept_by(self, finish_s: float, least: int) -> int:
        """The most rows of each that are done by then."""
        return least + bisect_right(range(least + 1, self.cap + 1), finish_s, key=self.seconds_of)


def _earliest(alike: Sequence[_Alike], rows: int, least: int) -> float:
    """The least finish, in seconds, by which all rows can be done: some rank's least rows, or any others of it."""

    def in_time(finish_s: float) -> bool:
        return sum(some.count * some.kept_by(finish_s, least) for some in alike) >= rows

    low = max(some.seconds_of(least) if least else 0.0 for some in alike)
    if in_time(low):
        return low
    return min(end for some in alike for end in _first(some, least, in_time))


def _first(some: _Alike, least: int, in_time: Callable[[float], bool]) -> tuple[float, ...]:
    """When the fewest rows above `least` end that end late enough; nothing where even the most are too early."""
    more = range(least + 1, some.cap + 1)
    place = bisect_left(more, True, key=lambda rows: in_time(some.seconds_of(rows)))
    return (some.seconds_of(more[place]),) if place < len(more) else ()


def _without_surplus(shares: list[int], seconds_of: Sequence[SecondsOf], surplus: int, least: int) -> list[int]:
    """Take rows from those that would end last, of equals from those with most rows, of these from the first ranks.

    Ranks that are the same give a row each in one go: where more rows take no longer, hundreds are too many.
    """
    alike: dict[tuple[int, int], list[int]] = {}
    for rank, key in enumerate(zip(map(id, seconds_of), shares, strict=True)):
        alike.setdefault(key, []).append(rank)
    groups = list(alike.values())

    def entry(place: int) -> tuple[float, int, int]:
        rank = groups[place][0]
        return -seconds_of[rank](shares[rank]), -shares[rank], place

    latest = [entry(place) for place, ranks in enumerate(groups) if shares[ranks[0]] > least]
    heapq.heapify(latest)
    while surplus:
        level = [heapq.heappop(latest)]
        while latest and latest[0][:2] == level[0][:2]:
            level.append(heapq.heappop(latest))
        giving = sorted(rank for *_, place in level for rank in groups[place])[:surplus]
        for rank in giving:
            shares[rank] -= 1
        surplus -= len(giving)
        for *_, place in level:
            if shares[groups[place][0]] > least:
                heapq.heappush(latest, entry(place))
    return shares


def finish_s(seconds_of: Sequence[SecondsOf], shares: Sequence[int]) -> float:
    """When the last rank has done its rows; one without rows does nothing."""
    alike = {(id(seconds), rows): seconds for seconds, rows in zip(seconds_of, shares, strict=True) if rows}
    return max((seconds(rows) for (_, rows), seconds in alike.items()), default=0.0)


def in_proportion(shares: Sequence[int], count: int, *, least: int = 1, most: Sequence[int] = ()) -> tuple[int, ...]:
    """`count` rows (a last batch is smaller or larger than the others) shared out as `shares` are.

    By largest remainder, in whole numbers alone, so that every rank finds the same. `least` and `most` are kept where
    `count` allows it.
    """
    total = sum(shares)
    found = [count * share // total for share in shares]
    order = sorted(range(len(shares)), key=lambda rank: (-(count * shares[rank] % total), rank))
    for rank in order[: count - sum(found)]:
        found[rank] += 1
    caps = _caps(most, count, len(shares))
    if count >= least * len(shares):
        _level(found, [max(0, least - rows) for rows in found], [rows - least for rows in found])
    if sum(caps) >= count:
        over = [max(0, rows - cap) for cap, rows in zip(caps, found, strict=True)]
        _level(found, [cap - rows for cap, rows in zip(caps, found, strict=True)], over)
    return tuple(found)


def _level(found: list[int], room: list[int], spare: list[int]) -> None:
    """Move rows from ranks with some to spare to ranks with room, the largest first."""
    for taker in range(len(found)):
        for giver in sorted(range(len(found)), key=lambda rank: (-spare[rank], rank)):
            moved = min(room[taker], spare[giver])
            if moved > 0 and taker != giver:
                found[taker] += moved
                found[giver] -= moved
                room[taker] -= moved
                spare[giver] -= moved
