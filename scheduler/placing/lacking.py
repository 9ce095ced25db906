"""Why no node that takes work has so many devices for one job, and which nodes that take none now would let it start.

Texts name no moments, as those of `obstacles`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from scheduler.placing.hidden import Hidden, hidden
from scheduler.placing.obstacles import (
    HOW_TO_JOIN,
    NodeNow,
    by_level,
    device_words,
    most_devices,
    total_of,
    wanted_words,
)
from scheduler.types import DeviceKey, NodeView, Option, WaitCode, WaitReason, count_of
from worker.words import size_words

_NAMED = 3
"""So many nodes are named at most."""
_CLOCK_OFF = "given nothing until the clock there is right (Pool)"
_TWINS = "given nothing while two machines report as one node (Pool)"
_TO_START = "make run where the portal is, dlh node start on another machine"


class _Wish(NamedTuple):
    """What the job asks for."""

    option: Option
    level: int
    """Of the sandbox, at least."""
    may_gang: bool
    """Whether several nodes may serve it together."""

    def enough(self, devices: Counter[DeviceKey]) -> bool:
        return count_of(devices, self.option) >= self.option.count

    def little_memory(self, node: NodeView) -> bool:
        """Whether the node has none for a device of it, whatever else is up."""
        if self.may_gang:
            return self.option.devices_in(node.memory_bytes) == 0
        return node.memory_bytes < self.option.memory_bytes

    def could_run_on(self, node: NodeView) -> bool:
        return node.sandbox_level >= self.level and not self.little_memory(node)

    def room(self, node: NodeView) -> Counter[DeviceKey]:
        """Its devices; of such as a gang takes no more than it has memory for."""
        found = Counter(node.counts)
        if self.may_gang:
            wanted = [key for key in sorted(found) if key[0] == self.option.kind and self.option.takes(key[1])]
            room = self.option.devices_in(node.memory_bytes)
            for key in wanted:
                found[key] = min(found[key], room)
                room -= found[key]
        return found

    def by_level(self, nodes: Iterable[NodeView]) -> defaultdict[int, Counter[DeviceKey]]:
        """Sandbox level -> what those of it have together: a gang lies on nodes of one level."""
        found = defaultdict[int, Counter[DeviceKey]](Counter)
        for node in nodes:
            found[node.sandbox_level].update(self.room(node))
        return found

    def helping(self, working: Sequence[NodeView], having: Sequence[NodeView]) -> Sequence[NodeView]:
        """Those of `having` that would let it start: each by itself, or together beside those at work; else none."""
        if self.may_gang:
            together = self.by_level((*working, *having))
            return [node for node in having if self.enough(together[node.sandbox_level])]
        return [node for node in having if self.enough(Counter(node.counts))]

    def missed(self, working: Sequence[NodeView], weak: Sequence[NodeView]) -> Sequence[NodeView]:
        """Those of `weak` that would let it start if they were not: had they the memory, and the level of others."""
        if self.may_gang:
            together = Counter[DeviceKey]()
            for node in (*working, *weak):
                together.update(node.counts)
            return weak if self.enough(together) else ()
        return [node for node in weak if self.enough(Counter(node.counts))]


class _Away(NamedTuple):
    """Nodes that take no work and have such devices, by name."""

    all: Sequence[NodeView]
    able: Sequence[NodeView]
    """Without those that could not run the job were they up."""
    weak: Sequence[NodeView]
    """Those."""


def lacks(
    nodes: Sequence[NodeNow],
    away: Iterable[NodeView],
    option: Option,
    level: int,
    *,
    spans_nodes: bool,
    apart: str = "",
) -> WaitReason | None:
    """None where the nodes that take work have the devices. `away`: all others; `level`: of the sandbox, at least;
    `apart`: why several nodes together do not serve one job although that is wished, a sentence."""
    most = most_devices(nodes, option, spans_nodes=spans_nodes)
    if most >= option.count and nodes:
        return None
    may_gang = spans_nodes or bool(apart and len(nodes) < 2)  # with one node nothing else has kept it from others yet
    wish = _Wish(option, level, may_gang)
    having = _having(away, wish)
    if not nodes:
        return _no_nodes(having, wish)
    working = [now.node for now in nodes]
    there = _hidden(working, wish)
    if most == 0:
        return _no_such(working, having, there, wish)
    return _too_few(nodes, having, there, wish, apart=apart)


def lacks_on_one_level(nodes: Sequence[NodeNow], away: Iterable[NodeView], option: Option, level: int) -> WaitReason:
    """Where only nodes of several sandbox levels have the devices together."""
    totals = {own: total for own, those in sorted(by_level(nodes, level).items()) if (total := total_of(those))}
    wish, working = _Wish(option, level, may_gang=True), [now.node for now in nodes]
    helping, there = wish.helping(working, _having(away, wish).able), _hidden(working, wish)
    has = " and ".join(f"{count} on those of level {own}" for own, count in totals.items())
    are = "is" if next(iter(totals.values())) == 1 else "are"
    when = (*there.when, _when(working, helping, wish) if helping else "more nodes of one level are up")
    needs = f"It needs {wanted_words(option)} on nodes of one sandbox level; there {are} {has}."
    return WaitReason(
        code=WaitCode.TOO_MANY_DEVICES,
        text=_with(" ".join((needs, *there.facts)), helping),
        remedy=f"It starts when {', or '.join(when)}; or clone it with fewer devices.{_undrain(helping)}",
    )


def _having(away: Iterable[NodeView], wish: _Wish) -> _Away:
    all_away = [node for node in sorted(away, key=lambda node: node.name) if count_of(node.counts, wish.option)]
    able = [node for node in all_away if wish.could_run_on(node)]
    return _Away(all_away, able, [node for node in all_away if not wish.could_run_on(node)])


def _hidden(working: Sequence[NodeView], wish: _Wish) -> Hidden:
    able = [node for node in working if wish.could_run_on(node)]
    levels = sorted({node.sandbox_level for node in able}) if wish.may_gang else ()
    groups = [[node for node in able if node.sandbox_level == level] for level in levels] or [able]
    found = [hidden(those, wish.option, may_gang=wish.may_gang) for those in groups]
    return Hidden(
        facts=tuple(fact for one in found for fact in one.facts), when=tuple(when for one in found for when in one.when)
    )


def _no_nodes(having: _Away, wish: _Wish) -> WaitReason:
    helping = wish.helping((), having.able)
    weak = wish.missed((), having.weak)
    down = [node.name for node in helping if _is_down(node)]
    if helping:
        start = f" Start {_listed(down)} again: {_TO_START}." if down else ""
        remedy = f"It starts when {_when((), helping, wish)}.{start}{_undrain(helping)}"
    else:
        which = "another node" if weak else "a node"
        remedy = f"It starts when {which} with {wanted_words(wish.option)} is up. {HOW_TO_JOIN}"
    text = _with("No node takes work.", having.all) + _weak_words(weak, wish)
    return WaitReason(code=WaitCode.NO_NODES, text=text, remedy=remedy)


def _no_such(working: Sequence[NodeView], having: _Away, there: Hidden, wish: _Wish) -> WaitReason:
    option, weak = wish.option, wish.missed(working, having.weak)
    none = f"No node that takes work has a {device_words(1, option.kind, option.model_name)[2:]}."
    such = "another such node is up" if weak and not having.able else "such a node is up"
    return WaitReason(
        code=WaitCode.NO_SUCH_DEVICE,
        text=_with(" ".join((none, *there.facts)), having.all) + _weak_words(weak, wish),
        remedy=f"It starts when {', or '.join((*there.when, such))}; or take other devices by an offer: tab Cost, "
        f"dlh jobs offer.{_undrain(having.able)}",
    )


def _too_few(nodes: Sequence[NodeNow], having: _Away, there: Hidden, wish: _Wish, *, apart: str) -> WaitReason:
    working, everywhere = [now.node for now in nodes], most_devices(nodes, wish.option, spans_nodes=True)
    told = helping = wish.helping(working, having.able)
    weak = wish.missed(working, having.weak)
    when = "more nodes are up" if wish.may_gang else "a larger node is up"
    if helping:
        when = _when(working if wish.may_gang else (), helping, wish)
    when = ", or ".join((*there.when, when))
    has = f"the largest that takes work has {most_devices(nodes, wish.option, spans_nodes=False)}"
    if len(nodes) == 1:
        has, apart = f"the only node that takes work has {everywhere}", ""  # of the others it is told what they are
    elif wish.may_gang:
        has = f"the nodes that take work have {everywhere}"
    elif apart and everywhere < wish.option.count:
        has = f"{has}, all together {everywhere}"
        gang = wish._replace(may_gang=True)
        if together := gang.helping(working, having.able):
            told, when = together, f"{when}, or several can be used together and {_when(working, together, gang)}"
        else:
            apart = ""  # what keeps nodes apart is not what is in the way
    elif apart:
        when = f"{when}, or several can be used together"
    where = "" if wish.may_gang else " on one node"
    says = (f"It needs {wanted_words(wish.option)}{where}; {has}.", *there.facts, apart)
    return WaitReason(
        code=WaitCode.TOO_MANY_DEVICES,
        text=_with(" ".join(filter(None, says)), told) + _weak_words(weak, wish),
        remedy=f"It starts when {when}; or clone it with fewer devices.{_undrain(told)}",
    )


def _when(working: Sequence[NodeView], helping: Sequence[NodeView], wish: _Wish) -> str:
    """What has to become of the helping ones: of one, of all or of enough. `working`: those that they would join."""
    names = [node.name for node in helping]
    if len(helping) == 1:
        return _kept(helping[0])[1]
    base, total = wish.by_level(working), wish.by_level((*working, *helping))
    each = [(node.sandbox_level, wish.room(node)) for node in helping]
    if all(wish.enough(base[level] + one) for level, one in each):
        return f"one of {_listed(names)} takes work again"
    if len({level for level, _ in each}) == 1 and not any(wish.enough(total[level] - one) for level, one in each):
        return f"{_listed(names)} take work again"
    return f"enough of {_listed(names)} take work again"


def _with(text: str, away: Iterable[NodeView]) -> str:
    """The text, and of each of the nodes what keeps it from working."""
    names: dict[str, list[str]] = defaultdict(list)
    for node in away:
        names[_kept(node)[0]].append(node.name)
    are = (f"{_listed(of)} {'is' if len(of) == 1 else 'are'} {what}." for what, of in sorted(names.items()))
    return " ".join((text, *are))


def _weak_words(nodes: Iterable[NodeView], wish: _Wish) -> str:
    """Of each of these nodes why it could not run the job were it up, with a space before; empty without any."""
    names: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        if node.sandbox_level < wish.level:
            names[f"too weak a sandbox for this program, which needs level {wish.level}"].append(node.name)
        if wish.little_memory(node):
            names[f"too little memory: the job asks for {size_words(wish.option.memory_bytes)}"].append(node.name)
    have = (f" {_listed(of)} {'has' if len(of) == 1 else 'have'} {what}." for what, of in sorted(names.items()))
    return "".join(have)


def _undrain(away: Iterable[NodeView]) -> str:
    """How those that drain take work again, with a space before it; empty where none does."""
    names = [node.name for node in away if node.draining]
    if not names:
        return ""
    let = f"An admin can let {_listed(names)} take jobs again"
    return f" {let}, on the pool page or by dlh pool undrain {names[0]}."


def _is_down(node: NodeView) -> bool:
    return _kept(node)[0] == "down"


def _kept(node: NodeView) -> tuple[str, str]:
    """(what it is, what has to become of it) of one that takes no work."""
    if node.draining:
        return "draining", f"{node.name} drains no longer"
    if node.twins:
        return _TWINS, f"one machine alone reports as {node.name}"
    if node.clock_off:
        return _CLOCK_OFF, f"the clock of {node.name} is right"
    return "down", f"{node.name} is up"


def _listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b, c and others`."""
    shown = [*names[:_NAMED], *(["others"] if len(names) > _NAMED else [])]
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
