"""How often a password may be guessed; refusals are counted in the database, so that every process sees them."""

from __future__ import annotations

import re
from datetime import timedelta
from ipaddress import IPv6Address, IPv6Network, ip_address

from django.conf import settings
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone

from harness.accounts.models import SignInFailure

_WITH_PORT = re.compile(r"([0-9.]+):[0-9]+|\[([0-9a-fA-F:.]+)\](?::[0-9]+)?")
WINDOW = timedelta(minutes=15)
IPV6_PREFIX_BITS = 64
"""Of an IPv6 address that counts as one place: a network of so many is what one household or one server is given."""
TRIES_PER_ADDRESS = 8
"""For one name from one address."""
TRIES_FROM_ADDRESS = 100
"""For all names together: one password tried on every name, and the processor time that each refusal takes."""
TRIES_PER_NAME = 60
"""For one name from anywhere: slows guessing from many addresses, and takes a stranger long to lock somebody out."""


def client_address(request: HttpRequest) -> str:
    """Where a request comes from: the peer, or behind a trusted proxy what that proxy says of its own peer.

    Only the last address of `X-Forwarded-For` is the proxy's word; those before it are the client's own claims. Some
    proxies write the port behind it, which is another one for each connection.
    """
    forwarded = str(request.META.get("HTTP_X_FORWARDED_FOR", "")) if settings.BEHIND_PROXY else ""
    peer = forwarded.rpartition(",")[2].strip()
    with_port = _WITH_PORT.fullmatch(peer)
    return (with_port[1] or with_port[2] if with_port else peer) or str(request.META.get("REMOTE_ADDR", ""))


def signin_wait(*, name: str | None, address: str) -> timedelta | None:
    """How long this name must wait at this address; None: it may try. Without a name the address alone counts."""
    recent = SignInFailure.objects.filter(at__gt=timezone.now() - WINDOW).order_by("-at")
    from_there = Q(address=_place(address))
    limits = [(from_there, TRIES_FROM_ADDRESS)]
    if name is not None:
        of_name = Q(name=_name(name))
        limits += [(of_name & from_there, TRIES_PER_ADDRESS), (of_name, TRIES_PER_NAME)]
    waits = []
    for which, tries in limits:
        rows = recent.filter(which)
        oldest_that_counts = next(iter(rows.values_list("at", flat=True)[tries - 1 : tries]), None)
        if oldest_that_counts is not None:
            waits.append(oldest_that_counts + WINDOW - timezone.now())
    return max(waits, default=None)


def signin_failed(*, name: str, address: str) -> None:
    """Count a refusal; those that no longer count are removed."""
    SignInFailure.objects.filter(at__lt=timezone.now() - WINDOW).delete()
    SignInFailure.objects.create(name=_name(name), address=_place(address))


def signin_succeeded(*, name: str, address: str) -> None:
    """Forget the refusals of a name at the address from which it has now signed in."""
    SignInFailure.objects.filter(name=_name(name), address=_place(address)).delete()


def _name(name: str) -> str:
    return name.strip().lower()[:150]


def _place(address: str) -> str:
    """The address as it is counted: of IPv6 its network, in which one machine may take any address it likes."""
    try:
        found = ip_address(address.partition("%")[0].strip("[]"))
    except ValueError:
        return address[:64]
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(IPv6Network((found, IPV6_PREFIX_BITS), strict=False))
