"""This machine among the other nodes: its name, its address, and whether ranks could reach each other."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from worker import address as addresses
from worker import reach as reaching
from worker import sandbox
from worker.doctor.findings import Finding, State, bad, ok, skip, warn
from worker.sandbox.overlay import PORT
from worker.sandbox.wireguard import PORTS as ENCRYPTED_PORTS

CONNECT_S = 3.0
PORTS_TRIED = 4
DATAGRAM_S, DATAGRAMS_TRIED = 1.0, 3
"""Refusals of datagrams are rationed by the kernel that sends them."""
REACH_S = 60.0
"""So long for all peers together: a firewall that is silent takes seconds for each."""
PEERS_AT_ONCE = 64
PEERS_NAMED = 8
"""So many have a line of their own, good and bad ones each: the portal takes 60 lines of one machine."""
_NAMES_MAX = 20
_BY_IPV4 = "ranks that share the hosts' networks meet by IPv4 alone"
_NAME_IPV4 = "Name an IPv4 address of each node (DLH_NODE_ADDRESS, or --address when joining)."
_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def port_range() -> tuple[int, int]:
    """Ports that ranks listen on: the kernel's own choice."""
    with contextlib.suppress(OSError, ValueError):
        low, high = _RANGE_FILE.read_text().split()
        return int(low), int(high)
    return reaching.RANK_PORTS.start, reaching.RANK_PORTS.stop - 1


def network(peers: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """All of it."""
    own, problem = addresses.own_address(), sandbox.network_problem()
    yield own_address(own, several=bool(peers))
    yield host_name(int(sandbox.host().level))
    yield own_network(problem, required=any(peer.get("encryption_required") for peer in peers))
    if not problem:
        yield encryption(sandbox.encryption_problem(), sandbox.encryption_problem(by_kernel=True))
    if own:
        yield own_ports(own)
    yield from reach(own, peers, able=not problem)


def own_address(own: str, *, several: bool) -> Finding:
    """Whether other nodes could reach it."""
    name, step = "address", "Name one that other nodes can reach: DLH_NODE_ADDRESS, or --address when joining."
    if not own:
        return bad(name, "none found", "No job of several nodes can use this one.", step)
    try:
        interface = addresses.interface_of(own)
    except ValueError as error:
        return bad(name, f"{own}: {error}", "Ranks here cannot listen.", step)
    speeds = {link["name"]: link["speed_mbit"] for link in addresses.links()}
    speed = f", {speeds[interface]} Mbit/s" if speeds.get(interface) else ""
    text = f"{own} on {interface}{speed}"
    if addresses.is_loopback(own):
        meaning = "Only nodes of this same machine reach it: good for tests, not for a pool of several machines."
        return warn(name, text, meaning, step) if several else ok(name, text, meaning)
    return ok(name, text)


def _is_ipv6(address: str) -> bool:
    return ":" in address


def own_network(problem: str, *, required: bool = False) -> Finding:
    """Whether ranks of a job on several nodes can have a network that they share with nobody."""
    name = "network of ranks"
    if not problem and required:
        return ok(name, "their own, which must be encrypted")
    if not problem:
        return ok(name, f"their own, by UDP port {PORT}", "That port must be open between the nodes.")
    meaning = "Ranks of jobs on several nodes share this host's network here: two such jobs could reach each other."
    return ok(name, f"the hosts': {problem}", meaning)


def encryption(problem: str, kernel_problem: str) -> Finding:
    """Whether that network can be encrypted, and by what."""
    name, ports = "encryption between nodes", f"UDP ports {ENCRYPTED_PORTS.start}-{ENCRYPTED_PORTS.stop - 1}"
    if not kernel_problem:
        return ok(name, f"by the kernel's WireGuard, {ports}", "They must be open between the nodes.")
    if not problem:
        meaning = f"Slower than by the kernel, so an admin must ask for it (Pool, Settings): {kernel_problem}."
        return ok(name, f"by wireguard-go, {ports}", meaning)
    meaning = "Anyone on the network between the nodes can read what the ranks of a job send each other."
    return ok(name, f"none: {problem}", meaning)


def host_name(level: int) -> Finding:
    """Debian's `127.0.1.1 host` makes Gloo hang: inside sandboxes from L2 on, jobs have names of their own."""
    name, host = "name resolution", socket.gethostname()
    try:
        found = sorted({str(entry[4][0]) for entry in socket.getaddrinfo(host, None, socket.AF_INET)})
    except OSError as error:
        found, text = [], f"{host} is not known: {error}"
    else:
        text = f"{host} is {', '.join(found)}"
    if found and not any(addresses.is_loopback(item) for item in found):
        return ok(name, text)
    step = "Give the host's own address and name a line in /etc/hosts, and remove 127.0.1.1."
    if level >= 2:
        return ok(name, text, "No harm to jobs: each sandbox has its own host name and hosts file.")
    return bad(name, text, "Ranks on several nodes hang or crash: below L2 they use this machine's names.", step)


def own_ports(own: str) -> Finding:
    """A connection to ourselves by the address that others use: it stays within this machine, see `inbound`."""
    if _is_ipv6(own):
        return warn("own ports", f"{own} is of IPv6", f"{_BY_IPV4[0].upper()}{_BY_IPV4[1:]}.", _NAME_IPV4)
    low, high = port_range()
    try:
        with socket.socket() as server:
            server.bind((own, 0))
            server.listen(1)
            socket.create_connection(server.getsockname(), timeout=CONNECT_S).close()
    except OSError as error:
        step = f"Let ports {low}-{high} of {own} through this machine's firewall."
        return bad("own ports", f"{own} cannot be reached from here: {error}", "Ranks here cannot connect.", step)
    return ok("own ports", f"ranks can listen on {own}, ports {low}-{high}")


def reach(own: str, peers: Sequence[dict[str, Any]], *, able: bool = False) -> Iterator[Finding]:
    """Can ranks here connect to ranks on the other nodes? A port that refuses is reached; one that is silent is not.

    `able`: ranks here can have a network of their own; with a peer that can, too, they need one port alone.
    """
    up = [peer for peer in peers if peer.get("state") != "down" and peer.get("address")]
    if not up:
        yield skip("other nodes", "none that are up with an address")
        return
    pool = ThreadPoolExecutor(max_workers=PEERS_AT_ONCE)
    asked = [pool.submit(_peer, own, peer, able=able) for peer in up]
    wait(asked, timeout=REACH_S)
    looked_at = [_looked_at(peer, one) for peer, one in zip(up, asked, strict=True) if one.done()]
    late = [str(peer["name"]) for peer, one in zip(up, asked, strict=True) if not one.done()]
    pool.shutdown(wait=False, cancel_futures=True)
    yield from reach_told(looked_at, late)


def _looked_at(peer: dict[str, Any], one: Future[Finding]) -> Finding:
    """What was found of a node; one with an address that is none keeps nobody from hearing of the others."""
    try:
        return one.result()
    except Exception as error:
        step = "Correct its address there (DLH_NODE_ADDRESS)."
        return bad(f"node {peer['name']}", f"{peer['address']} cannot be tried: {error}", "No job gets to it.", step)


def reach_told(looked_at: Sequence[Finding], late: Sequence[str]) -> Iterator[Finding]:
    """A line for each peer where they are few; of many a sum of the good ones, and the names of the others."""
    good = [finding for finding in looked_at if finding.state is State.OK]
    if len(good) <= PEERS_NAMED:
        yield from good
    else:
        yield ok("other nodes", f"{len(good)} of {len(looked_at) + len(late)} are reached as jobs need it")
    rest = sorted((finding for finding in looked_at if finding not in good), key=lambda one: one.state is not State.BAD)
    yield from rest[:PEERS_NAMED]
    if more := rest[PEERS_NAMED:]:
        names = _names([finding.name.removeprefix("node ") for finding in more])
        step = "Mend those above, then run dlh doctor again."
        yield warn("more nodes", f"{len(more)} more have such trouble: {names}", "Jobs over them may hang.", step)
    if late:
        text = f"{len(late)} were not looked at within {REACH_S:.0f} s: {_names(late)}"
        step = "Run dlh doctor again when those above are mended: a port that is silent takes long."
        yield warn("nodes left out", text, "Nothing is known of them.", step)


def _names(names: Sequence[str]) -> str:
    return ", ".join([*names[:_NAMES_MAX], *(["…"] if len(names) > _NAMES_MAX else [])])


def _peer(own: str, peer: dict[str, Any], *, able: bool) -> Finding:
    name, place = f"node {peer['name']}", peer["address"]
    if addresses.is_loopback(place) != addresses.is_loopback(own):
        step = "Give every node an address of the network between them (DLH_NODE_ADDRESS)."
        return bad(name, f"its address is {place}, ours {own}", "No job can span the two.", step)
    if able and peer.get("own_network") and place != own and not addresses.is_loopback(place):
        return tunnel(
            name, place, encrypted=bool(peer.get("encrypted")), required=bool(peer.get("encryption_required"))
        )
    if _is_ipv6(place) or _is_ipv6(own):
        return bad(name, f"its address is {place}, ours {own}", f"No job can span the two: {_BY_IPV4}.", _NAME_IPV4)
    low, high = port_range()
    ports = random.Random(place).sample(range(low, high + 1), PORTS_TRIED)  # noqa: S311 - a choice, no secret
    silent = [port for port in ports if not answers(place, port)]
    if not silent:
        return ok(name, f"{place}: ports {low}-{high} are open between us ({PORTS_TRIED} tried)")
    step = f"Let TCP {low}-{high} through between the nodes' addresses, both ways."
    return bad(name, f"{place}: ports {', '.join(map(str, silent))} are silent", "Jobs over both nodes hang.", step)


def tunnel(name: str, place: str, *, encrypted: bool = False, required: bool = False) -> Finding:
    """Whether datagrams to the ports of the ranks' own networks get to a node. `required`: none of them is in clear."""
    by_wireguard, tried = encrypted or required, dict[str, tuple[int, ...]]()
    if by_wireguard:
        # Those at the ends show a rule that is too narrow, and attempts have them rarely.
        low, high = ENCRYPTED_PORTS.start, ENCRYPTED_PORTS.stop - 1
        tried[f"{low}-{high}"] = (low, high)
    if not required:
        # A gang with a node that cannot encrypt talks in clear, by PORT.
        tried[str(PORT)] = (PORT,)
    called = f"UDP {'ports' if by_wireguard else 'port'} {' and '.join(tried)}"
    silent = [port for ports in tried.values() for port in ports if not refuses_datagrams(place, port)]
    if not silent:
        return ok(name, f"{place}: {called} {'are' if by_wireguard else 'is'} open between us")
    meaning = "A firewall drops it, and jobs over both nodes fail; or such a job uses it right now."
    step = f"Let {called} through between the nodes' addresses, both ways; look again when no job is on both."
    return warn(name, f"{place}: UDP port {' and '.join(map(str, silent))} is silent", meaning, step)


def refuses_datagrams(host: str, port: int) -> bool:
    """Whether a refusal comes back from the port: there is a way to it, and nothing listens now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        sender.settimeout(DATAGRAM_S)
        for _ in range(DATAGRAMS_TRIED):
            try:
                sender.connect((host, port))
                sender.send(b"")
                sender.recv(1)
            except ConnectionRefusedError:
                return True
            except OSError:
                continue
    return False


def answers(host: str, port: int) -> bool:
    """Whether anything, be it a refusal, is known to come back from the port."""
    return reaching.answers(host, port, CONNECT_S) is True
