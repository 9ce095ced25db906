"""Ways that no single node has the devices for: the link they are priced with, and what is said of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import combinations

from codegen.words import counted
from harness.pool.links import LinksKnown, link_model, links_known
from harness.pool.models import NetworkEncryption, Node, NodeLink
from harness.pool.networks import encryption_problem
from harness.pool.services import pool_setting_get
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.link import allreduce_s, spanning_link
from scheduler.offers.values import Candidate
from scheduler.workload import Workload

Nodes = tuple[str, ...]
MEBIBYTE = 1 << 20


def links_read(ways: Sequence[Candidate]) -> LinksKnown:
    """What was timed between nodes that any of the ways may lie on."""
    return links_known({node for way in ways for node in way.over_nodes})


def over_nodes(model: DeviceModel, nodes: Sequence[str], links: LinksKnown, workload: Workload) -> DeviceModel:
    """The model for ranks that may lie on any of these nodes; none named: they lie on one."""
    if not nodes:
        return model
    measured = [link_model(link) for link in links.among(nodes)]
    pairs = len(nodes) * (len(nodes) - 1) // 2
    return replace(model, nodes_link=spanning_link(model.link, measured, pairs, workload.gradient_bytes))


def link_notes(ways: Sequence[Candidate], links: LinksKnown, workload: Workload) -> list[str]:
    """What ways over several nodes are priced with, in a sentence for each set of nodes that they may lie on."""
    whose: dict[Nodes, set[str]] = {}
    for way in ways:
        if way.over_nodes:
            names = [name for name, _ in way.allocation.parts] or [way.allocation.model_name]
            whose.setdefault(tuple(sorted(way.over_nodes)), set()).update(name or way.allocation.kind for name in names)
    notes = []
    for nodes, models in whose.items():
        subject = f"Ways of {', '.join(sorted(models))}" if len(whose) > 1 else "Ways"
        notes.append(f"{subject} that need several nodes {_priced_words(nodes, links, workload)}")
    return list(dict.fromkeys(notes)) + (_in_clear_note({node for nodes in whose for node in nodes}) if whose else [])


def _priced_words(nodes: Nodes, links: LinksKnown, workload: Workload) -> str:
    measured, pairs = links.among(nodes), len(nodes) * (len(nodes) - 1) // 2
    if not measured:
        return (
            "are priced with the link within a node, which is assumed of them: no link between these nodes is "
            "measured, and it may be slower. An admin can have the links measured on the pool page."
        )
    slowest = max(measured, key=lambda link: allreduce_s(link_model(link), workload.gradient_bytes, 2))
    said = f"are priced with the slowest measured link between their nodes, {link_words(slowest)}, or the link within "
    if len(measured) == pairs:
        return f"{said}a node where that is slower."
    known = {frozenset((link.first_id, link.second_id)) for link in measured}
    missing = next(pair for pair in combinations(nodes, 2) if frozenset(pair) not in known)
    names = Node.objects.filter(pk__in=missing).order_by("name").values_list("name", flat=True)
    others = pairs - len(measured) - 1
    more = f" and {counted(others, 'other pair')}" if others else ""
    return (
        f"{said}a node where that is slower: what is between {' and '.join(names)}{more} is not measured but assumed. "
        "An admin can have it measured on the pool page."
    )


def _in_clear_note(nodes: Collection[str]) -> list[str]:
    """What a link that was timed in clear does not know."""
    wish = pool_setting_get().network_encryption
    if wish not in {NetworkEncryption.PREFERRED, NetworkEncryption.REQUIRED}:
        return []
    if not encryption_problem(Node.objects.filter(pk__in=nodes), NetworkEncryption.KERNEL):
        return []
    return [
        "Links are timed in clear. Here a process encrypts what ranks send to other nodes, which gives them 35 MiB/s "
        "at most: ways over several nodes may take longer than told."
    ]


def link_words(link: NodeLink) -> str:
    """`a and b: 0.31 ms there and back, 112 MiB/s each way`."""
    model = link_model(link)
    rate = model.bytes_per_s / MEBIBYTE
    said = f"{rate:.0f}" if rate >= 100 else f"{rate:.3g}"
    return (
        f"{link.first.name} and {link.second.name}: {1000.0 * model.latency_s:.3g} ms there and back, "
        f"{said} MiB/s each way"
    )
