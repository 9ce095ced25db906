"""Devices of nodes that take work which one job cannot have as things are: those that their node does not see now, and
those that were declared slower or faster since somebody took them from an offer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from scheduler.kinds import real_name
from scheduler.placing.obstacles import device_words
from scheduler.types import DeviceKey, NodeView, Option, count_of


class Hidden(NamedTuple):
    """What of it would let the job start."""

    facts: tuple[str, ...] = ()
    """Sentences: what is there."""
    when: tuple[str, ...] = ()
    """What has to happen, each after "It starts when"."""


def hidden(nodes: Sequence[NodeView], option: Option, *, may_gang: bool) -> Hidden:
    """Of nodes that could run it; nothing where even all of that would not do."""
    found = [(node, _unseen(node, option), _declared_otherwise(node, option)) for node in nodes]
    found = [(node, unseen, declared) for node, unseen, declared in found if unseen or declared]
    if may_gang:
        base = Counter[DeviceKey]()
        for node in nodes:
            base.update(node.counts)
        unseen_all = sum((unseen for _, unseen, _ in found), Counter[DeviceKey]())
        declared_all = sum((declared for _, _, declared in found), Counter[DeviceKey]())
        helping = found if _would_do(base, unseen_all, declared_all, option) else []
    else:
        helping = [
            (node, unseen, declared)
            for node, unseen, declared in found
            if _would_do(Counter(node.counts), unseen, declared, option)
        ]
    return Hidden(
        facts=tuple(fact for one in helping for fact in _facts(*one)),
        when=tuple(when for one in helping for when in _when(*one)),
    )


def _unseen(node: NodeView, option: Option) -> Counter[DeviceKey]:
    return Counter(key for key in node.unseen if key[0] == option.kind and option.takes(key[1]))


def _declared_otherwise(node: NodeView, option: Option) -> Counter[DeviceKey]:
    """Of a model that the option takes, but by another declaration; none where it takes any."""
    models = {real_name(name)[0] for name, _ in option.by_model if name}
    return Counter(
        {
            key: count
            for key, count in node.counts.items()
            if key[0] == option.kind and not option.takes(key[1]) and real_name(key[1])[0] in models
        }
    )


def _would_do(
    there: Counter[DeviceKey], unseen: Counter[DeviceKey], declared: Counter[DeviceKey], option: Option
) -> bool:
    """Whether all of it together would be enough: by each declaration, and of each model, as one device is one."""
    real, wanted = Counter[str](), Counter[str]()
    for (kind, name), count in (there + unseen).items():
        real[real_name(name)[0]] += count if kind == option.kind else 0
    for name, count in option.by_model:
        wanted[real_name(name)[0]] += count
    enough = all(real[model] >= count for model, count in wanted.items() if model)
    return enough and count_of(there + _back(unseen, declared, option), option) >= option.count


def _back(unseen: Counter[DeviceKey], declared: Counter[DeviceKey], option: Option) -> Counter[DeviceKey]:
    """The devices as the option would have them: of one that it takes by two declarations, as either."""
    found = Counter(unseen)
    for (kind, name), count in declared.items():
        for wanted, _ in option.by_model:
            if real_name(wanted)[0] == real_name(name)[0]:
                found[kind, wanted] += count
    return found


def _facts(node: NodeView, unseen: Counter[DeviceKey], declared: Counter[DeviceKey]) -> Iterable[str]:
    for (kind, name), count in sorted(unseen.items()):
        yield f"{node.name} does not see {device_words(count, kind, name)} of its own now."
    for (kind, name), count in sorted(declared.items()):
        yield f"{node.name} has {device_words(count, kind, name)} now."


def _when(node: NodeView, unseen: Counter[DeviceKey], declared: Counter[DeviceKey]) -> Iterable[str]:
    if unseen:
        yield f"{node.name} sees {'it' if unseen.total() == 1 else 'them'} again"
    if declared:
        yield f"an admin declares those of {node.name} as they were (Pool, dlh pool slow)"
