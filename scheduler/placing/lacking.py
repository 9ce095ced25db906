"""Why no node that takes work has so many devices for one job, and which nodes that take none now would let it start.

Texts name no moments, as those of `obstacles`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from scheduler.placing.obstacles import HOW_TO_JOIN, NodeNow, device_words, most_devices, wanted_words
from scheduler.types import DeviceKey, NodeView, Option, WaitCode, WaitReason, count_of

_NAMED = 3
"""So many nodes are named at most."""
_CLOCK_OFF = "given nothing until the clock there is right (Pool)"
_TO_START = "make run where the portal is, dlh node start on another machine"


def lacks(
    nodes: Sequence[NodeNow], away: Iterable[NodeView], option: Option, *, spans_nodes: bool, apart: str = ""
) -> WaitReason | None:
    """None where the nodes that take work have the devices. `away`: all others; `apart`: why several nodes together do
    not serve one job although that is wished, a sentence."""
    most = most_devices(nodes, spans_nodes=spans_nodes)
    if most >= option.count and nodes:
        return None
    having = [node for node in sorted(away, key=lambda node: node.name) if count_of(node.counts, option)]
    may_gang = spans_nodes or bool(apart and len(nodes) < 2)  # with one node nothing else has kept it from others yet
    if not nodes:
        return _no_nodes(having, option, may_gang=may_gang)
    if most == 0:
        return WaitReason(
            code=WaitCode.NO_SUCH_DEVICE,
            text=_with(f"No node that takes work has a {device_words(1, option.kind, option.model_name)[2:]}.", having),
            remedy="It starts when such a node is up; or take other devices by an offer: tab Cost, dlh jobs offer."
            + _undrain(having),
        )
    return _too_few(nodes, having, option, may_gang=may_gang, apart=apart)


def _no_nodes(having: Sequence[NodeView], option: Option, *, may_gang: bool) -> WaitReason:
    helping = _helping((), having, option, may_gang=may_gang)
    down = [node.name for node in helping if _is_down(node)]
    if helping:
        start = f" Start {_listed(down)} again: {_TO_START}." if down else ""
        remedy = f"It starts when {_when((), helping, option)}.{start}{_undrain(helping)}"
    else:
        remedy = f"It starts when a node with {wanted_words(option)} is up. {HOW_TO_JOIN}"
    return WaitReason(code=WaitCode.NO_NODES, text=_with("No node takes work.", having), remedy=remedy)


def _too_few(
    nodes: Sequence[NodeNow], having: Sequence[NodeView], option: Option, *, may_gang: bool, apart: str
) -> WaitReason:
    working, everywhere = [now.node for now in nodes], most_devices(nodes, spans_nodes=True)
    told = helping = _helping(working, having, option, may_gang=may_gang)
    when = "more nodes are up" if may_gang else "a larger node is up"
    if helping:
        when = _when(working if may_gang else (), helping, option)
    has = f"the largest that takes work has {most_devices(nodes, spans_nodes=False)}"
    if len(nodes) == 1:
        has, apart = f"the only node that takes work has {everywhere}", ""  # of the others it is told what they are
    elif may_gang:
        has = f"the nodes that take work have {everywhere}"
    elif apart and everywhere < option.count:
        has = f"{has}, all together {everywhere}"
        if together := _helping(working, having, option, may_gang=True):
            told, when = having, f"{when}, or several can be used together and {_when(working, together, option)}"
        else:
            apart = ""  # what keeps nodes apart is not what is in the way
    elif apart:
        when = f"{when}, or several can be used together"
    where = "" if may_gang else " on one node"
    return WaitReason(
        code=WaitCode.TOO_MANY_DEVICES,
        text=_with(" ".join(filter(None, (f"It needs {wanted_words(option)}{where}; {has}.", apart))), told),
        remedy=f"It starts when {when}; or clone it with fewer devices.{_undrain(told)}",
    )


def _helping(
    working: Sequence[NodeView], having: Sequence[NodeView], option: Option, *, may_gang: bool
) -> Sequence[NodeView]:
    """Those of `having` that would let it start: each by itself, or together beside those at work; else none."""
    if may_gang:
        return having if count_of(_total((*working, *having)), option) >= option.count else ()
    return [node for node in having if count_of(node.counts, option) >= option.count]


def _when(working: Sequence[NodeView], helping: Sequence[NodeView], option: Option) -> str:
    """What has to become of the helping ones: of one, of all or of enough. `working`: those that they would join."""
    names = [node.name for node in helping]
    if len(helping) == 1:
        (node,) = helping
        kept = "the clock of {} is right" if node.clock_off else "{} drains no longer" if node.draining else "{} is up"
        return kept.format(node.name)
    base, total = _total(working), _total((*working, *helping))
    each = [Counter(node.counts) for node in helping]
    if all(count_of(base + one, option) >= option.count for one in each):
        return f"one of {_listed(names)} takes work again"
    if all(count_of(total - one, option) < option.count for one in each):
        return f"{_listed(names)} take work again"
    return f"enough of {_listed(names)} take work again"


def _total(nodes: Iterable[NodeView]) -> Counter[DeviceKey]:
    found = Counter[DeviceKey]()
    for node in nodes:
        found.update(node.counts)
    return found


def _with(text: str, away: Iterable[NodeView]) -> str:
    """The text, and of each of the nodes what keeps it from working."""
    names: dict[str, list[str]] = defaultdict(list)
    for node in away:
        names["draining" if node.draining else _CLOCK_OFF if node.clock_off else "down"].append(node.name)
    are = (f"{_listed(of)} {'is' if len(of) == 1 else 'are'} {what}." for what, of in sorted(names.items()))
    return " ".join((text, *are))


def _undrain(away: Iterable[NodeView]) -> str:
    """How those that drain take work again, with a space before it; empty where none does."""
    names = [node.name for node in away if node.draining]
    if not names:
        return ""
    let = f"An admin can let {_listed(names)} take jobs again"
    return f" {let}, on the pool page or by dlh pool undrain {names[0]}."


def _is_down(node: NodeView) -> bool:
    return not node.draining and not node.clock_off


def _listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b, c and others`."""
    shown = [*names[:_NAMED], *(["others"] if len(names) > _NAMED else [])]
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
