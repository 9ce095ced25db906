"""Whether others get to the ports on which ranks of a node listen: the portal tries for the node, at its own address.

This must let nobody look around in the portal's network. So it goes to the address alone that the request comes from,
on ports of ranks; it sends nothing, and tells of a port only whether a word that the node has chosen was said there.
How long an answer takes tells nothing either: a port that refuses costs as long as one that is silent.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from django.core.cache import cache

from harness.errors import Invalid, TooMany
from harness.pool.models import Node
from worker.address import interface_of
from worker.reach import RANK_PORTS, says

TRY_S = 3.0
PORTS_MAX = 4
PER_MINUTE_MAX = 6
"""Of one node; counted by each portal process."""


@dataclass(frozen=True, kw_only=True)
class Reached:
    """What came of it."""

    open: tuple[int, ...] = ()
    """Ports at which the word was heard."""
    not_tried: str = ""
    """Why nothing was tried, in a sentence."""


def ports_try(node: Node, *, caller: str, address: str, ports: Sequence[int], word: str) -> Reached:
    """Try the node's ports. `caller`: the address that it calls from; `address`: its own, as it knows it.

    Raises `Invalid`, `TooMany`.
    """
    if not 1 <= len(ports) <= PORTS_MAX or any(port not in RANK_PORTS for port in ports):
        told = f"1 to {PORTS_MAX} ports from {RANK_PORTS.start} to {RANK_PORTS.stop - 1} are tried."
        raise Invalid(told, field="ports")
    _count(node)
    seen = _plain(caller)
    if reason := _not_tried(seen, _plain(address)):
        return Reached(not_tried=reason)
    began_s = time.monotonic()
    with ThreadPoolExecutor(PORTS_MAX) as pool:
        heard = [*pool.map(lambda port: says(seen, port, word, TRY_S), ports)]
    if not all(heard):
        time.sleep(max(0.0, TRY_S - (time.monotonic() - began_s)))
    return Reached(open=tuple(port for port, said in zip(ports, heard, strict=True) if said))


def _count(node: Node) -> None:
    key = f"node-reach-{node.pk}"
    cache.add(key, 0, timeout=60)
    with suppress(ValueError):  # it ended just now
        if cache.incr(key) > PER_MINUTE_MAX:
            raise TooMany("The ports of this node were tried often in this minute.", hint="Wait a minute.")


def _plain(address: str) -> str:
    """One way to write an address; IPv4 in IPv6 is IPv4. Empty for what is none."""
    with suppress(ValueError):
        found = ipaddress.ip_address(address)
        return str(getattr(found, "ipv4_mapped", None) or found)
    return ""


def _not_tried(seen: str, address: str) -> str:
    if not seen or seen != address:
        other = f"The portal sees this machine at {seen or 'no address'}"
        return f"{other}, not at {address or 'its own'}: a proxy, or a translation of addresses, lies between."
    with suppress(ValueError):
        return f"The portal runs on this same machine ({interface_of(seen)} has the address)."
    found = ipaddress.ip_address(seen)
    if found.is_loopback or found.is_link_local or found.is_multicast or found.is_unspecified:
        return f"{seen} is no address of a network between machines."
    return ""
