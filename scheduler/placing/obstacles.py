"""What stands between one job and the devices of its kind, as a `WaitReason`. Texts name no moments: they stay the same
until something happens; expected times are told beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from scheduler.types import DeviceKey, NodeView, Option, WaitCode, WaitReason, count_of
from worker.words import counted, size_words

_KINDS = {"cpu": ("CPU core", "CPU cores"), "cuda": ("GPU", "GPUs")}
_NAMED = 3
"""So many jobs are named at most."""
NEVER = frozenset(
    {
        WaitCode.NO_NODES,
        WaitCode.NO_SUCH_DEVICE,
        WaitCode.TOO_MANY_DEVICES,
        WaitCode.NOT_ENOUGH_MEMORY,
        WaitCode.SANDBOX_TOO_WEAK,
        WaitCode.QUOTA_TOO_SMALL,
    }
)
"""No waiting helps against these."""
HOW_TO_JOIN = (
    "On one machine make run starts a node; another machine joins by dlh node join, with a token from dlh pool add."
)


def device_words(count: int, kind: str, model_name: str = "") -> str:
    """`2 GPUs`, `1 CPU core`, `4 GPUs (A100)`."""
    one, many = _KINDS.get(kind, (kind, kind))
    return f"{counted(count, one, many)}{f' ({model_name})' if model_name else ''}"


def wanted_words(option: Option) -> str:
    """The devices that the option takes."""
    return device_words(option.count, option.kind, option.model_name)


Keep = tuple[float, tuple[str, ...]]
"""(when a device is no longer kept, what for)."""


class Kept(NamedTuple):
    """Devices that an admin keeps for others."""

    idle: tuple[Keep, ...] = ()
    """No job holds these ..."""
    held: tuple[Keep, ...] = ()
    """... but these."""


class NodeNow(NamedTuple):
    """One node that takes work, for one kind and model of device, after the decision."""

    node: NodeView
    total: int
    free: int
    memory_free_bytes: int
    kept: Kept = Kept()
    """By an admin, now or before the job would end."""


def most_devices(nodes: Sequence[NodeNow], option: Option, *, spans_nodes: bool) -> int:
    """As many as one job could have: of the largest node, or of all, whatever their sandbox levels."""
    if not spans_nodes:
        return max((now.total for now in nodes), default=0)
    if not option.parts:
        return sum(now.total for now in nodes)
    # What one level has of a mixture may be counted on another one as well.
    return count_of(sum((Counter(now.node.counts) for now in nodes), Counter[DeviceKey]()), option)


def never(nodes: Sequence[NodeNow], option: Option, level: int, *, spans_nodes: bool) -> WaitReason | None:
    """Why nodes that have the devices (`lacking`) could never run it; None where they could."""
    return _never_memory(nodes, option, spans_nodes=spans_nodes) or _never_sandbox(nodes, option, level, spans_nodes)


def _never_memory(
    nodes: Sequence[NodeNow], option: Option, *, spans_nodes: bool, where: str = "the nodes"
) -> WaitReason | None:
    if spans_nodes:
        most = _room(nodes, option)
        enough, asked = most >= option.count, f"{size_words(option.memory_bytes / option.count)} per device"
        has = f"{where} have memory for {most} of {option.count}"
    else:
        most_bytes = max(now.node.memory_bytes for now in nodes if now.total >= option.count)
        enough, asked = most_bytes >= option.memory_bytes, size_words(option.memory_bytes)
        has = f"the largest fitting node has {size_words(most_bytes)}"
    if enough:
        return None
    return WaitReason(
        code=WaitCode.NOT_ENOUGH_MEMORY, text=f"It asks for {asked}; {has}.", remedy="Clone it with less memory."
    )


def _never_sandbox(nodes: Sequence[NodeNow], option: Option, level: int, spans_nodes: bool) -> WaitReason | None:
    fitting = [now for now in nodes if spans_nodes or _holds(now, option)]
    strong = [now for now in fitting if now.node.sandbox_level >= level]
    if most_devices(strong, option, spans_nodes=spans_nodes) >= option.count:
        return None
    best = max(now.node.sandbox_level for now in fitting if now.total)
    reach = f"{'fitting nodes' if best < level else 'too few nodes'} reach {best if best < level else level}"
    return WaitReason(
        code=WaitCode.SANDBOX_TOO_WEAK,
        text=f"This program needs sandbox level {level}; {reach}.",
        remedy="It starts on a node with a stronger sandbox, or when an admin lowers the least level.",
    )


def never_memory_together(nodes: Sequence[NodeNow], option: Option, level: int) -> WaitReason | None:
    """Where no level is able: whether the nodes of one have the devices, and too little memory for them."""
    levels = by_level(nodes, level)
    room = {own: _room(those, option) for own, those in levels.items() if total_of(those) >= option.count}
    if not room:
        return None
    best = max(room, key=room.__getitem__)
    return _never_memory(levels[best], option, spans_nodes=True, where=f"the nodes of sandbox level {best}")


def able_levels(nodes: Sequence[NodeNow], option: Option, level: int) -> list[list[NodeNow]]:
    """The nodes of each sandbox level that could run it together: a gang lies on nodes of one level."""
    return [those for those in by_level(nodes, level).values() if _room(those, option) >= option.count]


def by_level(nodes: Sequence[NodeNow], least_level: int) -> dict[int, list[NodeNow]]:
    """Sandbox level -> nodes of it, of those that a gang together may lie on."""
    found: dict[int, list[NodeNow]] = {}
    for now in nodes:
        if now.node.sandbox_level >= least_level:
            found.setdefault(now.node.sandbox_level, []).append(now)
    return found


def total_of(nodes: Sequence[NodeNow]) -> int:
    """Devices of nodes of one sandbox level."""
    return sum(now.total for now in nodes)


def _room(nodes: Sequence[NodeNow], option: Option) -> int:
    """So many devices of a gang could be there together, each with its part of the memory."""
    if not option.memory_bytes:
        return total_of(nodes)
    return sum(min(now.total, option.devices_in(now.node.memory_bytes)) for now in nodes if now.total)


def quota(held: int, limit: int, option: Option, project: str, *, borrows: bool) -> WaitReason | None:
    """Why its project may not hold more; None where it may."""
    if option.count > limit and not borrows:
        return WaitReason(
            code=WaitCode.QUOTA_TOO_SMALL,
            text=f"It needs {device_words(option.count, option.kind)}; project {project} may hold {limit}.",
            remedy="Ask an admin for a larger quota, or clone it with fewer devices.",
        )
    over = held + option.count - limit
    if over <= 0:
        return None
    may = f"may hold {device_words(limit, option.kind)}{' without borrowing' if borrows else ''}"
    if option.count > limit:
        remedy = "It starts while other projects leave theirs unused, and may be put back when they need them again."
    else:
        or_borrow = ", or while other projects leave theirs unused" if borrows else ""
        remedy = f"It starts when jobs of the project give {over} back{or_borrow}."
    return WaitReason(
        code=WaitCode.QUOTA_USED,
        text=f"Project {project} {may} and holds {held}; this job needs {option.count}.",
        remedy=remedy,
    )


def busy(
    nodes: Sequence[NodeNow], option: Option, level: int, holders_on: Callable[[NodeView], Sequence[str]]
) -> WaitReason:
    """Why it waits though some present node could run it.

    `holders_on`: jobs on such devices of a node, those that are expected to end first first.
    """
    strong = [now for now in nodes if now.node.sandbox_level >= level]
    fitting = [now for now in strong if _holds(now, option)]
    with_devices = [now for now in fitting if now.free >= option.count]
    if any(now.memory_free_bytes >= option.memory_bytes for now in with_devices):
        return _behind(option)
    if with_devices:
        best = max(with_devices, key=lambda now: now.memory_free_bytes)
        left = size_words(max(0, best.memory_free_bytes))
        return WaitReason(
            code=WaitCode.MEMORY_BUSY,
            text=f"It asks for {size_words(option.memory_bytes)} and {best.node.name} has {left} left.",
            remedy="It starts when running jobs end there.",
            holders=tuple(holders_on(best.node)[:_NAMED]),
        )
    best = max(fitting, key=lambda now: (now.free, now.free + len(now.kept.idle)))
    if best.free + len(best.kept.idle) >= option.count:
        return _reserved(option, best.free, best.kept, f"on {best.node.name} ")
    has = f"It needs {wanted_words(option)} on one node; {best.node.name} has {best.free} free"
    busy_there = _busy_devices(option, best.total, best.free, best.kept, has)
    return replace(busy_there, holders=tuple(holders_on(best.node)[:_NAMED]))


def busy_together(levels: Sequence[Sequence[NodeNow]], option: Option) -> WaitReason:
    """Why a gang waits though the nodes of each of these sandbox levels could run it: told of the nearest to that."""
    nodes = levels[0] if len(levels) == 1 else max(levels, key=lambda those: _nearness(those, option))
    free = sum(now.free for now in nodes)
    kept = Kept(*(tuple(chain.from_iterable(keeps)) for keeps in zip(*(now.kept for now in nodes), strict=True)))
    if free >= option.count:
        with_memory = _with_memory(nodes, option)
        return _behind(option) if with_memory >= option.count else _memory_busy_pool(option, with_memory)
    if free + len(kept.idle) >= option.count:
        return _reserved(option, free, kept)
    has = f"It needs {wanted_words(option)}; {free} {'is' if free == 1 else 'are'} free"
    return _busy_devices(option, total_of(nodes), free, kept, has)


def _nearness(nodes: Sequence[NodeNow], option: Option) -> tuple[int, int, int]:
    """How much of them is free with memory beside it, is free, and would be without what is kept."""
    free = sum(now.free for now in nodes)
    return _with_memory(nodes, option), free, free + sum(len(now.kept.idle) for now in nodes)


def _with_memory(nodes: Sequence[NodeNow], option: Option) -> int:
    return sum(min(now.free, option.devices_in(max(0, now.memory_free_bytes))) for now in nodes if now.free)


def _memory_busy_pool(option: Option, with_memory: int) -> WaitReason:
    each = f"{size_words(option.memory_bytes / option.count)} {'for each device' if option.count > 1 else ''}".strip()
    return WaitReason(
        code=WaitCode.MEMORY_BUSY,
        text=f"It asks for {each}; beside the devices that are free there is memory left for {with_memory} of "
        f"{option.count}.",
        remedy="It starts when running jobs end there.",
    )


def _busy_devices(option: Option, total: int, free: int, kept: Kept, has: str) -> WaitReason:
    """Jobs hold what it waits for; where their devices are not enough, what is reserved is waited for as well."""
    keeps = (*kept.idle, *kept.held)
    needed = option.count - (total - len(keeps))
    if not 0 < needed <= len(keeps):
        return WaitReason(
            code=WaitCode.DEVICES_BUSY,
            text=f"{has}.",
            remedy=f"It starts when {_more(option.count - free)} given back.",
        )
    return WaitReason(
        code=WaitCode.RESERVED,
        text=f"{has}, and {len(keeps)} {'is' if len(keeps) == 1 else 'are'} {_reserved_words(keeps)}.",
        remedy="It starts once jobs have given back what else it needs, and the reservation ends or is lifted.",
        kept_until_s=_end_s(keeps, needed),
    )


def _holds(now: NodeNow, option: Option) -> bool:
    return now.total >= option.count and now.node.memory_bytes >= option.memory_bytes


def _more(missing: int) -> str:
    return f"{missing} more {'is' if missing == 1 else 'are'}"


def _behind(option: Option) -> WaitReason:
    wanted = wanted_words(option)
    return WaitReason(
        code=WaitCode.BEHIND,
        text=f"{wanted} {'is' if option.count == 1 else 'are'} free, but kept for jobs before it.",
        remedy="It starts after these, or as soon as it would not delay them.",
    )


def _reserved(option: Option, free: int, kept: Kept, where: str = "") -> WaitReason:
    return WaitReason(
        code=WaitCode.RESERVED,
        text=f"It needs {wanted_words(option)}; what is free {where}is {_reserved_words(kept.idle)}.",
        remedy="It starts when the reservation ends or is lifted.",
        kept_until_s=_end_s(kept.idle, option.count - free),
    )


def _end_s(keeps: Sequence[Keep], count: int) -> float:
    """When so many of them are no longer kept."""
    return sorted(end_s for end_s, _ in keeps)[count - 1]


def _reserved_words(keeps: Sequence[Keep]) -> str:
    named = list(dict.fromkeys(purpose for _, purposes in keeps for purpose in purposes if purpose))[:_NAMED]
    for_what = f" ({'; '.join(named)})" if named else ""
    return f"reserved{for_what}, now or before it would end"


def names_purpose(text: str, purpose: str) -> bool:
    """Whether the text of a reason `RESERVED` names this purpose as a whole, not only one that it is a part of."""
    named = text.partition(" reserved (")[2].rpartition("), now or before")[0]
    return bool(purpose) and f"; {purpose}; " in f"; {named}; "
