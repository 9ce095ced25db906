"""What a person wrote into spec.yaml stays when the file is generated anew for another spec, and counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any

import yaml

from codegen import safe_yaml
from codegen.spec_values import MOST
from harness.plain import value_at
from worker.words import counted

_SPEC = "spec.yaml"


def spec_edits_kept(edited: dict[str, str], before: Mapping[str, str], made: Mapping[str, str]) -> str:
    """Have the spec.yaml among `edited` files follow `made`; what to tell of edits that gave way, else nothing.

    `before`: the files that were generated when the person edited them; without spec.yaml nothing changes.
    """
    if _SPEC not in edited or _SPEC not in before:
        return ""
    edited[_SPEC], lost = spec_file_merged(before[_SPEC], edited[_SPEC], made[_SPEC])
    return f"; {counted(lost, 'edit')} of spec.yaml gave way to its spec" if lost else ""


def epochs_planned(written: Mapping[str, str], generated: Mapping[str, str], resolved: Mapping[str, Any]) -> int:
    """How many epochs a program runs: as its spec.yaml says where a person wrote into it, else as was `resolved`."""
    planned = int(value_at(resolved, "spec.training.epochs") or 0)
    if written.get(_SPEC) == generated.get(_SPEC):
        return planned
    try:
        found = value_at(safe_yaml.load(written.get(_SPEC, "")), "training.epochs")
    except safe_yaml.YamlFault:  # half written: it is refused when it is submitted
        return planned
    return found if isinstance(found, int) and not isinstance(found, bool) and 1 <= found <= MOST else planned


def spec_file_merged(before: str, written: str, made: str) -> tuple[str, int]:
    """(`made` with what a person changed of `before` to get `written`, how many places of it gave way).

    A place gives way where `made` has other lines than `before` had there: the newer wish counts. All do where lines of
    both would make no YAML any more, or name a value twice.
    """
    old, mine, new = (_lines(text) for text in (before, written, made))
    places = _same_lines(old, new)
    edits, lost = list(_edits(old, mine)), 0
    for start, end, lines in reversed(edits):
        at = _place_of(places, start, end)
        if at is None:
            lost += 1
        else:
            new[at : at + end - start] = lines
    merged = "".join(new)
    if _is_sound(merged) or not _is_sound(written):
        return merged, lost
    return made, len(edits)


def _lines(text: str) -> list[str]:
    """Each with its end, which is the same for all of them."""
    whole = text.replace("\r\n", "\n").removesuffix("\n")
    return [f"{line}\n" for line in whole.split("\n")] if text else []


def _edits(old: list[str], mine: list[str]) -> Iterator[tuple[int, int, list[str]]]:
    """(first line of `old`, the one behind the last, what stands there now); of as many lines as before each alone."""
    for what, start, end, mine_start, mine_end in _matcher(old, mine).get_opcodes():
        if what == "replace" and end - start == mine_end - mine_start:
            for line in range(end - start):
                yield start + line, start + line + 1, [mine[mine_start + line]]
        elif what != "equal":
            yield start, end, mine[mine_start:mine_end]


def _matcher(old: list[str], new: list[str]) -> SequenceMatcher[str]:
    """Lines that a long file has many times (`- 2`) begin no match: else each would be compared with all the others."""
    return SequenceMatcher(None, old, new)


def _is_sound(text: str) -> bool:
    """Whether it is YAML in which each name stands once."""
    try:
        return _names_once(safe_yaml.compose(text))
    except safe_yaml.YamlFault:
        return False


def _names_once(node: yaml.Node | None) -> bool:
    if isinstance(node, yaml.SequenceNode):
        return all(map(_names_once, node.value))
    if not isinstance(node, yaml.MappingNode):
        return True
    names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
    return len(names) == len(set(names)) and all(_names_once(value) for _, value in node.value)


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
