"""Read the links between nodes: over what ranks on two of them would talk, and what was timed there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations
from typing import Any

from django.db.models import F

from harness.pool.gangs import span_problem
from harness.pool.models import NetworkEncryption, NetworkKind, Node, NodeLink, NodeState, PoolSetting
from harness.pool.networks import encrypting, network_kind
from harness.pool.services import pool_setting_get
from scheduler.estimation.device_parts import LinkModel
from scheduler.estimation.link import pair_link

Pair = tuple[Node, Node]


@dataclass(frozen=True, kw_only=True)
class LinkRow:
    """One link, as it is shown."""

    first: str
    second: str
    round_trip_s: float | None
    round_trip_noise: float
    bytes_per_s: float | None
    """Each way, while as many come back."""
    bytes_noise: float
    network: str
    """A `NetworkKind`: what it was timed through; empty: it never was."""
    own_network: bool
    """Timed in a network for the two alone, as ranks there have it, and not over the networks of the hosts."""
    measured_at: datetime | None
    current: bool
    """It was timed over what ranks would use now: estimates use it."""
    waits: bool
    """It is to be timed, when both nodes are idle."""
    away: tuple[str, ...]
    """Which of the two take no work now, since they are down or drained: it is not timed before they do."""
    problem: str
    """Why it could not be timed the last time."""

    @property
    def network_words(self) -> str:
        """What it was timed through."""
        return NetworkKind(self.network).label if self.network else ""

    @property
    def waits_words(self) -> str:
        """What it waits for."""
        if not self.away:
            return "until both nodes are idle"
        take = "takes" if len(self.away) == 1 else "take"
        return f"until {' and '.join(self.away)} {take} work again and both nodes are idle"


def pairs_of(nodes: Iterable[Node], *, of: Node | None = None) -> list[Pair]:
    """Pairs of nodes that take work and whose ranks could reach each other; `of`: only those of this node."""
    ordered = sorted(nodes, key=lambda node: node.name)
    named = combinations(ordered, 2)
    off = NetworkEncryption.OFF  # what they reach is asked here, not what may be sent there
    return [pair for pair in named if (of is None or of in pair) and not span_problem(pair, off)]


def path_of(pair: Pair, setting: PoolSetting) -> dict[str, Any]:
    """Over what ranks on the two talk, as the pool's setting says and the two can."""
    return {"addresses": [node.address for node in pair], "network": network_kind(pair, setting).value}


def link_is_current(link: NodeLink, setting: PoolSetting) -> bool:
    """Whether it was timed, and over what ranks on the two nodes would use now; needs both nodes."""
    return link.measured_at is not None and link.path == path_of((link.first, link.second), setting)


def link_list() -> list[LinkRow]:
    """All links that were timed or are to be, the slowest first."""
    setting = pool_setting_get()
    rows = NodeLink.objects.prefetch_related("first", "second").order_by(
        F("bytes_per_s").asc(nulls_first=True), "first__name", "second__name"
    )
    return [
        LinkRow(
            first=row.first.name,
            second=row.second.name,
            round_trip_s=row.round_trip_s,
            round_trip_noise=row.round_trip_noise,
            bytes_per_s=row.bytes_per_s,
            bytes_noise=row.bytes_noise,
            network=row.path.get("network", ""),
            own_network=row.path.get("network", NetworkKind.HOSTS) != NetworkKind.HOSTS,
            measured_at=row.measured_at,
            current=link_is_current(row, setting),
            waits=row.wanted_at is not None or bool(row.order),
            away=tuple(node.name for node in (row.first, row.second) if node.state != NodeState.UP),
            problem=row.problem,
        )
        for row in rows
    ]


class LinksKnown:
    """The links among some nodes that estimates may use, by the nodes' ids."""

    def __init__(self, links: Mapping[frozenset[str], NodeLink], encrypting: Mapping[str, bool]) -> None:
        """`encrypting`: as `harness.pool.networks.encrypting` tells."""
        self._links, self._encrypting = links, encrypting

    def among(self, nodes: Sequence[str]) -> list[NodeLink]:
        """Those of the pairs of these nodes that were timed."""
        inside = set(nodes)
        return [link for link in self._links.values() if inside.issuperset((link.first_id, link.second_id))]

    def among_named(self, names: Collection[str]) -> list[NodeLink]:
        """The same by the nodes' names."""
        return [link for link in self._links.values() if link.first.name in names and link.second.name in names]

    def process_between(self, nodes: Sequence[str]) -> bool:
        """Whether a process may encrypt what ranks on some of these nodes send to each other."""
        by_process = [self._encrypting[node] for node in nodes if node in self._encrypting]
        return len(by_process) > 1 and any(by_process)


def links_known(nodes: Collection[str]) -> LinksKnown:
    """What was timed between these nodes (ids), over what ranks would use now."""
    if len(nodes) < 2:
        return LinksKnown({}, {})
    setting = pool_setting_get()
    rows = NodeLink.objects.filter(first__in=nodes, second__in=nodes, measured_at__isnull=False)
    return LinksKnown(
        {
            frozenset((row.first_id, row.second_id)): row
            for row in rows.prefetch_related("first", "second")
            if link_is_current(row, setting)
        },
        encrypting(Node.objects.filter(pk__in=nodes), setting),
    )


def link_model(link: NodeLink) -> LinkModel:
    """A timed link, as estimates take it. Raises `ValueError` for one that was never timed."""
    if link.round_trip_s is None or link.bytes_per_s is None:
        raise ValueError(f"the link {link.pk} was never timed")
    return pair_link(link.round_trip_s, link.bytes_per_s)
