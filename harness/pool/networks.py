"""Which nodes' ranks can have a network for themselves, and one that is encrypted."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable

from harness.pool.models import NetworkEncryption, NetworkKind, Node, NodeState, PoolSetting

ENCRYPTED = frozenset({NetworkKind.WIREGUARD_KERNEL, NetworkKind.WIREGUARD_PROCESS})


def is_loopback(host: str) -> bool:
    """Whether an address or host name means this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in {"localhost", ""}


def network_problem(nodes: Iterable[Node]) -> str:
    """Why ranks on these nodes cannot have a network for themselves; empty where they can."""
    at: dict[str, str] = {}
    for node in sorted(nodes, key=lambda node: node.name):
        if is_loopback(node.address):
            return f"the address of {node.name} means its own machine only"
        if node.address in at:
            return f"{at[node.address]} and {node.name} are on one machine"
        at[node.address] = node.name
        problem = node.description.get("network_problem", "its release knows no such networks")
        if problem:
            return f"{node.name} cannot make one: {problem}"
    return ""


def networks_everywhere() -> bool:
    """Whether ranks on any nodes that are up could have a network for themselves."""
    up = Node.objects.filter(state=NodeState.UP)
    able = up.filter(description__network_problem="").values_list("address", flat=True)
    return not any(map(is_loopback, able)) and len(set(able)) == up.count()


def encryption_problem(nodes: Iterable[Node], wish: str) -> str:
    """Why a network of ranks on these nodes is not encrypted under this setting; empty where it is."""
    if wish == NetworkEncryption.OFF:
        return "it is turned off"
    field = "kernel_encryption_problem" if wish == NetworkEncryption.KERNEL else "encryption_problem"
    for node in sorted(nodes, key=lambda node: node.name):
        problem = node.description.get(field, "its release cannot")
        if problem:
            return f"{node.name} cannot: {problem}"
    return ""


def network_kind(nodes: Collection[Node], setting: PoolSetting) -> NetworkKind:
    """What ranks on these nodes talk through; as far as the nodes can, where that is not enough for `required`: then no
    job lies on them."""
    if not setting.ranks_apart or network_problem(nodes):
        return NetworkKind.HOSTS
    if encryption_problem(nodes, setting.network_encryption):
        return NetworkKind.VXLAN
    in_kernels = not encryption_problem(nodes, NetworkEncryption.KERNEL)
    return NetworkKind.WIREGUARD_KERNEL if in_kernels else NetworkKind.WIREGUARD_PROCESS


def encrypting(nodes: Iterable[Node], setting: PoolSetting) -> dict[str, bool]:
    """Those that may encrypt what their ranks send to other nodes, if need be by a process: id -> whether by one."""
    wish = setting.network_encryption
    if wish not in {NetworkEncryption.PREFERRED, NetworkEncryption.REQUIRED} or not setting.ranks_apart:
        return {}
    able = [node for node in nodes if not is_loopback(node.address) and not encryption_problem([node], wish)]
    return {node.pk: bool(encryption_problem([node], NetworkEncryption.KERNEL)) for node in able}


def encryption_missing() -> str:
    """Why ranks on some nodes that are up could have no encrypted network; empty where all could."""
    up = Node.objects.filter(state=NodeState.UP)
    able = up.filter(description__encryption_problem="")
    unable = list(up.exclude(pk__in=able).order_by("name").values_list("name", flat=True))
    if unable:
        return f"{', '.join(unable)} cannot encrypt what ranks send to other nodes."
    return "" if networks_everywhere() else "Nodes of one machine, or at its loopback address, share its network."
