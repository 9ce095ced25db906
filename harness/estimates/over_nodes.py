"""Ways that no single node has the devices for: the link they are priced with, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from codegen.words import counted
from harness.pool.links import LinksKnown, link_model, links_known
from harness.pool.models import Node, NodeLink
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.link import allreduce_s, spanning_link
from scheduler.offers.values import Candidate
from scheduler.workload import Workload

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
    """What ways over several nodes are priced with, in a sentence."""
    nodes = sorted({node for way in ways for node in way.over_nodes})
    if not nodes:
        return []
    measured, pairs = links.among(nodes), list(combinations(nodes, 2))
    if not measured:
        return [
            "No link between these nodes is measured: ways that need several nodes are priced with the link within a "
            "node, which is assumed of them; between nodes it may be slower. An admin can have the links measured on "
            "the pool page."
        ]
    slowest = max(measured, key=lambda link: allreduce_s(link_model(link), workload.gradient_bytes, 2))
    said = f"the slowest measured link between them, {link_words(slowest)}"
    if len(measured) == len(pairs):
        return [f"Ways that need several nodes are priced with {said}."]
    known = {frozenset((link.first_id, link.second_id)) for link in measured}
    missing = [pair for pair in pairs if frozenset(pair) not in known]
    names = dict(Node.objects.filter(pk__in=missing[0]).values_list("pk", "name"))
    first = " and ".join(sorted(names[node] for node in missing[0] if node in names))
    more = f" and {counted(len(missing) - 1, 'other pair')}" if missing[1:] else ""
    return [
        f"Ways that need several nodes are priced with {said}, or the link within a node where that is slower: what is "
        f"between {first}{more} is not measured but assumed. An admin can have it measured on the pool page."
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
