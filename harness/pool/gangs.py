"""Whether one job can use several nodes: they have to reach each other, and to have one release of the platform."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from harness.pool.models import NetworkEncryption, Node, NodeState, PoolSetting
from harness.pool.networks import encryption_missing, is_loopback

_NAMED = 3
"""So many nodes of a release are named at most."""
SPAN_NODES = "One job may use several nodes"
"""The field `span_nodes` of the pool's settings as people read it."""


def gang_problem(nodes: Iterable[Node], setting: PoolSetting) -> str:
    """Why no job can use several of the nodes that are up; empty where one can, and where nobody allowed it to the
    one node there is.

    `nodes`: at least all that are up. Forms, offers and the scheduler ask this alone.
    """
    nodes = list(nodes)
    if not setting.span_nodes:
        several = sum(node.state == NodeState.UP for node in nodes) > 1
        return f"The pool's setting “{SPAN_NODES}” is off." if several else ""
    return span_problem(nodes, setting.network_encryption) or releases_problem()


def span_problem(nodes: Iterable[Node], encryption: str) -> str:
    """Why no job can use several of these nodes; empty where one can. `encryption`: the pool's setting."""
    nodes = list(nodes)
    up = [node for node in nodes if node.state == NodeState.UP]
    if len(up) < 2:
        away = sorted(node.name for node in nodes if node.state != NodeState.UP)
        others = f"; {_names(away)} {'does' if len(away) == 1 else 'do'} not" if away else ""
        return f"Only one node takes work{others}."
    unknown = [node.name for node in up if not node.address]
    if unknown:
        return f"The address of {', '.join(unknown)} is not known."
    local = [node.name for node in up if is_loopback(node.address)]
    if local and (len(local) < len(up) or len({node.boot_id for node in up}) > 1):
        return f"The address of {', '.join(local)} means its own machine only; set DLH_NODE_ADDRESS there."
    return encryption_missing() if encryption == NetworkEncryption.REQUIRED else ""


def releases_problem() -> str:
    """Which releases the nodes that are up have, in a sentence, where it is not one; else empty."""
    by_release: dict[str, list[str]] = defaultdict(list)
    rows = Node.objects.filter(state=NodeState.UP).order_by("name").values_list("name", "description__release")
    for name, release in rows:
        by_release[str(release or "")].append(name)
    if len(by_release) < 2:
        return ""
    each = [f"{_names(names)} with {release or 'an older one'}" for release, names in sorted(by_release.items())]
    return f"Jobs over several nodes need one release of the platform on all of them; there is {', '.join(each)}."


def _names(names: list[str]) -> str:
    rest = len(names) - _NAMED
    return f"{', '.join(names[:_NAMED])}{f' and {rest} more' if rest > 0 else ''}"
