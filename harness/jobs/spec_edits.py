"""What a person wrote into spec.yaml stays when the file is generated anew for another spec."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import SequenceMatcher

from worker.words import counted

_SPEC = "spec.yaml"


def spec_edits_kept(edited: dict[str, str], before: Mapping[str, str], made: Mapping[str, str]) -> str:
    """Have the spec.yaml among `edited` files follow `made`; what to tell of edits that gave way, else nothing.

    `before`: the files that were generated when the person edited them; without spec.yaml nothing changes.
    """
    if _SPEC not in edited or _SPEC not in before:
        return ""
    edited[_SPEC], lost = spec_file_merged(before[_SPEC], edited[_SPEC], made[_SPEC])
    return f"; {counted(lost, 'edit')} of spec.yaml gave way to it" if lost else ""


def spec_file_merged(before: str, written: str, made: str) -> tuple[str, int]:
    """(`made` with what a person changed of `before` to get `written`, how many places of it gave way).

    A place gives way where `made` has other lines than `before` had there: the newer wish counts.
    """
    old, mine, new = (text.splitlines(keepends=True) for text in (before, written, made))
    places = _same_lines(old, new)
    lost = 0
    for what, start, end, mine_start, mine_end in reversed(_matcher(old, mine).get_opcodes()):
        at = None if what == "equal" else _place_of(places, start, end)
        if at is not None:
            new[at : at + end - start] = mine[mine_start:mine_end]
        elif what != "equal":
            lost += 1
    return "".join(new), lost


def _matcher(old: list[str], new: list[str]) -> SequenceMatcher[str]:
    return SequenceMatcher(None, old, new, autojunk=False)


def _same_lines(old: list[str], new: list[str]) -> dict[int, int]:
    """Where lines of `old` stand in `new`, by their number; those before the first and behind the last among them."""
    blocks = _matcher(old, new).get_matching_blocks()
    same = {block.a + step: block.b + step for block in blocks for step in range(block.size)}
    return {-1: -1, **same, len(old): len(new)}


def _place_of(places: dict[int, int], start: int, end: int) -> int | None:
    """The line of the new file at which the old lines from `start` to `end` stand together; None where they do not."""
    if start == end:  # between two lines that still follow one another
        above, below = places.get(start - 1), places.get(end)
        return below if above is not None and below == above + 1 else None
    found = [places.get(line) for line in range(start, end)]
    first = found[0]
    return first if first is not None and found == list(range(first, first + end - start)) else None
