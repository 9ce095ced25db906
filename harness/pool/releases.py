"""Which release of the platform the nodes have: ranks on several of them must understand each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from harness.pool.models import Node, NodeState, PoolSetting
from harness.pool.selectors import span_problem

_NAMED = 3
"""So many nodes of a release are named at most."""


def releases_problem() -> str:
    """Which releases the nodes that are up have, in a sentence, where it is not one; else empty."""
    by_release: dict[str, list[str]] = defaultdict(list)
    rows = Node.objects.filter(state=NodeState.UP).order_by("name").values_list("name", "description__release")
    for name, release in rows:
        by_release[str(release or "")].append(name)
    if len(by_release) < 2:
        return ""
    each = [f"{_names(names)} {release or 'an older one'}" for release, names in sorted(by_release.items())]
    return f"Jobs over several nodes need one release of the platform on all of them; there is {', '.join(each)}."


def _names(names: list[str]) -> str:
    rest = len(names) - _NAMED
    return f"{', '.join(names[:_NAMED])}{f' and {rest} more' if rest > 0 else ''} with"


def gang_problem(nodes: Iterable[Node], setting: PoolSetting) -> str:
    """Why no job can use several of the nodes that are up, though an admin allows it; empty where one can."""
    return span_problem(nodes, setting.network_encryption) or releases_problem()
