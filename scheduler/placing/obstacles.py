"""What stands between one job and the devices of its kind, as a `WaitReason`. Texts name no moments: they stay the same
until something happens; expected times are told beside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from scheduler.types import NodeView, Option, WaitCode, WaitReason, count_of
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
_MET_BY_MORE_NODES = frozenset({WaitCode.NO_NODES, WaitCode.NO_SUCH_DEVICE, WaitCode.TOO_MANY_DEVICES})
"""Against these a node that takes no work now may help."""
_CLOCK_OFF = "given nothing until the clock there is right (Pool)"
HOW_TO_JOIN = (
    "On one machine make run starts a node; another machine joins by dlh node join, with a token from dlh pool add."
)


def device_words(count: int, kind: str, model_name: str = "") -> str:
    """`2 GPUs`, `1 CPU core`, `4 GPUs (A100)`."""
    one, many = _KINDS.get(kind, (kind, kind))
    return f"{counted(count, one, many)}{f' ({model_name})' if model_name else ''}"


def _wanted(option: Option) -> str:
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


def never(
    nodes: Sequence[NodeNow], option: Option, level: int, *, spans_nodes: bool, apart: str = ""
) -> WaitReason | None:
    """Why no present node could ever run it; None where one could. `apart`: why several together do not, a sentence."""
    if not nodes:
        return WaitReason(
            code=WaitCode.NO_NODES,
            text="No node takes work.",
            remedy=f"It starts when a node with {_wanted(option)} is up. {HOW_TO_JOIN}",
        )
    most = _most(nodes, spans_nodes=spans_nodes)
    if most == 0:
        return WaitReason(
            code=WaitCode.NO_SUCH_DEVICE,
            text=f"No node that takes work has a {device_words(1, option.kind, option.model_name)[2:]}.",
            remedy="It starts when such a node is up; or take other devices by an offer: tab Cost, dlh jobs offer.",
        )
    if most < option.count:
        return _never_so_many(nodes, option, most, spans_nodes=spans_nodes, apart=apart)
    return _never_memory(nodes, option, spans_nodes) or _never_sandbox(nodes, option, level, spans_nodes)


def _never_so_many(nodes: Sequence[NodeNow], option: Option, most: int, *, spans_nodes: bool, apart: str) -> WaitReason:
    where, has = ("", "the pool has") if spans_nodes else (" on one node", "the largest that takes work has")
    has, together = f"{has} {most}", ""
    if apart and (everywhere := _most(nodes, spans_nodes=True)) < option.count:
        apart, has = "", f"{has}, all together {everywhere}"  # what keeps nodes apart is not what is in the way
    elif apart:
        together = ", or several can be used together"
    return WaitReason(
        code=WaitCode.TOO_MANY_DEVICES,
        text=" ".join(filter(None, (f"It needs {_wanted(option)}{where}; {has}.", apart))),
        remedy=f"It starts when a larger node is up{together}; or clone it with fewer devices.",
    )


def _never_memory(nodes: Sequence[NodeNow], option: Option, spans_nodes: bool) -> WaitReason | None:
    if spans_nodes:
        most = sum(min(now.total, option.devices_in(now.node.memory_bytes)) for now in nodes)
        enough, asked = most >= option.count, f"{size_words(option.memory_bytes / option.count)} per device"
        has = f"the nodes have memory for {most} of {option.count}"
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
    if _most(strong, spans_nodes=spans_nodes) >= option.count:
        return None
    best = max(now.node.sandbox_level for now in fitting if now.total)
    reach = f"{'fitting nodes' if best < level else 'too few nodes'} reach {best if best < level else level}"
    return WaitReason(
        code=WaitCode.SANDBOX_TOO_WEAK,
        text=f"This program needs sandbox level {level}; {reach}.",
        remedy="It starts on a node with a stronger sandbox, or when an admin lowers the least level.",
    )


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
    nodes: Sequence[NodeNow],
    option: Option,
    level: int,
    *,
    spans_nodes: bool,
    holders_on: Callable[[NodeView], Sequence[str]],
) -> WaitReason:
    """Why it waits though some present node could run it.

    `holders_on`: jobs on such devices of a node, those that are expected to end first first.
    """
    strong = [now for now in nodes if now.node.sandbox_level >= level]
    if spans_nodes:
        return _busy_pool(strong, option)
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
    has = f"It needs {_wanted(option)} on one node; {best.node.name} has {best.free} free"
    busy_there = _busy_devices(option, best.total, best.free, best.kept, has)
    return replace(busy_there, holders=tuple(holders_on(best.node)[:_NAMED]))


def _busy_pool(nodes: Sequence[NodeNow], option: Option) -> WaitReason:
    free = sum(now.free for now in nodes)
    kept = Kept(*(tuple(chain.from_iterable(keeps)) for keeps in zip(*(now.kept for now in nodes), strict=True)))
    if free >= option.count:
        return _behind(option)
    if free + len(kept.idle) >= option.count:
        return _reserved(option, free, kept)
    has = f"It needs {_wanted(option)}; {free} {'is' if free == 1 else 'are'} free"
    return _busy_devices(option, sum(now.total for now in nodes), free, kept, has)


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


def while_away(reason: WaitReason, away: Iterable[NodeView], option: Option) -> WaitReason:
    """The same where nodes that take no work have such devices: each with what keeps it from working."""
    if reason.code not in _MET_BY_MORE_NODES:
        return reason
    least = option.count if reason.code is WaitCode.TOO_MANY_DEVICES else 1
    names: dict[str, list[str]] = defaultdict(list)
    for node in sorted(away, key=lambda node: node.name):
        if count_of(node.counts, option) >= least:
            names["draining" if node.draining else _CLOCK_OFF if node.clock_off else "down"].append(node.name)
    text = " ".join([reason.text, *(_are(names[what], what) for what in sorted(names))])
    remedy = reason.remedy
    if kept := names.get("draining"):
        them = "it" if len(kept) == 1 else "them"
        undrain = f"An admin can let {them} take jobs again, on the pool page or by dlh pool undrain {kept[0]}."
        remedy = undrain if reason.code is WaitCode.NO_NODES else f"{remedy} {undrain}"
    return replace(reason, text=text, remedy=remedy)


def _are(names: Sequence[str], what: str) -> str:
    """A sentence about all of them, some by name."""
    told = f"{', '.join(names[:_NAMED])}{' and others' if len(names) > _NAMED else ''}"
    return f"{told} {'is' if len(names) == 1 else 'are'} {what}."


def _most(nodes: Sequence[NodeNow], *, spans_nodes: bool) -> int:
    counts = [now.total for now in nodes]
    return sum(counts) if spans_nodes else max(counts, default=0)


def _more(missing: int) -> str:
    return f"{missing} more {'is' if missing == 1 else 'are'}"


def _behind(option: Option) -> WaitReason:
    wanted = _wanted(option)
    return WaitReason(
        code=WaitCode.BEHIND,
        text=f"{wanted} {'is' if option.count == 1 else 'are'} free, but kept for jobs before it.",
        remedy="It starts after these, or as soon as it would not delay them.",
    )


def _reserved(option: Option, free: int, kept: Kept, where: str = "") -> WaitReason:
    return WaitReason(
        code=WaitCode.RESERVED,
        text=f"It needs {_wanted(option)}; what is free {where}is {_reserved_words(kept.idle)}.",
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
