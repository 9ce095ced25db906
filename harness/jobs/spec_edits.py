"""What a person wrote into spec.yaml stays when the file is generated anew for another spec, and counts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any

import yaml

from codegen import safe_yaml
from codegen.spec_values import MOST
from harness.plain import value_at
from worker.words import counted

_SPEC = "spec.yaml"


def spec_edits_kept(
    edited: dict[str, str], before: Mapping[str, str], made: Mapping[str, str], changed: Collection[str] = ()
) -> int:
    """Have the spec.yaml among `edited` files follow `made`; how many edits gave way.

    `before`: the files that were generated when the person edited them; without spec.yaml nothing changes. `changed`:
    dotted names of fields that count as in `made`, whatever was written there.
    """
    if _SPEC not in edited or _SPEC not in before:
        return 0
    edited[_SPEC], lost = spec_file_merged(before[_SPEC], edited[_SPEC], made[_SPEC], changed)
    return lost


def gave_way_words(lost: int) -> str:
    """`1 edit of spec.yaml gave way to its spec`; nothing of none."""
    return f"{counted(lost, 'edit')} of spec.yaml gave way to its spec" if lost else ""


def gave_way_told(lost: int) -> list[str]:
    """The same as a sentence of its own, for answers to programs."""
    return [f"{gave_way_words(lost)}."] if lost else []


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


def spec_fields_edited(written: str, generated: str, fields: Collection[str]) -> list[str]:
    """Those of the `fields`, by dotted name, that a person gave another value; none of a text that is half written."""
    try:
        mine, was = safe_yaml.load(written), safe_yaml.load(generated)
    except safe_yaml.YamlFault:
        return []
    return [field for field in fields if value_at(mine, field) != value_at(was, field)]


def spec_file_merged(before: str, written: str, made: str, changed: Collection[str] = ()) -> tuple[str, int]:
    """(`made` with what a person changed of `before` to get `written`, how many places of it gave way).

    A place gives way where `made` has other lines than `before` had there: the newer wish counts; and so do the fields
    that are `changed`. All do where lines of both would make no YAML any more, name a value twice, or have another
    value than `made` in such a field.
    """
    mine, lost = _fields_put_back(_lines(written), before, changed)
    old, new = (_lines(text) for text in (before, made))
    places = _same_lines(old, new)
    edits = list(_edits(old, mine))
    of_all = len(edits) + lost
    for start, end, lines in reversed(edits):
        at = _place_of(places, start, end)
        if at is None:
            lost += 1
        else:
            new[at : at + end - start] = lines
    merged = "".join(new)
    if not _is_sound(written) or (_is_sound(merged) and not spec_fields_edited(merged, made, changed)):
        return merged, lost
    return made, of_all


def _fields_put_back(mine: list[str], before: str, fields: Collection[str]) -> tuple[list[str], int]:
    """(the lines with those of `fields` as they were `before`, how many places that changed)."""
    old, put_back = _lines(before), 0
    here, there = (_places_of_fields(lines, fields) if fields else {} for lines in (mine, old))
    whole = [field for field in here.keys() & there if not any(field.startswith(f"{other}.") for other in fields)]
    for field in sorted(whole, key=lambda field: here[field], reverse=True):
        (start, end), was = here[field], old[slice(*there[field])]
        if mine[start:end] != was:
            mine = [*mine[:start], *was, *mine[end:]]
            put_back += 1
    return mine, put_back


def _places_of_fields(lines: list[str], fields: Collection[str]) -> dict[str, tuple[int, int]]:
    """First line and the one behind the last of those of the `fields` that are there; none where it is no YAML."""
    try:
        whole = safe_yaml.compose("".join(lines))
    except safe_yaml.YamlFault:
        return {}
    found = ((field, _pair_at(whole, field)) for field in fields)
    return {field: _place_of_pair(lines, *pair) for field, pair in found if pair}


def _pair_at(node: yaml.Node | None, field: str) -> tuple[yaml.Node, yaml.Node] | None:
    pair = None
    for name in field.split("."):
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        pair = next((pair for pair in pairs if isinstance(pair[0], yaml.ScalarNode) and pair[0].value == name), None)
        if pair is None:
            return None
        node = pair[1]
    return pair


def _place_of_pair(lines: list[str], key: yaml.Node, value: yaml.Node) -> tuple[int, int]:
    start, last = key.start_mark.line, value.end_mark
    is_block = isinstance(value, yaml.CollectionNode) and not value.flow_style
    end = max(start + 1, last.line if is_block else last.line + (last.column > 0))
    while end > start + 1 and (not (line := lines[end - 1].strip()) or line.startswith("#")):
        end -= 1  # a block ends where the next value begins: what is between tells of that one
    return start, end


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
