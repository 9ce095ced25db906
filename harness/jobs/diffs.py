"""What was edited, as a unified diff in bounded time: a person chooses both sides, and `difflib` alone is quadratic."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from difflib import Match, SequenceMatcher

PAIRS_MAX = 1_000_000
"""Pairs of lines that are compared, in all files together: those between the first and the last line that differ."""
LINES_MAX = 20_000
"""Lines of a diff."""
FEW_LINES, FEW_FACTOR = 200, 10
"""`difflib` leaves out lines that are there often, but not of fewer lines than this: their pairs take longer."""
_CONTEXT = 3


def files_diff(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Unified diff of all files; empty where they are alike.

    Files with more differing lines than are compared have all of these as changed, those of more lines than are shown
    a sentence.
    """
    parts: list[str] = []
    pairs_left = PAIRS_MAX
    for name in dict.fromkeys([*after, *before]):
        if before.get(name, "") == after.get(name, ""):
            continue
        matcher = _Matcher(before.get(name, ""), after.get(name, ""), pairs_left)
        pairs_left -= matcher.pairs
        groups = list(matcher.get_grouped_opcodes(_CONTEXT))
        lines = sum(old_end - old + new_end - new for group in groups for _, old, old_end, new, new_end in group)
        is_shown = len(parts) + lines <= LINES_MAX
        if matcher.is_whole and is_shown:
            parts.append(f"Too many lines of {name} differ to compare each: from first to last all are changed.\n")
        parts += [f"--- generated/{name}\n", f"+++ program/{name}\n"]
        if is_shown:
            parts += [line for group in groups for line in _hunk(matcher, group)]
        else:
            told = f"{len(matcher.old):,} lines as generated, {len(matcher.new):,} lines now"
            parts.append(f"{name} has {told}: too many changes to show. Download the program to compare them.\n")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in parts)


class _Matcher(SequenceMatcher[str]):
    """Compares only the lines between the head and the tail that both have, and those only if they are few."""

    def __init__(self, old: str, new: str, pairs_max: int) -> None:
        super().__init__(None, "", "")
        self.old, self.new = _lines(old), _lines(new)
        most = min(len(self.old), len(self.new))
        self.head = next((at for at in range(most) if self.old[at] != self.new[at]), most)
        most -= self.head
        self.tail = next((at for at in range(most) if self.old[-1 - at] != self.new[-1 - at]), most)
        ends = self.head + self.tail
        few = FEW_FACTOR if len(self.new) - ends < FEW_LINES else 1
        pairs = few * (len(self.old) - ends) * (len(self.new) - ends)
        self.is_whole = pairs > pairs_max
        self.pairs = 0 if self.is_whole else pairs

    def get_matching_blocks(self) -> list[Match]:
        """Runs of lines that both have, as `difflib` wants them."""
        old_end, new_end = len(self.old) - self.tail, len(self.new) - self.tail
        blocks = [Match(0, 0, self.head)]
        if self.pairs:
            inner = SequenceMatcher(None, self.old[self.head : old_end], self.new[self.head : new_end])
            blocks += [Match(self.head + at, self.head + to, size) for at, to, size in inner.get_matching_blocks()]
        blocks += [Match(old_end, new_end, self.tail), Match(len(self.old), len(self.new), 0)]
        return [block for block in blocks[:-1] if block.size] + blocks[-1:]


def _lines(text: str) -> list[str]:
    """Each with its end, a line feed alone: a form feed between two functions ends no line."""
    return [*io.StringIO(text, newline="\n")]


def _hunk(matcher: _Matcher, group: list[tuple[str, int, int, int, int]]) -> Iterator[str]:
    """One place that changed, with the lines around it."""
    (_, old, _, new, _), (_, _, old_end, _, new_end) = group[0], group[-1]
    yield f"@@ -{_range(old, old_end)} +{_range(new, new_end)} @@\n"
    for tag, old, old_end, new, new_end in group:
        if tag == "equal":
            yield from (f" {line}" for line in matcher.old[old:old_end])
            continue
        yield from (f"-{line}" for line in matcher.old[old:old_end])
        yield from (f"+{line}" for line in matcher.new[new:new_end])


def _range(start: int, stop: int) -> str:
    """Lines as a unified diff counts them: from 1, an empty range by the line before it."""
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"
