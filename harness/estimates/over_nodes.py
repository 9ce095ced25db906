"""Ways that no single node has the devices for: the link they are priced with, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from harness.pool.links import LinksKnown, link_model, links_known
from harness.pool.models import NetworkKind, Node, NodeLink
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.device_parts import LinkModel
from scheduler.estimation.link import sent_bytes, spanned, step_sums_s
from scheduler.estimation.values import Basis
from scheduler.offers.candidates import Candidate
from scheduler.workload import Workload
from worker.words import counted, size_words

Nodes = tuple[str, ...]
MEBIBYTE = 1 << 20
PROCESS_LINK = LinkModel(latency_s=2e-3, bytes_per_s=29.0 * MEBIBYTE, basis=Basis.ASSUMED)
"""Where a process encrypts, until it is timed there: as docs/decisions/035 measured it."""
_PROCESS_WORDS = " A process encrypts what ranks send to other nodes, so that at most 29 MiB/s are assumed."
_BY = {
    NetworkKind.WIREGUARD_KERNEL: " (encrypted by the kernels)",
    NetworkKind.WIREGUARD_PROCESS: " (encrypted by a process)",
}


def links_read(ways: Sequence[Candidate]) -> LinksKnown:
    """What was timed between nodes that any of the ways may lie on."""
    return links_known({node for way in ways for node in way.over_nodes})


def over_nodes(model: DeviceModel, nodes: Sequence[str], links: LinksKnown, workload: Workload) -> DeviceModel:
    """The model for ranks that may lie on any of these nodes; none named: they lie on one."""
    if not nodes:
        return model
    known, pairs = [link_model(link) for link in links.among(nodes)], len(nodes) * (len(nodes) - 1) // 2
    if len(known) < pairs and links.process_between(nodes):
        known, pairs = [*known, PROCESS_LINK], pairs + 1  # one that is assumed, beside those that are missing
    return spanned(model, known, pairs, workload)


def link_notes(ways: Sequence[Candidate], links: LinksKnown, workload: Workload) -> list[str]:
    """What ways over several nodes are priced with, in a sentence for each set of nodes that they may lie on."""
    whose: dict[Nodes, set[str]] = {}
    for way in ways:
        if way.over_nodes:
            names = [name for name, _ in way.allocation.by_model]
            whose.setdefault(tuple(sorted(way.over_nodes)), set()).update(name or way.allocation.kind for name in names)
    notes = []
    for nodes, models in whose.items():
        subject = f"Ways of {', '.join(sorted(models))}" if len(whose) > 1 else "Ways"
        notes.append(f"{subject} that need several nodes {_priced_words(nodes, links, workload)}")
    return list(dict.fromkeys(notes))


def _priced_words(nodes: Nodes, links: LinksKnown, workload: Workload) -> str:
    measured, pairs = links.among(nodes), len(nodes) * (len(nodes) - 1) // 2
    slow = _PROCESS_WORDS if len(measured) < pairs and links.process_between(nodes) else ""
    if not measured:
        return (
            "are priced with the link within a node, which is assumed of them: no link between these nodes is "
            f"measured, and it may be slower.{slow} An admin can have the links measured on the pool page."
        )
    size_bytes, messages = sent_bytes(workload, 2), workload.step_messages
    slowest = max(measured, key=lambda link: step_sums_s(link_model(link), size_bytes, 2, messages))
    said = f"are priced with the slowest measured link between their nodes, {link_words(slowest)}, or the link within "
    if len(measured) == pairs:
        return f"{said}a node where that is slower."
    known = {frozenset((link.first_id, link.second_id)) for link in measured}
    missing = next(pair for pair in combinations(nodes, 2) if frozenset(pair) not in known)
    names = Node.objects.filter(pk__in=missing).order_by("name").values_list("name", flat=True)
    others = pairs - len(measured) - 1
    more = f" and {counted(others, 'other pair')}" if others else ""
    return (
        f"{said}a node where that is slower: what is between {' and '.join(names)}{more} is not measured but "
        f"assumed.{slow} An admin can have it measured on the pool page."
    )


def link_words(link: NodeLink) -> str:
    """`a and b: 0.31 ms there and back, 112 MiB/s each way`, and what encrypts it."""
    model = link_model(link)
    return (
        f"{link.first.name} and {link.second.name}: {1000.0 * model.latency_s:.3g} ms there and back, "
        f"{size_words(model.bytes_per_s)}/s each way{_BY.get(link.path['network'], '')}"
    )
