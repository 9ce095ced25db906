"""Where webhooks may go: which URLs, and which addresses a name may lead to.

People choose the URL and control sends, from inside the installation's own network: what only that network reaches
must not be reached by way of a webhook.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import psutil

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str, int], Sequence[str]]
"""(host name, port) -> addresses. Raises `OSError`."""

URL_LETTERS_MAX = 500
_PORTS = {"https": 443, "http": 80}
_PORT_FREE = 1024
"""From here on, and the scheme's own. Below lie the services of machines: mail, remote shells, file systems."""
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# IETF's own; Python 3.11 takes most of it for public, and a cloud's metadata service is there.
_PROTOCOLS = ipaddress.ip_network("192.0.0.0/24")
# Public by number, but a service of the machine's own cloud.
_METADATA = frozenset(map(ipaddress.ip_address, ("168.63.129.16", "169.254.169.254", "fd00:ec2::254")))


class AddressRefused(Exception):
    """No webhook goes there; the message is one sentence for the person who chose it."""


@dataclass(frozen=True)
class Target:
    """A webhook's URL, taken apart."""

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


def url_read(url: str, *, http_too: bool) -> Target:
    """Take a URL apart. `http_too`: also without TLS. Raises `AddressRefused`."""
    if len(url) > URL_LETTERS_MAX or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise AddressRefused(f"A webhook is a URL of at most {URL_LETTERS_MAX} plain letters, without spaces.")
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError as error:
        raise AddressRefused("This is no URL.") from error
    schemes = ("https", "http") if http_too else ("https",)
    if parts.scheme not in schemes or not host:
        raise AddressRefused(f"A webhook starts with {' or '.join(f'{name}://' for name in schemes)} and a host.")
    if parts.username is not None or parts.password is not None:
        raise AddressRefused("A webhook's URL names no user; put a token into its path or query.")
    port = _PORTS[parts.scheme] if port is None else port
    if port != _PORTS[parts.scheme] and port < _PORT_FREE:
        raise AddressRefused(f"Port {port} is none that webhooks may use.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, host, port, path)


def number_check(target: Target, allowed: Sequence[IPNetwork]) -> None:
    """Pass unless the host is written as an address that is refused; asks no name server. Raises `AddressRefused`."""
    try:
        address = ipaddress.ip_address(target.host)
    except ValueError:
        return
    _check([address], allowed)


def resolve(host: str, port: int) -> list[str]:
    """Every address of a name, by this machine's own means. Raises `OSError`."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(answer[4][0]) for answer in found))


def addresses_for(target: Target, allowed: Sequence[IPNetwork], by: Resolve = resolve) -> list[IPAddress]:
    """The addresses to connect to, each of them checked. Raises `AddressRefused`, `OSError`.

    One refused address refuses the name: who answers for it could else choose by chance.
    """
    found = [ipaddress.ip_address(text.partition("%")[0]) for text in by(target.host, target.port)]
    if not found:
        raise OSError("the name has no address")
    _check(found, allowed)
    return found


def _check(addresses: Sequence[IPAddress], allowed: Sequence[IPNetwork]) -> None:
    own = _own_addresses()
    for address in addresses:
        meant = _meant(address)
        if any(meant in network for network in allowed):
            continue
        if not _is_outside(meant) or meant in own:
            raise AddressRefused(
                "Its address belongs to this machine, a private network or a cloud's own services, where webhooks may "
                "not go unless an admin allows it (DLH_WEBHOOK_NETWORKS)."
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
