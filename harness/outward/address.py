"""Where requests to hosts that people name may go: which URLs, and which addresses a name may lead to.

People choose the URL and control asks, from inside the installation's own network: what only that network reaches
must not be reached by way of a webhook or of a dataset's address.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import psutil

from harness.env import IPNetwork

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Sequence[str]]
"""(host name, port) -> addresses. Raises `OSError`."""

_PORTS = {"https": 443, "http": 80}
_PORT_FREE = 1024
"""From here on, and the scheme's own. Below lie the services of machines: mail, remote shells, file systems."""
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# IETF's own; Python 3.11 takes most of it for public, and a cloud's metadata service is there.
_PROTOCOLS = ipaddress.ip_network("192.0.0.0/24")
# Public by number, but a service of the machine's own cloud.
_METADATA = frozenset(map(ipaddress.ip_address, ("168.63.129.16", "169.254.169.254", "fd00:ec2::254")))


class AddressRefused(Exception):
    """No request goes there; the message is one sentence for the person who chose it."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What one kind of request may do, and the words for it."""

    what: str
    """Such as `a webhook`."""
    setting: str
    """The admin's, which allows private networks."""
    networks: Sequence[IPNetwork] = ()
    """Those it allows."""
    letters_max: int
    http_too: bool = False
    """Also without TLS."""

    @property
    def subject(self) -> str:
        """The beginning of a sentence."""
        return self.what[0].upper() + self.what[1:]


@dataclass(frozen=True)
class Target:
    """A URL, taken apart."""

    scheme: str
    host: str
    port: int
    path: str
    """With the query."""

    @property
    def origin(self) -> str:
        """What may be shown of it: the rest often is a secret."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{shown}" + ("" if self.port == _PORTS[self.scheme] else f":{self.port}")


def url_read(url: str, rules: Rules) -> Target:
    """Take a URL apart. Raises `AddressRefused`."""
    if len(url) > rules.letters_max or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise AddressRefused(
            f"{rules.subject} must be a URL of at most {rules.letters_max} plain characters, without spaces."
        )
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError as error:
        raise AddressRefused("This is not a valid URL.") from error
    schemes = ("https", "http") if rules.http_too else ("https",)
    if parts.scheme not in schemes or not host:
        starts = " or ".join(f"{name}://" for name in schemes)
        raise AddressRefused(f"{rules.subject} starts with {starts} and a host.")
    if parts.username is not None or parts.password is not None:
        raise AddressRefused(f"{rules.subject} names no user and no password.")
    port = _PORTS[parts.scheme] if port is None else port
    if port != _PORTS[parts.scheme] and port < _PORT_FREE:
        raise AddressRefused(f"{rules.subject} may not use port {port}.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, host, port, path)


def number_check(target: Target, rules: Rules) -> None:
    """Pass unless the host is written as an address that is refused; asks no name server. Raises `AddressRefused`."""
    try:
        address = ipaddress.ip_address(target.host)
    except ValueError:
        return
    _check([address], rules)


def resolve(host: str, port: int) -> list[str]:
    """Every address of a name, by this machine's own means. Raises `OSError`."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(answer[4][0]) for answer in found))


def addresses_for(target: Target, rules: Rules, by: Resolve = resolve) -> list[IPAddress]:
    """The addresses to connect to, each of them checked. Raises `AddressRefused`, `OSError`.

    One refused address refuses the name: who answers for it could else choose by chance.
    """
    found = [ipaddress.ip_address(text.partition("%")[0]) for text in by(target.host, target.port)]
    if not found:
        raise OSError("the name has no address")
    _check(found, rules)
    return found


def _check(addresses: Sequence[IPAddress], rules: Rules) -> None:
    own = _own_addresses()
    for address in addresses:
        meant = _meant(address)
        if any(meant in network for network in rules.networks):
            continue
        if not _is_outside(meant) or meant in own:
            raise AddressRefused(
                "Its host belongs to this machine, a private network or a cloud's own services, where "
                f"{rules.what} may not lead unless an admin allows it ({rules.setting})."
            )


def _meant(address: IPAddress) -> IPAddress:
    """The IPv4 address that an IPv6 one stands for, where a gateway or the kernel would turn it into that."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _is_outside(address: IPAddress) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and (address.is_site_local or address.sixtofour or address.teredo):
        return False
    special = address.is_multicast or address.is_reserved or address.is_loopback or address.is_link_local
    return address.is_global and not special and address not in _METADATA and address not in _PROTOCOLS


def _own_addresses() -> set[IPAddress]:
    """Of this machine's interfaces: services may listen there that a firewall hides from everybody else."""
    texts = (one.address for interface in psutil.net_if_addrs().values() for one in interface)
    found = set()
    for text in texts:
        try:
            found.add(ipaddress.ip_address(text.partition("%")[0]))
        except ValueError:  # a hardware address
            continue
    return found
